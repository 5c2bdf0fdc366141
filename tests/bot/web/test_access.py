"""Who is let in: this machine without a token, whoever knows it with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.testclient import TestClient

from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.store.store import Store
from faultline.bot.web.pages import page_routes
from tests.bot.web.serving import PATIENT_S, Server, form_of, form_value, serving, sign_in

TOKEN = "correct horse battery staple"
PROTECTED = (
    "/",
    "/investigations/x",
    "/investigations/x/events",
    "/investigations/x/case.zip",
    "/nothing",
)
FOREIGN = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.7", "", "[")


@pytest.fixture
def locked(server: Server, tmp_path: Path) -> Iterator[httpx.Client]:
    settings = Settings(server=ServerSettings(access_token=SecretStr(TOKEN)))
    with (
        serving(server, tmp_path, settings) as site,
        httpx.Client(
            timeout=PATIENT_S, base_url=site.url, headers={"accept": "text/html"}
        ) as client,
    ):
        yield client


def test_without_a_token_this_machine_is_served_under_its_loopback_names(
    browser: httpx.Client,
) -> None:
    for host in ("127.0.0.1", "localhost:8080", "[::1]:8080", "127.1.2.3"):
        assert browser.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", FOREIGN)
def test_without_a_token_a_foreign_host_name_is_refused_with_the_setting_to_change(
    browser: httpx.Client, host: str
) -> None:
    for path in PROTECTED:
        answer = browser.get(path, headers={"host": host})
        assert answer.status_code == 403
        assert "FAULTLINE_SERVER__ACCESS_TOKEN" in answer.text
        assert answer.text.count("\n") == 1


def test_without_a_token_what_came_through_a_proxy_is_refused(browser: httpx.Client) -> None:
    for header in ("x-forwarded-for", "x-forwarded-host", "forwarded", "x-real-ip", "via"):
        assert browser.get("/", headers={header: "127.0.0.1"}).status_code == 403


def test_a_site_with_a_public_address_and_no_token_serves_its_pages_to_nobody(
    server: Server, tmp_path: Path
) -> None:
    """A proxy on this machine may send a loopback Host and no forwarding header: nginx does by
    default."""
    settings = Settings(server=ServerSettings(public_url="https://faultline.example"))
    with serving(server, tmp_path, settings) as site:
        for path in PROTECTED:
            assert httpx.get(f"{site.url}{path}", timeout=PATIENT_S).status_code == 403
        assert httpx.get(f"{site.url}/healthz", timeout=PATIENT_S).status_code == 200


def test_probes_and_static_files_answer_everyone(browser: httpx.Client) -> None:
    for path in ("/healthz", "/readyz", "/static/app.css"):
        assert browser.get(path, headers={"host": "lb.internal"}).status_code == 200


def test_with_a_token_a_browser_is_sent_to_the_login_and_a_program_gets_401(
    locked: httpx.Client,
) -> None:
    for path in PROTECTED:
        answer = locked.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/login?next=" + path.replace("/", "%2F")
        answer = locked.get(path, headers={"accept": "application/json"})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_the_login_sets_a_cookie_that_opens_the_pages_and_does_not_hold_the_token(
    locked: httpx.Client,
) -> None:
    answer = sign_in(locked, TOKEN, "/?day=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?day=1")
    cookie = answer.headers.get_list("set-cookie")[0]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert TOKEN not in cookie
    assert locked.get("/").status_code == 200
    assert locked.get("/", headers={"host": "faultline.example"}).status_code == 200


def test_signing_out_closes_the_pages_again(locked: httpx.Client) -> None:
    sign_in(locked, TOKEN)
    stolen = dict(locked.cookies)
    assert locked.post("/logout", data=form_of(locked, "/account")).headers["location"] == "/login"
    assert locked.get("/").status_code == 303
    assert (
        locked.get(
            "/", headers={"cookie": f"faultline_session={stolen['faultline_session']}"}
        ).status_code
        == 303
    )


@pytest.mark.parametrize(
    "given", ["", "wrong", TOKEN + "x", "ü\ud800".encode("utf-8", "replace").decode()]
)
def test_a_wrong_token_is_told_so_and_opens_nothing(locked: httpx.Client, given: str) -> None:
    answer = sign_in(locked, given)
    assert answer.status_code == 401
    assert "That is not the access token." in answer.text
    assert "faultline_session" not in answer.headers.get("set-cookie", "")
    bearer = locked.get(
        "/", headers={"authorization": b"Bearer x" + given.encode(), "accept": "*/*"}
    )
    assert bearer.status_code == 401


def test_a_bearer_header_opens_the_pages(locked: httpx.Client) -> None:
    assert locked.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", "/a\r\nx: y"],
)
def test_the_login_leads_nowhere_else(locked: httpx.Client, target: str) -> None:
    answer = sign_in(locked, TOKEN, target)
    assert answer.headers["location"] == "/"


def test_a_cookie_that_was_made_up_or_changed_opens_nothing(locked: httpx.Client) -> None:
    sign_in(locked, TOKEN)
    secret = locked.cookies["faultline_session"]
    for broken in (
        "",
        "x",
        secret[:-1],
        secret + "x",
        secret.swapcase(),
        "é" * 10,
        "a" * 8000,
        TOKEN,
    ):
        cookie = f"faultline_session={broken}".encode()
        assert locked.get("/", headers={"cookie": cookie}).status_code == 303
    assert locked.get("/").status_code == 200


def test_a_login_ends_when_the_token_changes(server: Server, tmp_path: Path) -> None:
    old = Settings(server=ServerSettings(access_token=SecretStr("last month's")))
    with (
        serving(server, tmp_path, old) as site,
        httpx.Client(timeout=PATIENT_S, base_url=site.url) as client,
    ):
        client.headers["accept"] = "text/html"
        sign_in(client, "last month's")
        assert client.get("/").status_code == 200
        new = Settings(server=ServerSettings(access_token=SecretStr(TOKEN)))

        async def no_case(_id: str) -> Path | None:
            return None

        server.app = Starlette(routes=page_routes(new, site.store, no_case))
        assert client.get("/").status_code == 303


def test_a_login_replaces_what_the_browser_showed_before(locked: httpx.Client) -> None:
    """Whoever planted a session in a browser must not share the one that its owner makes (session
    fixation)."""
    sign_in(locked, TOKEN)
    planted = locked.cookies["faultline_session"]
    with httpx.Client(
        timeout=PATIENT_S, base_url=locked.base_url, headers={"accept": "text/html"}
    ) as victim:
        form = form_of(victim, "/login")
        cookies = f"faultline_session={planted}; faultline_form={victim.cookies['faultline_form']}"
        answer = victim.post("/login", data={**form, "token": TOKEN}, headers={"cookie": cookies})
        assert answer.cookies["faultline_session"] != planted
    assert locked.get("/").status_code == 303


def test_the_cookie_is_for_https_alone_where_the_site_is_https(
    server: Server, tmp_path: Path
) -> None:
    settings = ServerSettings(access_token=SecretStr(TOKEN), public_url="https://faultline.example")
    with serving(server, tmp_path, Settings(server=settings)) as site:
        page = httpx.get(f"{site.url}/login", timeout=PATIENT_S)
        (asked,) = page.headers.get_list("set-cookie")
        given = {"csrf": form_value(page.text), "token": TOKEN}
        cookie = {"cookie": asked.partition(";")[0]}
        answer = httpx.post(f"{site.url}/login", data=given, headers=cookie, timeout=PATIENT_S)
        for made in (asked, answer.headers.get_list("set-cookie")[0]):
            assert made.startswith("__Host-faultline_")
            assert "; Secure" in made
            assert "Path=/" in made
            assert "Domain" not in made
        assert "max-age=31536000" in answer.headers["strict-transport-security"]


def test_an_id_that_the_database_refuses_is_no_investigation(store: Store) -> None:
    async def no_case(_id: str) -> Path | None:
        return None

    app = Starlette(routes=page_routes(Settings(), store, no_case))
    with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as client:
        assert client.get("/investigations/%00").status_code == 404
        assert client.get("/investigations/%00/events").status_code == 404
