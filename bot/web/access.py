"""Who may see the pages, and the headers that keep hostile text harmless.

With an access token: whoever presents it, as a Bearer header or through the login page. Without one: this machine.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.settings import ServerSettings
from bot.web.visitor import Role, Visitor, let_in

COOKIE = "faultline_session"
SESSION_S = 14 * 24 * 3600
"""A login lasts two weeks: an on-call shift is never interrupted by it."""
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""A request that carries one of these came through a proxy, so its loopback address is not the visitor's."""
ONLY_LOCAL = (
    "Without an access token these pages are served to this machine alone, under http://127.0.0.1 or "
    "http://localhost, and only while server.public_url is such an address: "
    "set FAULTLINE_SERVER__ACCESS_TOKEN to open them to others."
)

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-robots-tag": "noindex, nofollow",
}


class SecurityHeaders:
    """Adds `HEADERS` to every response; what is not a static file is not stored by caches either."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self.app(scope, receive, with_headers)


class Door:
    """Decides for every route who may come through, in one place."""

    def __init__(self, server: ServerSettings) -> None:
        self.server = server
        self.csrf = secrets.token_hex(32)

    def open_to(self, role: Role, recorded_as: str | None = None) -> list[Middleware]:
        """A route for those of this role and above; `recorded_as` is what the audit calls a visit of it."""
        return [Middleware(SecurityHeaders), Middleware(Access, door=self, role=role, recorded_as=recorded_as)]


class Access:
    """Lets a request through, or answers it with a login, a 401 or a 403."""

    def __init__(self, app: ASGIApp, door: Door, role: Role, recorded_as: str | None) -> None:
        self.app = app
        self.door = door
        self.server = door.server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        refusal = None
        if scope["type"] == "http":
            request = Request(scope)
            refusal = self._refusal(request)
            token = access_token(self.server)
            name = "this machine" if token is None else "access token"
            let_in(request, Visitor(name, name, "admin", signed_in=token is not None), self.door.csrf)
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        token = access_token(self.server)
        if token is None:
            local = names_this_machine(self.server.public_url) and is_local(request)
            return None if local else PlainTextResponse(ONLY_LOCAL + "\n", 403)
        if presents(request, token):
            return None
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)
        return PlainTextResponse("The access token is missing or wrong.\n", 401, {"www-authenticate": "Bearer"})


def access_token(server: ServerSettings) -> str | None:
    """The token that opens the pages, if one is set."""
    return server.access_token.get_secret_value() or None if server.access_token else None


def presents(request: Request, token: str) -> bool:
    """Whether the request carries the token as a Bearer header, or a login that was made with it."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and same(given.strip(), token):
        return True
    return session_is_valid(request.cookies.get(COOKIE, ""), token, time.time())


def same(given: str, expected: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def new_session(token: str, now: float) -> str:
    """A cookie value that proves knowledge of the token without holding it: `expiry.signature`."""
    expires = str(int(now) + SESSION_S)
    return f"{expires}.{_signature(token, expires)}"


def session_is_valid(session: str, token: str, now: float) -> bool:
    """Whether the cookie was made with this token and has not expired."""
    expires, _, signature = session.partition(".")
    return same(signature, _signature(token, expires)) and expires.isdecimal() and int(expires) > now


def _signature(token: str, expires: str) -> str:
    return hmac.new(token.encode(), f"faultline session {expires}".encode(), hashlib.sha256).hexdigest()


def is_local(request: Request) -> bool:
    """Whether the visitor is on this machine and named it so.

    The Host header is checked too: a foreign page whose name resolves to 127.0.0.1 (DNS rebinding) carries its own.
    """
    if any(name in request.headers for name in FORWARDED):
        return False
    named = names_this_machine("//" + request.headers.get("host", ""))
    return named and request.client is not None and _is_loopback(request.client.host)


def names_this_machine(url: str) -> bool:
    """Whether an address leads to loopback. A public address means a proxy, and a proxy may hide whom it serves:
    nginx sends a loopback Host and no forwarding header unless it is told otherwise.
    """
    host = _hostname(url)
    return host == "localhost" or _is_loopback(host)


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def local_target(target: str) -> str:
    """Where a login leads: a path of this site, whatever was asked for."""
    plain = target.startswith("/") and not target.startswith(("//", "/\\")) and "\\" not in target
    return target if plain and target.isprintable() else "/"
