"""The headers that keep hostile text harmless, on every answer of the pages."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
        "'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # not no-referrer: with that, browsers name no origin in forms of our own either (Fetch, "append
    # a request Origin")
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": (
        "camera=(), microphone=(), geolocation=(), payment=(), usb=(), serial=(), "
        "display-capture=(), fullscreen=()"
    ),
    "x-robots-tag": "noindex, nofollow",
}
HTTPS_ONLY = {"strict-transport-security": "max-age=31536000"}
"""Where the site is https: a browser does not ask for it otherwise for a year."""


class SecurityHeaders:
    """Adds `HEADERS` to every response, but those that it has itself, as the trace report its
    policy; caches keep only what is a static file."""

    def __init__(self, app: ASGIApp, https: bool = False) -> None:
        self.app = app
        self.headers = HEADERS | (HTTPS_ONLY if https else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self.app(scope, receive, with_headers)
