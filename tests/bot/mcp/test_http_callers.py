"""Whose token it is: the access token of the settings, or one that the login's provider issued."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from faultline.analysis.errors import ConnectorError
from faultline.bot.mcp.callers import Caller
from faultline.bot.mcp.http_callers import HttpCallers, no_page
from faultline.bot.mcp.over_http import Resource
from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.settings.people import LoginSettings, TeamSettings
from faultline.bot.store.quotas import TokenLimits, make_token, revoke_token
from faultline.bot.store.store import Store
from faultline.bot.web.access import AccessControl
from tests.bot.web.login_provider import CLIENT_ID, LoginProvider
from tests.bot.web.serving import Server
from tests.databases import store_engine
from tests.rsa_keys import signing_key

ADDRESS = "https://faultline.example"
CLAIMS = {
    "sub": "u1",
    "name": "Ann",
    "email": "ann@corp.example",
    "email_verified": True,
    "groups": ["sre"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def provider(server: Server) -> LoginProvider:
    made = LoginProvider(server.url, dict(CLAIMS))
    server.app = made.app()
    return made


class World:
    def __init__(self, provider: LoginProvider, folder: Path, **login: Any) -> None:
        self.provider = provider
        self.settings = Settings(
            server=ServerSettings(public_url=ADDRESS, access_token=SecretStr("for scripts")),
            login=LoginSettings(
                issuer=provider.issuer,
                client_id=CLIENT_ID,
                responders=("sre",),
                token_role="viewer",
                **login,
            ),
            teams={"shop": TeamSettings(groups=("sre",))},
        )
        self.engine = store_engine(f"sqlite:///{folder / 'store.db'}")
        self.store = Store(self.engine)
        access = AccessControl(self.settings, self.store, no_page)
        self.callers = HttpCallers(self.settings, access, Resource(ADDRESS, [provider.issuer]))

    def caller(self, token: str) -> Caller | None:
        return asyncio.run(self.callers.caller_of(token))

    def token(self, **changed: Any) -> str:
        now = time.time()
        given = {
            **CLAIMS,
            "iss": self.provider.issuer,
            "aud": f"{ADDRESS}/mcp",
            "iat": now - 3000,
            "exp": now + 600,
            **changed,
        }
        return self.provider.signed({k: v for k, v in given.items() if v is not None})


@pytest.fixture
def world(provider: LoginProvider, tmp_path: Path) -> Iterator[World]:
    made = World(provider, tmp_path, isolation="teams")
    yield made
    made.engine.dispose()


def test_the_access_token_has_the_role_that_the_settings_give_it(world: World) -> None:
    caller = world.caller("for scripts")
    assert caller is not None
    assert (caller.who, caller.role, caller.is_local) == ("access token", "viewer", False)
    assert world.caller("for script") is None


def test_an_api_token_has_its_own_role_team_and_limits_until_it_is_revoked(world: World) -> None:
    limits = TokenLimits(investigations_per_hour=3, calls_per_minute=7)
    token, made = make_token(
        world.store, "agents", "responder", days=1, made_by="ann", team="shop", limits=limits
    )
    caller = world.caller(token)
    assert caller is not None
    assert (caller.who, caller.name, caller.role) == (made.who, "agents", "responder")
    assert (caller.investigations_per_hour, caller.calls_per_minute) == (3, 7)
    assert caller.visibility.teams == frozenset({"shop"})
    assert world.caller(token[:-1]) is None
    revoke_token(world.store, made.id)
    assert world.caller(token) is None


def test_a_token_of_the_provider_has_the_role_and_teams_of_its_holder(world: World) -> None:
    caller = world.caller(world.token())
    assert caller is not None
    assert (caller.who, caller.name, caller.role) == ("ann@corp.example", "Ann", "responder")
    assert caller.visibility.teams == frozenset({"shop"})
    assert caller.visibility.channels is not None, "no private channel"
    assert world.caller(world.token(aud=["https://other.example", f"{ADDRESS}/mcp"])) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": CLIENT_ID},
        {"aud": f"{ADDRESS}/other"},
        {"iss": "https://another.example"},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"nbf": 4_000_000_000},
        {"nonce": "n"},
        {"sub": " "},
        {"groups": ["sales"]},
    ],
    ids=str,
)
def test_a_token_for_something_else_opens_nothing(world: World, changed: dict[str, Any]) -> None:
    assert world.caller(world.token(**changed)) is None


def test_a_token_that_somebody_else_signed_opens_nothing(world: World) -> None:
    world.provider.signs_with = signing_key(1, "first")
    assert world.caller(world.token()) is None
    assert world.caller("a.b.c") is None


def test_a_provider_that_is_away_refuses_nobody_for_ever(world: World) -> None:
    world.provider.down = True
    with pytest.raises(ConnectorError):
        world.caller(world.token())
    assert world.caller("for scripts") is not None
