"""HTTP for connectors: GET and nothing else, under a pace, a deadline and a byte budget.

Redirects are not followed, payloads are never logged. Every failure is a ConnectorError or
BudgetExceeded.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from analysis.errors import ConnectorError, SettingsError
from connectors.limits import Limits
from connectors.pacing import ByteBudget, Deadline, Pace, pace_of

T = TypeVar("T")

RETRYABLE = frozenset({429, 502, 503, 504})
"""Statuses that say "later", not "no" (RFC 9110 section 15.6, RFC 6585 section 4)."""
CHUNK = 65_536
ERROR_BODY = 65_536
"""So much of an error's body is read for its message."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds for one request; the deadline of the collection bounds them further."""

    connect_s: float = 3.0
    read_s: float = 10.0


@dataclass(frozen=True)
class Retries:
    """How often a request is made at most, and the first pause where the vendor names none (it then
    doubles)."""

    attempts: int = 3
    pause_s: float = 0.5


@dataclass(frozen=True)
class Answer:
    """An answer read to its end. `body` is decoded from gzip."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ReadOnlyHttp:
    """A vendor's HTTP API, of which only GET can be asked. One per connector; `open` gives one per
    collection."""

    def __init__(
        self,
        vendor: str,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits,
        timeouts: Timeouts = Timeouts(),
        retries: Retries = Retries(),
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self.vendor = vendor
        self.base_url = plain_url(base_url, vendor)
        self.limits = limits
        self._headers = {"Accept": "application/json", "Accept-Encoding": "gzip", **(headers or {})}
        self._timeouts = timeouts
        self._retries = retries
        self._verify = verify

    @asynccontextmanager
    async def open(self, deadline: Deadline | None = None) -> AsyncIterator[HttpSession]:
        """A session with its own connections, deadline and byte budget."""
        timeout = httpx.Timeout(self._timeouts.read_s, connect=self._timeouts.connect_s)
        async with httpx.AsyncClient(
            headers=self._headers,
            timeout=timeout,
            follow_redirects=False,
            verify=self._verify,
            event_hooks={"request": [_refuse_writes]},
        ) as client:
            yield HttpSession(
                self.vendor,
                self.base_url,
                client,
                pace_of(self.vendor, self.base_url, self.limits),
                deadline or Deadline.within(self.limits),
                ByteBudget(f"size of {self.vendor}'s answers", self.limits.max_bytes),
                self._retries,
            )


class HttpSession:
    """One collection's requests. Safe to use from several tasks at once."""

    def __init__(
        self,
        vendor: str,
        base_url: str,
        client: httpx.AsyncClient,
        pace: Pace,
        deadline: Deadline,
        budget: ByteBudget,
        retries: Retries,
    ) -> None:
        self._vendor = vendor
        self._base_url = base_url
        self._client = client
        self._pace = pace
        self._budget = budget
        self._retries = retries
        self.deadline = deadline

    async def get(
        self, path: str, params: list[tuple[str, str]] | None = None, *, type: type[T]
    ) -> T:
        """The answer to GET `path`, decoded from JSON as `type`. Raises ConnectorError,
        BudgetExceeded."""
        answer = await self._answer(path, params or [])
        if answer.status >= 400:
            raise self._refused(path, answer)
        try:
            return msgspec.json.decode(answer.body, type=type)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ConnectorError(
                self._vendor, path, f"the answer is not understood: {short(str(error))}"
            ) from error

    async def _answer(self, path: str, params: list[tuple[str, str]]) -> Answer:
        for attempt in range(1, self._retries.attempts + 1):
            pause = self._retries.pause_s * 2 ** (attempt - 1)
            last = attempt == self._retries.attempts
            try:
                answer = await self._once(path, params)
            except ConnectorError as error:
                if last or not error.retryable or pause > self.deadline.remaining:
                    raise
            else:
                if answer.status not in RETRYABLE:
                    return answer
                pause = retry_after(answer.headers, pause)
                if last or pause > self.deadline.remaining:
                    raise self._refused(path, answer)
            await asyncio.sleep(pause)
        raise AssertionError("attempts is at least 1")

    async def _once(self, path: str, params: list[tuple[str, str]]) -> Answer:
        async with self._pace.turn(self.deadline) as asked:
            try:
                async with (
                    asyncio.timeout(self.deadline.remaining),
                    self._stream(path, params) as response,
                ):
                    asked.status = response.status_code
                    if response.is_redirect:
                        raise ConnectorError(
                            self._vendor,
                            path,
                            "answered with a redirect, which is not followed",
                            status=response.status_code,
                        )
                    body = await self._read(path, response)
                    self._pace.breaker.note(failed=response.status_code >= 500)
                    return Answer(response.status_code, response.headers, body)
            except TimeoutError:
                self._pace.breaker.note(failed=True)
                raise self.deadline.exceeded() from None
            except httpx.TimeoutException as error:
                self._pace.breaker.note(failed=True)
                raise ConnectorError(
                    self._vendor, path, "no answer in time", retryable=True
                ) from error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                self._pace.breaker.note(failed=True)
                problem = f"no answer ({type(error).__name__})"
                raise ConnectorError(self._vendor, path, problem, retryable=True) from error

    def _stream(
        self, path: str, params: list[tuple[str, str]]
    ) -> AbstractAsyncContextManager[httpx.Response]:
        return self._client.stream(
            "GET", self._base_url + path, params=httpx.QueryParams(tuple(params))
        )

    async def _read(self, path: str, response: httpx.Response) -> bytes:
        """Read and unpack chunk by chunk, so that neither a long answer nor a gzip bomb takes more
        than the budget."""
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip", ""):
            raise ConnectorError(
                self._vendor,
                path,
                f"answered in an encoding that was not asked for: {short(encoding)}",
            )
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == "gzip" else None
        error_limit = ERROR_BODY if response.status_code >= 400 else None
        body = bytearray()
        try:
            async for raw in response.aiter_raw(CHUNK):
                chunk = unpack.decompress(raw, self._budget.left + 1) if unpack else raw
                self._budget.take(len(chunk))
                body += chunk
                if error_limit and len(body) > error_limit:
                    break
        except zlib.error as error:
            raise ConnectorError(
                self._vendor, path, "the answer's compression is broken"
            ) from error
        if unpack and not unpack.eof and not error_limit:
            raise ConnectorError(
                self._vendor, path, "the answer ends in the middle", retryable=True
            )
        return bytes(body)

    def _refused(self, path: str, answer: Answer) -> ConnectorError:
        said = _said(answer)
        problem = problem_of(answer.status) + (f": {said}" if said else "")
        return ConnectorError(
            self._vendor, path, problem, status=answer.status, retryable=answer.status in RETRYABLE
        )


_WORDS = {
    400: "the request was not accepted",
    401: "the credentials were not accepted",
    402: "not part of this plan",
    403: "not permitted with these credentials",
    404: "not found",
    422: "the request was not accepted",
    429: "the rate limit is used up",
    503: "not available now",
}


def problem_of(status: int) -> str:
    """A status in words."""
    return _WORDS.get(status, "refused")


def plain_url(url: str, vendor: str) -> str:
    """The base URL without a trailing slash. Raises SettingsError when it carries credentials, a
    query or no host."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{vendor}.url", "must be a URL like https://host/path")
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            f"{vendor}.url", "must not carry a user name or password; use the token"
        )
    if parts.query or parts.fragment:
        raise SettingsError(f"{vendor}.url", "must not carry a query or fragment")
    return url.rstrip("/")


def retry_after(headers: Mapping[str, str], otherwise: float) -> float:
    """Seconds the vendor asks to wait (RFC 9110 section 10.2.3: seconds or a date), or `otherwise`.

    Without Retry-After, the seconds of RateLimit-Reset where the limit is used up (docs.wandb.ai;
    IETF draft), or the moment that Sentry names (docs.sentry.io, "Rate Limits": UTC epoch seconds).
    """
    reset = (
        headers.get("ratelimit-reset", "")
        if headers.get("ratelimit-remaining", "0").strip() == "0"
        else ""
    )
    text = headers.get("retry-after", reset).strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    moment = headers.get("x-sentry-rate-limit-reset", "").strip()
    if not text and moment.isascii() and moment.isdigit():
        return max(0.0, float(moment[:12]) - datetime.now(UTC).timestamp())
    if text:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return otherwise
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    return otherwise


def short(text: str, limit: int = 160) -> str:
    """Text of a vendor, made fit for one line of a report: printable characters only, and not
    many."""
    printable = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return printable if len(printable) <= limit else printable[: limit - 1] + "…"


async def _refuse_writes(request: httpx.Request) -> None:
    if request.method != "GET":
        raise ConnectorError(request.url.host, request.method, "a connector sends GET only")


class _ErrorBody(msgspec.Struct):
    error: str | None = None


def _said(answer: Answer) -> str:
    """The vendor's own words for a request it found wrong; nothing is quoted of other errors."""
    if answer.status not in (400, 422):
        return ""
    try:
        return short(msgspec.json.decode(answer.body, type=_ErrorBody).error or "")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
