"""Whether a request was sent by a page of ours: forms of other sites, and scripts of theirs, come
to nothing.

Three walls, each enough: the browser's own word (Sec-Fetch-Site, Origin), the cookie's SameSite,
and a value that only pages of this login hold (OWASP's synchroniser token).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.types import Message, Receive, Scope

from faultline.bot.web.sessions import CSRF_FIELD, CSRF_HEADER

MAX_BODY = 65_536
"""Bytes of a form; the longest of ours holds a few thousand characters."""
MAX_FIELDS = 40
READS = frozenset({"GET", "HEAD", "OPTIONS"})
OURS = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of our own pages, and of what a person typed."""
FORM = "application/x-www-form-urlencoded"
TOO_LONG = "This form is longer than anything that is asked for here."
FOREIGN = "This request was sent by another site, and nothing was done."
NO_TOKEN = (
    "This form is too old, or did not come from this page. "  # noqa: S105
    "Open the page again and send it from there."
)


def csrf_value(secret: str) -> str:
    """The value for the forms of whoever holds this secret: it shows the holder, and not the
    secret."""
    return hmac.new(
        secret.encode("utf-8", "replace"), b"faultline form", hashlib.sha256
    ).hexdigest()


def same(candidate: str, expected: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(
        candidate.encode("utf-8", "replace"), expected.encode("utf-8", "replace")
    )


def is_foreign(request: Request, public_url: str) -> bool:
    """Whether the browser says that another site sent this. Following a link from elsewhere is no
    such thing."""
    site = request.headers.get("sec-fetch-site")
    if request.method in READS:
        return site not in (None, *OURS) and request.headers.get("sec-fetch-mode") != "navigate"
    if site is not None and site not in OURS:
        return True
    origin = request.headers.get("origin")
    # Not every client sends an Origin: for these the form's own value decides.
    if origin is None or (origin == "null" and site in OURS):
        return False
    public = urlsplit(public_url)
    site_origins = {
        f"{public.scheme}://{public.netloc}".lower(),
        # The page may be open under another name of this server.
        f"{public.scheme}://{request.headers.get('host', '')}".lower(),
    }
    return origin.lower() not in site_origins


class FormReader:
    """Reads a form once, whole and within bounds, and gives it on to the handler unread."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope = scope
        self._receive = receive
        self._body = b""
        self._is_delivered = False

    async def problem(self, csrf: str) -> tuple[int, str] | None:
        """What is wrong with the form, as a status and a line; None when it carries the value that
        it must."""
        if not await self._read():
            return 413, TOO_LONG
        request = Request(self._scope, self.receive)
        header = request.headers.get(CSRF_HEADER) or _field(await self._form(request))
        # The handler reads the body again from its beginning.
        self._is_delivered = False
        return None if csrf and same(header, csrf) else (403, NO_TOKEN)

    async def receive(self) -> Message:
        """The body that was read; then whatever the server says."""
        if self._is_delivered:
            return await self._receive()
        self._is_delivered = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _read(self) -> bool:
        pieces, size = [], 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                # The client has gone, and no answer reaches it.
                return True
            size += len(message.get("body", b""))
            if size > MAX_BODY:
                return False
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                self._body = b"".join(pieces)
                return True

    async def _form(self, request: Request) -> Mapping[str, object]:
        if not request.headers.get("content-type", "").lower().startswith(FORM):
            return {}
        try:
            return await request.form(max_files=0, max_fields=MAX_FIELDS, max_part_size=MAX_BODY)
        except (HTTPException, MultiPartException):
            return FormData()


def _field(form: Mapping[str, object]) -> str:
    token = form.get(CSRF_FIELD)
    return token if isinstance(token, str) else ""
