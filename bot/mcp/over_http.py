"""The server over streamable HTTP: one address, a token for each request, nothing kept between two.

Authorization as the protocol asks (https://modelcontextprotocol.io/specification, Authorization): a
request without a token is answered 401 with where the metadata of this protected resource are
(RFC 9728, RFC 6750). Whose token it is, a verifier says that the caller of `mcp_over_http` brings.

A browser's page of another site gets nothing: its Origin is checked before its token.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from faultline.analysis.errors import FaultlineError
from faultline.bot.mcp.callers import Caller

# The mcp package takes long to load: only who opens a server loads it.
if TYPE_CHECKING:
    from faultline.bot.mcp.server import Context, McpServer

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
CALLER = "faultline.caller"
MAX_BODY_BYTES = 65_536
"""Of a request; the longest arguments are a few thousand characters."""
MAX_TOKEN = 8_192
"""Characters. A signed token with a hundred groups has half as many."""

CallerOf = Callable[[str], Awaitable[Caller | None]]
"""Whose token it is; None where it is nobody's."""
Refused = Callable[[Request], int]
"""Counts a wrong token of a request's address. Seconds to wait where there were too many, or 0."""


@dataclass(frozen=True)
class Resource:
    """What the metadata say of this server."""

    public_url: str
    """Base address, without a slash at the end."""
    authorization_servers: Sequence[str] = ()
    """Issuers whose tokens the verifier takes."""
    scopes: Sequence[str] = ()
    """To be asked for there: they bring the claims that roles need."""

    @property
    def address(self) -> str:
        """Of the server: what tokens are issued for."""
        return f"{self.public_url}{PATH}"

    @property
    def metadata_address(self) -> str:
        """RFC 9728, section 3.1; behind a proxy that adds a path, below that path, because only
        what lies there reaches this server."""
        return f"{self.public_url}{METADATA}{PATH}"

    def metadata(self) -> dict[str, Any]:
        """RFC 9728, section 2."""
        authorization_servers: dict[str, Any] = {
            "resource": self.address,
            "resource_name": "Faultline",
            "bearer_methods_supported": ["header"],
        }
        if self.authorization_servers:
            authorization_servers["authorization_servers"] = list(self.authorization_servers)
            authorization_servers["scopes_supported"] = list(self.scopes)
        return authorization_servers


def caller_of_request(ctx: Context) -> Caller:
    """Who sent the request that a handler answers."""
    request = ctx.request
    caller = request.scope.get(CALLER) if isinstance(request, Request) else None
    assert isinstance(caller, Caller), "no request gets through without a caller"
    return caller


class McpOverHttp:
    """The application. `running` must surround its use."""

    def __init__(
        self,
        server: McpServer,
        resource: Resource,
        caller_of: CallerOf,
        refused: Refused = lambda _: 0,
    ) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        self._server = server
        self._resource = resource
        self._caller_of = caller_of
        self._refused = refused
        # Stateless: any of several servers can answer the next request.
        self._sessions = StreamableHTTPSessionManager(
            server.built(), stateless=True, max_request_body_size=MAX_BODY_BYTES
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve for the time of the block; once only."""
        try:
            async with self._sessions.run():
                yield
        finally:
            self._server.close()

    @property
    def routes(self) -> list[Route]:
        """The server, and the metadata that anybody may read."""
        return [
            Route(PATH, endpoint=_Endpoint(self._answer)),
            # Clients ask with the server's path, or without it.
            Route(METADATA, self._metadata, methods=["GET"]),
            Route(METADATA + PATH, self._metadata, methods=["GET"]),
        ]

    async def _metadata(self, _request: Request) -> Response:
        # Clients that run in a browser read it too.
        headers = {"access-control-allow-origin": "*", "cache-control": "max-age=3600"}
        return JSONResponse(self._resource.metadata(), headers=headers)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        refusal = self._foreign(request) or self._not_taken(request)
        if refusal is None:
            caller = await self._caller(request)
            if isinstance(caller, Caller):
                scope[CALLER] = caller
                await self._sessions.handle_request(scope, receive, send)
                return
            refusal = caller
        await refusal(scope, receive, send)

    def _foreign(self, request: Request) -> Response | None:
        """The protocol: servers must check Origin, against pages that make a browser call them."""
        origin = request.headers.get("origin")
        public_address = urlsplit(self._resource.public_url)
        if (
            origin is None
            or origin.lower() == f"{public_address.scheme}://{public_address.netloc}".lower()
        ):
            return None
        return PlainTextResponse("This request was sent by another site.\n", 403)

    def _not_taken(self, request: Request) -> Response | None:
        if request.method == "POST":
            return None
        # Nothing is sent unasked, and there is no session to end.
        return PlainTextResponse("Only POST is answered here.\n", 405, {"allow": "POST"})

    async def _caller(self, request: Request) -> Caller | Response:
        token = bearer(request.headers)
        if token is None:
            return self._challenge("Send a token: Authorization: Bearer TOKEN.")
        try:
            caller = await self._caller_of(token) if len(token) <= MAX_TOKEN else None
        except (FaultlineError, SQLAlchemyError):
            return PlainTextResponse("Tokens cannot be checked now; try again.\n", 503)
        if caller is not None:
            return caller
        if wait := self._refused(request):
            phrase = f"Too many attempts; the next one counts in {wait} s.\n"
            return PlainTextResponse(phrase, 429, {"retry-after": str(wait)})
        return self._challenge("The token is wrong, has expired or was revoked.", "invalid_token")

    def _challenge(self, description: str, error: str = "") -> Response:
        """RFC 6750, section 3; RFC 9728, section 5.1."""
        parts = [f'resource_metadata="{self._resource.metadata_address}"']
        if self._resource.scopes:
            parts.append(f'scope="{" ".join(self._resource.scopes)}"')
        if error:
            parts += [f'error="{error}"', f'error_description="{description}"']
        headers = {"www-authenticate": f"Bearer {', '.join(parts)}"}
        body = {"error": error or "unauthorized", "error_description": description}
        return JSONResponse(body, 401, headers)


class _Endpoint:
    """An application as the endpoint of a route; Starlette wraps functions, and no objects."""

    def __init__(self, answer: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


def bearer(headers: Headers) -> str | None:
    """The token of a request; None without one. Never from the address, which is logged."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
