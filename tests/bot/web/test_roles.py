"""Every route, every role: who may do what. A new route must be entered here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route

from faultline.bot.api.routes import api_routes
from faultline.bot.conversation.on_page import PageAnswers
from faultline.bot.intake.accepting import store_accept
from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.settings.people import LoginSettings
from faultline.bot.web.pages import page_routes
from tests.bot.web.sample_case import ALERT
from tests.bot.web.serving import PATIENT_S, Server, Site, form_of, serving, sign_in

TOKEN = "correct horse battery staple"
ONE = "/investigations/{id}"
MAY = {
    "viewer": (
        ("GET", "/"),
        ("GET", "/accuracy"),
        ("GET", "/health"),
        ("GET", "/judged.zip"),
        ("GET", ONE),
        ("GET", ONE + "/findings/{finding_id}"),
        ("GET", ONE + "/events"),
        ("GET", ONE + "/series/{finding_id}.json"),
        ("GET", ONE + "/case.zip"),
        ("GET", ONE + "/trace-report"),
        ("GET", ONE + "/export/{file}"),
        ("GET", ONE + "/replay"),
        ("POST", ONE + "/replay"),
        ("POST", ONE + "/question"),
        ("GET", "/account"),
        ("POST", "/logout"),
        ("POST", "/logout/everywhere"),
        ("GET", "/{path:path}"),
        ("GET", "/api/investigations"),
        ("GET", "/api" + ONE),
        ("GET", "/api" + ONE + "/answer"),
        ("GET", "/api" + ONE + "/findings"),
        ("GET", "/api" + ONE + "/findings/{finding_id}"),
        ("GET", "/api" + ONE + "/events"),
        ("GET", "/api/deploy-checks/{check_id}"),
        ("GET", "/api/{path:path}"),
    ),
    "responder": (
        ("POST", ONE + "/judgement"),
        ("POST", ONE + "/again"),
        ("POST", ONE + "/ticket"),
        ("GET", "/investigate"),
        ("POST", "/investigate"),
        ("POST", "/api/investigations"),
        ("POST", "/api" + ONE + "/feedback"),
        ("POST", "/api/deploy-checks"),
    ),
    "admin": (
        ("GET", "/audit"),
        ("GET", "/audit.csv"),
        ("GET", "/settings"),
        ("GET", "/tokens"),
        ("POST", "/tokens"),
        ("POST", "/tokens/{token_id}/revoke"),
    ),
}
EVERYBODY = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/login"),
    ("POST", "/login"),
    ("GET", "/api/openapi.json"),
}
ROLES = tuple(MAY)
GUARDED = [(method, path, role) for role, routes in MAY.items() for method, path in routes]


def address(path: str) -> str:
    return (
        path.replace("{id}", "none")
        .replace("{finding_id}", "F1")
        .replace("{check_id}", "none")
        .replace("{path:path}", "nothing")
    )


@pytest.fixture
def site(server: Server, tmp_path: Path) -> Iterator[Site]:
    with serving(server, tmp_path, settings_for("viewer")) as running:
        yield running


def settings_for(role: str) -> Settings:
    return Settings(
        server=ServerSettings(access_token=SecretStr(TOKEN)),
        login=LoginSettings(token_role=role),  # type: ignore[arg-type]
    )


def routes_for(role: str, site: Site) -> list[BaseRoute]:
    async def no_case(_id: str) -> Path | None:
        return None

    known = settings_for(role)
    accept = store_accept(site.store)
    doors = [partial(api_routes, accept=accept)]
    answer = PageAnswers(known)
    return page_routes(known, site.store, no_case, answer=answer, accept=accept, doors=doors)


def be(server: Server, site: Site, role: str) -> None:
    """Serve the same site to token holders of this role."""
    server.app = Starlette(routes=routes_for(role, site))


def test_every_route_is_in_the_table(site: Site) -> None:
    known = {(method, path) for method, path, _ in GUARDED} | EVERYBODY
    for route in routes_for("viewer", site):
        if isinstance(route, Mount):
            assert route.path == "/static"
            continue
        assert isinstance(route, Route)
        assert route.methods is not None
        for method in route.methods - {"HEAD"}:
            assert (method, route.path) in known, f"say in MAY who may {method} {route.path}"


def test_without_a_login_every_guarded_route_is_closed(site: Site) -> None:
    with httpx.Client(timeout=PATIENT_S, base_url=site.url) as client:
        for method, path, _ in GUARDED:
            answer = client.request(method, address(path))
            assert answer.status_code == 401, (method, path)
            if path.startswith("/api/"):
                assert "Bearer faultline_" in answer.json()["error"]
                continue
            answer = client.request(method, address(path), headers={"accept": "text/html"})
            assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (
                303,
                "/login",
            ), (method, path)


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_do_what_it_says_and_no_more(server: Server, site: Site, role: str) -> None:
    be(server, site, role)
    with httpx.Client(
        timeout=PATIENT_S, base_url=site.url, headers={"accept": "text/html"}
    ) as client:
        sign_in(client, TOKEN)
        form = form_of(client, "/account")
        for method, path, takes in GUARDED:
            if path.startswith("/logout"):
                continue
            answer = client.request(method, address(path), data=form if method == "POST" else None)
            refused = answer.status_code == 403
            assert refused == (ROLES.index(role) < ROLES.index(takes)), (
                method,
                path,
                answer.status_code,
            )
            if refused:
                assert f"takes the role {takes}; yours is {role}" in answer.text


def test_every_form_needs_the_value_of_its_login_and_no_other_site_can_send_it(
    server: Server, site: Site
) -> None:
    be(server, site, "admin")
    posts = [
        address(path)
        for method, path, _ in GUARDED
        if method == "POST" and not path.startswith(("/logout", "/api/"))
    ]
    with (
        httpx.Client(timeout=PATIENT_S, base_url=site.url) as client,
        httpx.Client(timeout=PATIENT_S, base_url=site.url) as other,
    ):
        for one in (client, other):
            one.headers["accept"] = "text/html"
            sign_in(one, TOKEN)
        mine, theirs = form_of(client, "/account"), form_of(other, "/account")
        assert mine != theirs
        for path in posts:
            for form in ({}, theirs, {"csrf": ""}, {"csrf": mine["csrf"][:-1]}):
                assert client.post(path, data=form).status_code == 403, path
            assert client.post(path, json=mine).status_code == 403
            assert client.post(path, data={**mine, "more": "x" * 70_000}).status_code == 413
            for header in (
                {"origin": "https://evil.example"},
                {"origin": "null"},
                {"sec-fetch-site": "cross-site"},
                {"sec-fetch-site": "same-site", "origin": site.url},
            ):
                assert client.post(path, data=mine, headers=header).status_code == 403, (
                    path,
                    header,
                )
            own = {"sec-fetch-site": "same-origin", "origin": site.url}
            assert client.post(path, data=mine, headers=own).status_code != 403
            assert client.post(path, headers={"x-csrf-token": mine["csrf"]}).status_code != 403


def test_a_script_with_the_token_needs_no_form(server: Server, site: Site) -> None:
    be(server, site, "responder")
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert (
        httpx.post(
            f"{site.url}/investigations/none/judgement", headers=bearer, timeout=PATIENT_S
        ).status_code
        == 404
    )
    assert httpx.get(f"{site.url}/audit", headers=bearer, timeout=PATIENT_S).status_code == 403


def test_other_sites_cannot_embed_or_fetch_but_can_link(server: Server, site: Site) -> None:
    be(server, site, "viewer")
    with httpx.Client(
        timeout=PATIENT_S, base_url=site.url, headers={"accept": "text/html"}
    ) as client:
        sign_in(client, TOKEN)
        foreign = {"sec-fetch-site": "cross-site"}
        assert client.get("/", headers={**foreign, "sec-fetch-mode": "no-cors"}).status_code == 403
        assert client.get("/", headers={**foreign, "sec-fetch-mode": "navigate"}).status_code == 200


def test_the_audit_says_who_did_what_and_admins_read_it_as_page_and_csv(
    server: Server, site: Site
) -> None:
    be(server, site, "admin")
    investigation = site.investigate(ALERT)
    with httpx.Client(
        timeout=PATIENT_S, base_url=site.url, headers={"accept": "text/html"}
    ) as client:
        sign_in(client, TOKEN)
        with httpx.Client(timeout=PATIENT_S, base_url=site.url) as stranger:
            assert sign_in(stranger, "=cmd|' wrong").status_code == 401
        for _ in range(3):
            client.get(f"/investigations/{investigation}?q=secret-words")
        page = client.get("/audit", params={"investigation": investigation}).text
        assert "<td>looked" in page
        assert page.count(f'href="/investigations/{investigation}"') == 1
        lines = client.get("/audit.csv").text
        assert "signed in" in lines
        assert "sign-in refused" in lines
        for secret in ("secret-words", "wrong'", "cmd", TOKEN):
            assert secret not in lines
        for odd in (
            "?since=9999-12-31&until=9999-12-31",
            "?before=99999999999999999999",
            "?who=%00&action=%3Cb%3E",
        ):
            assert client.get("/audit" + odd).status_code == 200
        settings = client.get("/settings").text
        assert "set by FAULTLINE_SERVER__ACCESS_TOKEN" in settings
        assert TOKEN not in settings


def test_a_download_is_not_sent_when_its_line_cannot_be_written(server: Server, site: Site) -> None:
    be(server, site, "viewer")
    with httpx.Client(
        timeout=PATIENT_S, base_url=site.url, headers={"accept": "text/html"}
    ) as client:
        sign_in(client, TOKEN)
        with site.store.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE visits")
        assert client.get("/judged.zip").status_code == 500


def test_whoever_guesses_too_often_waits(server: Server, site: Site) -> None:
    with httpx.Client(timeout=PATIENT_S, base_url=site.url) as client:
        for n in range(10):
            assert client.get("/", headers={"authorization": f"Bearer {n}"}).status_code == 401
        answer = client.get("/", headers={"authorization": "Bearer 11"})
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 301
        right = client.get("/", headers={"authorization": f"Bearer {TOKEN}"})
        assert right.status_code == 200
        assert sign_in(client, TOKEN).status_code == 303
