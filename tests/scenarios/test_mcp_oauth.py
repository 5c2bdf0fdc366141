"""An agent that has no token: the official client finds the login provider by itself, registers
there, lets its person sign in, and comes back with an access token for this server alone
(the protocol's authorization: RFC 9728, RFC 8414, RFC 7591, PKCE, RFC 8707)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from pydantic import AnyUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.settings.people import LoginSettings
from faultline.bot.settings.processes import StoreSettings
from faultline.bot.store.visitors import AuditFilter, AuditLog
from faultline.loopback.bot_process import free_port
from tests.bot.mcp.stored import Stored, agent_at
from tests.bot.web.login_provider import CLIENT_ID, LoginProvider
from tests.bot.web.serving import Server
from tests.scenarios.test_mcp_over_http import serving

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken


CLAIMS = {
    "name": "Ann",
    "email": "ann@corp.example",
    "email_verified": True,
    "groups": ["sre"],
}
CALLBACK = "http://127.0.0.1:1/callback"


@dataclass
class AgentsProvider(LoginProvider):
    """A login provider that registers agents, and gives them access tokens for what they name."""

    registered: list[dict[str, Any]] = field(default_factory=list)
    audience: str | None = None
    """Another audience than the one asked for."""

    def app(self) -> Starlette:
        self.document = {
            "registration_endpoint": f"{self.issuer}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }
        made = super().app()
        made.routes[:0] = [
            Route("/register", self._register, methods=["POST"]),
            Route("/token", self._public_token, methods=["POST"]),
        ]
        return made

    async def _register(self, request: Request) -> Response:
        given = await request.json()
        self.registered.append(given)
        return JSONResponse({**given, "client_id": "agent-1"}, 201)

    async def _public_token(self, request: Request) -> Response:
        form = {name: one[0] for name, one in parse_qs((await request.body()).decode()).items()}
        asked = self.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if proof != asked["code_challenge"] or form["resource"] != asked["resource"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            **CLAIMS,
            "iss": self.issuer,
            "sub": "u1",
            "aud": self.audience or asked["resource"],
            "client_id": asked["client_id"],
            "iat": now,
            "exp": now + 300,
            "jti": f"token-{now}",
        }
        token = self.signed(claims, typ="at+jwt")
        return JSONResponse({"access_token": token, "token_type": "Bearer", "expires_in": 300})


class Memory:
    """What the agent remembers between its runs."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Agent:
    """The official client with nothing but the server's address."""

    def __init__(self, server: str) -> None:
        self.memory = Memory()
        self._server = server
        self._came_back = ""

    async def _sign_in(self, address: str) -> None:
        """The person's browser: the provider sends it back to the agent."""
        async with httpx.AsyncClient() as browser:
            self._came_back = (await browser.get(address)).headers["location"]

    async def _code(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        given = {name: one[0] for name, one in parse_qs(urlsplit(self._came_back).query).items()}
        return AuthorizationCodeResult(**given)

    async def call(self, tool: str, **arguments: Any) -> Any:
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientMetadata

        auth = OAuthClientProvider(
            server_url=f"{self._server}/mcp",
            client_metadata=OAuthClientMetadata(
                client_name="an agent",
                redirect_uris=[AnyUrl(CALLBACK)],
                token_endpoint_auth_method="none",
            ),
            storage=self.memory,
            redirect_handler=self._sign_in,
            callback_handler=self._code,
        )
        async with agent_at(self._server, auth=auth, timeout=60) as client:
            return await client.call_tool(tool, arguments)


@pytest.fixture
def provider() -> Iterator[AgentsProvider]:
    running = Server()
    made = AgentsProvider(running.url)
    running.app = made.app()
    yield made
    running.stop()


def settings_for(provider: AgentsProvider, folder: Path) -> Settings:
    url = f"http://127.0.0.1:{free_port()}"
    return Settings(
        server=ServerSettings(public_url=url),
        store=StoreSettings(directory=folder / "state"),
        login=LoginSettings(issuer=provider.issuer, client_id=CLIENT_ID, responders=("sre",)),
    )


def test_an_agent_signs_its_person_in_and_reads_an_answer(
    provider: AgentsProvider, tmp_path: Path
) -> None:
    stored = Stored(tmp_path)
    one = stored.answered()
    settings = settings_for(provider, tmp_path)
    agent = Agent(settings.server.public_url)
    with serving(stored, settings):
        answer = asyncio.run(agent.call("answer", investigation=one))
        assert answer.structured_content["verdict"] == "cause_found"
        assert provider.registered[0]["client_name"] == "an agent"
        again = asyncio.run(agent.call("recent"))
        assert not again.is_error
    assert len(provider.registered) == 1, "its token was remembered"
    lines = AuditLog(stored.engine, retention=timedelta(days=1)).read(AuditFilter())
    seen = {(line.name, line.role, line.action) for line in lines}
    assert ("Ann", "responder", "mcp answer") in seen


def test_a_token_for_another_server_opens_nothing(provider: AgentsProvider, tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    one = stored.answered()
    settings = settings_for(provider, tmp_path)
    provider.audience = "https://elsewhere.example/mcp"
    agent = Agent(settings.server.public_url)
    with serving(stored, settings), pytest.raises(BaseExceptionGroup):
        asyncio.run(agent.call("answer", investigation=one))
    assert agent.memory.tokens is not None, "the provider gave one"
    lines = AuditLog(stored.engine, retention=timedelta(days=1)).read(AuditFilter())
    assert not any(line.action.startswith("mcp") for line in lines)
