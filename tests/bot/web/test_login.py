"""Login by OpenID Connect over real HTTP: the way in, every way it is refused, and how it ends."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import ECKey
from pydantic import SecretStr, ValidationError

from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.settings.people import LoginSettings
from faultline.bot.store.visitors import AuditFilter, AuditLog
from faultline.bot.web.oidc.signed_tokens import LOGOUT_EVENT
from tests.bot.web.browser import Page, browser_page
from tests.bot.web.login_provider import CLIENT_ID, CLIENT_SECRET, LoginProvider
from tests.bot.web.serving import PATIENT_S, Server, Site, form_of, serving
from tests.rsa_keys import signing_key

ANN = {
    "email": "ann@corp.example",
    "email_verified": True,
    "name": "Ann <b>Ops</b>",
    "groups": ["eng", "sre"],
}


@dataclass
class World:
    """A site whose visitors sign in at a provider."""

    site: Site
    provider: LoginProvider
    browser: httpx.Client

    def sign_in(self, target: str = "/") -> httpx.Response:
        """All the way through the provider; the site's answer to the way back."""
        begun = self.browser.get("/login/start", params={"next": target})
        assert begun.status_code == 303, begun.text
        return self.browser.get(
            httpx.get(begun.headers["location"], timeout=PATIENT_S).headers["location"]
        )

    def audit(self) -> list[tuple[str, str, int]]:
        lines = AuditLog(self.site.store.engine, retention=timedelta(days=1)).read(AuditFilter())
        return [(line.action, line.who, line.status) for line in lines]


@pytest.fixture(scope="session")
def provider_server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def provider(provider_server: Server) -> LoginProvider:
    made = LoginProvider(provider_server.url, dict(ANN))
    provider_server.app = made.app()
    return made


def settings_for(provider: LoginProvider, server: Server, **login: Any) -> Settings:
    return Settings(
        server=ServerSettings(public_url=server.url, access_token=SecretStr("for scripts")),
        login=LoginSettings(
            issuer=provider.issuer,
            client_id=CLIENT_ID,
            client_secret=SecretStr(CLIENT_SECRET),
            provider_name="Corp",
            **{"responders": ("sre",), "admins": ("boss@corp.example",), **login},
        ),
    )


@pytest.fixture
def world(provider: LoginProvider, server: Server, tmp_path: Path) -> Iterator[World]:
    with (
        serving(server, tmp_path, settings_for(provider, server)) as site,
        httpx.Client(
            timeout=PATIENT_S, base_url=site.url, headers={"accept": "text/html"}
        ) as browser,
    ):
        yield World(site, provider, browser)


def test_somebody_signs_in_lands_where_they_wanted_and_signs_out(world: World) -> None:
    page = world.browser.get("/?service=a", follow_redirects=True)
    assert "Sign in with Corp" in page.text
    assert "/login/start?next=/%3Fservice%3Da" in page.text
    answer = world.sign_in("/?service=a")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?service=a")
    account = world.browser.get("/account").text
    assert "Ann &lt;b&gt;Ops&lt;/b&gt;" in account
    assert "responder: reads, judges" in account
    secret = world.browser.cookies["faultline_session"]
    world.browser.post("/logout", data=form_of(world.browser, "/account"))
    assert (
        world.browser.get("/", headers={"cookie": f"faultline_session={secret}"}).status_code == 303
    )
    assert [(a, w) for a, w, _ in world.audit()] == [
        ("signed out", "ann@corp.example"),
        ("signed in", "ann@corp.example"),
    ]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "another"}, "aud"),
        ({"aud": []}, "aud"),
        ({"aud": [CLIENT_ID, "another"]}, "azp"),
        ({"azp": "another"}, "azp"),
        ({"iss": "https://another.example"}, "iss"),
        ({"exp": 1}, "exp"),
        ({"exp": None}, "lacks a claim"),
        ({"exp": "soon"}, "lacks a claim"),
        ({"exp": float("nan")}, "exp"),
        ({"iat": 1}, "iat"),
        ({"iat": 99999999999}, "iat"),
        ({"nbf": 99999999999}, "nbf"),
        ({"at_hash": "AAAA"}, "at_hash"),
        ({"sub": ""}, "sub"),
        ({"sub": "x" * 300}, "sub"),
        ({"sub": None}, "lacks a claim"),
    ],
)
def test_a_token_that_is_not_for_this_login_opens_nothing(
    world: World, changed: dict[str, Any], why: str
) -> None:
    world.provider.changed = changed
    answer = world.sign_in()
    assert answer.status_code == 401
    assert why in answer.text
    assert "faultline_session=" not in str(answer.headers.get_list("set-cookie"))
    assert world.browser.get("/").status_code == 303
    assert world.audit()[0] == ("sign-in refused", "", 401)


def by_hand(claims: Mapping[str, Any], alg: str, secret: bytes | None = None) -> str:
    """A token that no library of good sense would make: unsigned, or signed with a public key as
    the secret."""
    header = {"alg": alg, "typ": "JWT", "kid": "first"}
    said = ".".join(_text(json.dumps(part).encode()) for part in (header, claims))
    return (
        f"{said}."
        f"{_text(hmac.new(secret, said.encode(), hashlib.sha256).digest()) if secret else ''}"
    )


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_forged_signatures_open_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = world.provider
    provider.signs_with = signing_key(1, "first")
    assert "wrong signature" in world.sign_in().text
    provider.signs_with = ECKey.generate_key("P-256", {"kid": "unknown"})
    provider.alg = "ES256"
    assert "does not publish" in world.sign_in().text
    public = provider.key.as_pem(private=False)
    for forged in (
        lambda _self, c: by_hand(c, "HS256", public),
        lambda _self, c: by_hand(c, "none"),
    ):
        monkeypatch.setattr(LoginProvider, "signed", forged)
        assert "is not signed with" in world.sign_in().text
    for nonsense in ("", "a.b", "a.b.c", "é", "." * 500, "A" * 200_000):
        monkeypatch.setattr(LoginProvider, "signed", lambda _self, _claims, said=nonsense: said)
        assert world.sign_in().status_code in (401, 429)
    assert world.browser.get("/").status_code == 303


@pytest.mark.parametrize("alg", ["RS256", "PS256", "ES256"])
def test_keys_rotate_without_a_restart(world: World, alg: str) -> None:
    assert world.sign_in().status_code == 303
    asked = world.provider.key_requests
    world.provider.alg = alg
    world.provider.key = (
        ECKey.generate_key("P-256", {"kid": "second"})
        if alg == "ES256"
        else signing_key(1, "second")
    )
    assert world.sign_in().headers["location"] == "/"
    assert world.sign_in().headers["location"] == "/"
    assert world.provider.key_requests == asked + 1


def test_an_answer_that_was_not_asked_for_here_is_refused(world: World) -> None:
    begun = world.browser.get("/login/start").headers["location"]
    back = httpx.get(begun, timeout=PATIENT_S).headers["location"]
    with httpx.Client(
        timeout=PATIENT_S, base_url=world.site.url, headers={"accept": "text/html"}
    ) as victim:
        assert victim.get(back).status_code == 400
        other = victim.get("/login/start").headers["location"]
        state = parse_qs(urlsplit(other).query)["state"][0]
        code = parse_qs(urlsplit(back).query)["code"][0]
        assert (
            victim.get(
                "/login/callback", params={"state": state, "code": code, "iss": "x"}
            ).status_code
            == 401
        )
    for broken in ({}, {"code": "x"}, {"state": ""}, {"state": "é"}, {"state": "a.b", "code": "c"}):
        assert world.browser.get("/login/callback", params=broken).status_code == 400
    assert world.provider.token_requests == 0


def test_a_code_is_used_once(world: World) -> None:
    begun = world.browser.get("/login/start").headers["location"]
    kept = dict(world.browser.cookies)
    back = httpx.get(begun, timeout=PATIENT_S).headers["location"]
    assert world.browser.get(back).status_code == 303
    assert world.browser.get(back).status_code == 400
    cookies = "; ".join(f"{name}={value}" for name, value in kept.items())
    replayed = httpx.get(
        back, headers={"cookie": cookies, "accept": "text/html"}, timeout=PATIENT_S
    )
    assert replayed.status_code == 401
    assert "invalid_grant" in replayed.text


def test_a_code_of_another_login_does_not_fit_the_verifier(world: World) -> None:
    begun = [world.browser.get("/login/start").headers["location"] for _ in range(2)]
    backs = [httpx.get(url, timeout=PATIENT_S).headers["location"] for url in begun]
    first, second = (parse_qs(urlsplit(back).query) for back in backs)
    mixed = {"state": second["state"][0], "code": first["code"][0], "iss": second["iss"][0]}
    assert "invalid_grant" in world.browser.get("/login/callback", params=mixed).text


@pytest.mark.parametrize("answers", [{"iss": "https://mixed-up.example"}, {"iss": ""}])
def test_an_answer_of_another_provider_is_refused(world: World, answers: dict[str, str]) -> None:
    world.provider.answers = answers
    assert "(iss)" in world.sign_in().text
    assert world.provider.token_requests == 0


def test_what_the_provider_refuses_is_said_in_its_code_alone(world: World) -> None:
    world.provider.answers = {
        "error": "access_denied",
        "error_description": "<script>alert(1)</script>",
        "code": "",
    }
    answer = world.sign_in()
    assert answer.status_code == 401
    assert "access_denied" in answer.text
    assert "alert(1)" not in answer.text
    world.provider.answers = {"error": "<img src=x>"}
    assert "img" not in world.sign_in().text


def test_five_links_opened_at_once_are_five_logins(world: World) -> None:
    begun = [
        world.browser.get("/login/start", params={"next": f"/?n={n}"}).headers["location"]
        for n in range(5)
    ]
    answers = [
        world.browser.get(httpx.get(url, timeout=PATIENT_S).headers["location"]) for url in begun
    ]
    assert [a.headers["location"] for a in answers] == [f"/?n={n}" for n in range(5)]


def test_a_document_of_another_issuer_is_not_believed(world: World) -> None:
    world.provider.document = {"issuer": "https://another.example"}
    assert "another issuer" in world.browser.get("/login/start").text


def test_a_provider_that_is_down_leaves_the_token_as_a_way_in(world: World) -> None:
    world.provider.down = True
    answer = world.browser.get("/login/start")
    assert answer.status_code == 502
    assert "503" in answer.text
    assert "Sign in with the access token" in answer.text
    bearer = httpx.get(
        world.site.url, headers={"authorization": "Bearer for scripts"}, timeout=PATIENT_S
    )
    assert bearer.status_code == 200


@pytest.mark.parametrize(
    ("claims", "login", "role"),
    [
        ({}, {}, "responder"),
        ({"groups": []}, {}, None),
        ({"groups": None}, {"default_role": "viewer"}, "viewer"),
        ({"email": "BOSS@corp.example"}, {}, "admin"),
        ({"email": "boss@corp.example", "email_verified": False}, {}, "responder"),
        ({"email": "boss@corp.example", "email_verified": None}, {}, "responder"),
        ({"email": "boss@corp.example", "email_verified": None, "xms_edov": "1"}, {}, "admin"),
        ({"email": "boss@corp.example", "email_verified": False, "xms_edov": "1"}, {}, "responder"),
        ({}, {"allowed_domains": ("corp.example",)}, "responder"),
        ({"email": "ann@corp.example.evil"}, {"allowed_domains": ("corp.example",)}, None),
        ({"email": "ann@evil.example@corp.example"}, {"allowed_domains": ("corp.example",)}, None),
        ({"email_verified": "false"}, {"allowed_domains": ("corp.example",)}, None),
        (
            {"realm_access": {"roles": ["ops"]}},
            {"groups_claim": "realm_access.roles", "admins": ("ops",)},
            "admin",
        ),
        (
            {"https://corp/roles": ["ops"]},
            {"groups_claim": "https://corp/roles", "admins": ("ops",)},
            "admin",
        ),
        ({"groups": "ops"}, {"admins": ("ops",)}, "admin"),
        ({"groups": [["ops"], {"a": 1}, 5]}, {"admins": ("ops",)}, None),
    ],
)
def test_a_role_follows_groups_and_verified_addresses(
    provider: LoginProvider,
    server: Server,
    tmp_path: Path,
    claims: dict[str, Any],
    login: dict[str, Any],
    role: str | None,
) -> None:
    provider.changed = claims
    with (
        serving(server, tmp_path, settings_for(provider, server, **login)) as site,
        httpx.Client(
            timeout=PATIENT_S, base_url=site.url, headers={"accept": "text/html"}
        ) as browser,
    ):
        answer = World(site, provider, browser).sign_in()
        if role is None:
            assert answer.status_code == 403
            assert "it has no role here" in answer.text
        else:
            assert f"<dd>{role}:" in browser.get("/account").text


def test_groups_that_only_the_userinfo_endpoint_gives_count_and_must_be_of_the_same_person(
    world: World,
) -> None:
    world.provider.changed = {"groups": None}
    world.provider.userinfo = {"groups": ["sre"]}
    assert world.sign_in().status_code == 303
    world.provider.userinfo = {"groups": ["sre"], "sub": "user-2"}
    assert "somebody else" in world.sign_in().text


def logout_token(provider: LoginProvider, **changed: Any) -> dict[str, str]:
    claims = {
        "iss": provider.issuer,
        "aud": CLIENT_ID,
        "iat": int(time.time()),
        "jti": uuid.uuid4().hex,
        "events": {LOGOUT_EVENT: {}},
        "sub": "user-1",
        **changed,
    }
    return {
        "logout_token": provider.signed(
            {k: v for k, v in claims.items() if v is not None}, typ="logout+jwt"
        )
    }


def test_signing_out_at_the_provider_ends_the_login_here(world: World) -> None:
    assert world.sign_in().status_code == 303
    for wrong in (
        {"aud": "x"},
        {"events": {}},
        {"nonce": "n"},
        {"sub": None},
        {"iat": 1},
        {"sub": "user-2"},
    ):
        httpx.post(
            f"{world.site.url}/login/ended",
            data=logout_token(world.provider, **wrong),
            timeout=PATIENT_S,
        )
        assert world.browser.get("/").status_code == 200
    token = logout_token(world.provider)
    assert (
        httpx.post(f"{world.site.url}/login/ended", data=token, timeout=PATIENT_S).status_code
        == 200
    )
    assert world.browser.get("/").status_code == 303
    assert (
        httpx.post(f"{world.site.url}/login/ended", data=token, timeout=PATIENT_S).status_code
        == 400
    )


def test_settings_that_would_let_in_nobody_or_everybody_stop_the_start() -> None:
    wrong: list[dict[str, Any]] = [
        {"issuer": "https://idp.example", "client_id": "x"},
        {"issuer": "https://idp.example", "default_role": "viewer"},
        {"issuer": "http://idp.example", "client_id": "x", "default_role": "viewer"},
        {"issuer": "https://accounts.google.com", "client_id": "x", "default_role": "viewer"},
        {
            "issuer": "https://idp.example",
            "client_id": "x",
            "default_role": "viewer",
            "scopes": ("email",),
        },
    ]
    for given in wrong:
        with pytest.raises(ValidationError):
            LoginSettings(**given)


def test_a_person_signs_in_and_out_in_a_real_browser(
    chromium: Path, tmp_path: Path, provider: LoginProvider, server: Server
) -> None:
    provider.asks = True

    async def visit(site: Site) -> None:
        async with browser_page(chromium, tmp_path / "profile") as page:
            await sign_in_and_out(page, site, provider)

    with serving(server, tmp_path, settings_for(provider, server)) as site:
        asyncio.run(visit(site))


async def sign_in_and_out(page: Page, site: Site, provider: LoginProvider) -> None:
    await page.open(f"{site.url}/login?next=/account")
    await page.value("document.querySelector('a.button').click()")
    await page.until("location.pathname === '/authorize' && document.getElementById('go')")
    await page.value("document.getElementById('go').click()")
    await page.until("location.pathname === '/account' && document.querySelector('h1')")
    assert await page.value("document.querySelector('h1').innerText") == ANN["name"]
    assert await page.value("document.cookie") == ""
    await page.value("document.querySelector('.top form button').click()")
    await page.until("location.pathname === '/login' && document.querySelector('a.button')")
    assert page.messages == []
