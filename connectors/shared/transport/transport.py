"""The HTTP transport of connectors: read-only, at the vendor's rate, within a deadline and a size.

It wraps another transport, as httpx means it (python-httpx.org/advanced/transports). Whatever is
built with a client that `open_client` gives goes through it: what would write is refused before it
is sent. Redirects are not followed, payloads are never logged, and every failure is a
ConnectorError or BudgetExceeded.

Retries are our own code. stamina (25) bounds attempts and time too, and its backoff hook could
return a Retry-After, but it would sleep past the deadline of the collection for a result that
nobody waits for any more: here a pause that is too long is an error at once.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Protocol

import httpx

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.rate_limiter import RateLimiter, rate_limiter_of
from faultline.connectors.shared.vendor_text import short

RETRYABLE = frozenset({429, 502, 503, 504})
"""Statuses that say "later", not "no" (RFC 9110 section 15.6, RFC 6585 section 4)."""
NOT_IN_TIME = "no answer in time"
CHUNK = 65_536
ERROR_BODY = 65_536
"""The part of an error's body that is read for its message."""
CALL = "call"
"""The request extension that names the call in errors; without it they name the path."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds for one request; the deadline of the collection bounds them further."""

    connect_s: float = 3.0
    read_s: float = 10.0


@dataclass(frozen=True)
class Retries:
    """Attempts of one request, and the first pause where the vendor names none (it then
    doubles)."""

    attempts: int = 3
    pause_s: float = 0.5


TIMEOUTS = Timeouts()
RETRIES = Retries()
Allow = Callable[[httpx.Request], None]
"""Raises ConnectorError for a request that must not be sent."""


def get_only(request: httpx.Request) -> None:
    """Allow GET and nothing else."""
    if request.method != "GET":
        raise ConnectorError(request.url.host, request.method, "a connector sends GET only")


class Quota(Protocol):
    """What a vendor says of its own rate limit, over all sessions of a connector."""

    async def wait(self, call: str, deadline: Deadline) -> None:
        """Wait until the vendor takes requests again. Raises ConnectorError where that is late."""

    def read(self, response: httpx.Response) -> httpx.Response:
        """Note what the response says; a refusal that means "later" gets a status that says so."""


class VendorTransport(httpx.AsyncBaseTransport):
    """Sends requests of one collection to one server of a vendor. Safe to use from several tasks.

    A response comes back read to its end and unpacked. A status that stays retryable after the last
    attempt comes back too: what it means is the caller's to say.
    """

    def __init__(
        self,
        wrapped: httpx.AsyncBaseTransport,
        limiter: RateLimiter,
        deadline: Deadline,
        budget: ByteBudget,
        *,
        allow: Allow = get_only,
        retries: Retries = RETRIES,
        quota: Quota | None = None,
    ) -> None:
        self._wrapped = wrapped
        self._limiter = limiter
        self._deadline = deadline
        self._budget = budget
        self._allow = allow
        self._retries = retries
        self._quota = quota

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response, after retries. Raises ConnectorError, BudgetExceeded."""
        self._allow(request)
        call = str(request.extensions.get(CALL, request.url.path))
        for attempt in range(1, self._retries.attempts + 1):
            pause = self._retries.pause_s * 2 ** (attempt - 1)
            is_last = attempt == self._retries.attempts
            try:
                response = await self._attempt(request, call)
            except ConnectorError as error:
                if is_last or not error.retryable or pause > self._deadline.remaining:
                    raise
            else:
                if response.status_code not in RETRYABLE:
                    return response
                pause = retry_after(response.headers, pause)
                if is_last or pause > self._deadline.remaining:
                    return response
            await asyncio.sleep(pause)
        raise AssertionError("attempts is at least 1")

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._wrapped.aclose()

    async def _attempt(self, request: httpx.Request, call: str) -> httpx.Response:
        if self._quota is None:
            return await self._send(request, call)
        await self._quota.wait(call, self._deadline)
        return self._quota.read(await self._send(request, call))

    async def _send(self, request: httpx.Request, call: str) -> httpx.Response:
        vendor, breaker = self._limiter.vendor, self._limiter.breaker
        async with self._limiter.permit(self._deadline) as watched:
            try:
                async with asyncio.timeout(self._deadline.remaining):
                    raw = await self._wrapped.handle_async_request(request)
                    # Note the status before the body is read, which may still fail.
                    watched.status = raw.status_code
                    try:
                        response = await self._read(raw, call)
                    finally:
                        await raw.aclose()
            except TimeoutError:
                breaker.record(failed=True, why=NOT_IN_TIME)
                raise self._deadline.exceeded() from None
            except httpx.TimeoutException as error:
                breaker.record(failed=True, why=NOT_IN_TIME)
                raise ConnectorError(vendor, call, NOT_IN_TIME, retryable=True) from error
            # A server that refuses our certificate says so when the answer is read, and httpx
            # passes OpenSSL's error on as it is.
            except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
                tls = _tls_problem(error)
                problem = tls or f"no answer ({type(error).__name__})"
                breaker.record(failed=True, why=problem)
                raise ConnectorError(vendor, call, problem, retryable=tls is None) from error
            status = response.status_code
            breaker.record(failed=status >= 500, why=f"HTTP {status}")
            return response

    async def _read(self, raw: httpx.Response, call: str) -> httpx.Response:
        if raw.is_redirect:
            problem = "answered with a redirect, which is not followed"
            raise self._error(call, problem, status=raw.status_code)
        encoding = raw.headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip", ""):
            problem = f"used an encoding that was not requested: {short(encoding)}"
            raise self._error(call, problem)
        body = await self._read_body(raw, call, packed=encoding == "gzip")
        headers = httpx.Headers(raw.headers)
        # The body is unpacked already: httpx would try to unpack it again.
        headers.pop("content-encoding", None)
        headers.pop("content-length", None)
        return httpx.Response(raw.status_code, headers=headers, content=body)

    async def _read_body(self, raw: httpx.Response, call: str, *, packed: bool) -> bytes:
        """Read and unpack by chunks: neither a long answer nor a gzip bomb exceeds the budget."""
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if packed else None
        is_error = raw.status_code >= 400
        body = bytearray()
        try:
            async for packed_chunk in raw.aiter_raw(CHUNK):
                chunk = packed_chunk
                if unpack is not None:
                    # One byte more than is left is enough to see that the budget is exceeded.
                    chunk = unpack.decompress(packed_chunk, self._budget.left + 1)
                self._budget.take(len(chunk))
                body += chunk
                # An error is read for its message alone.
                if is_error and len(body) > ERROR_BODY:
                    break
        except zlib.error as error:
            raise self._error(call, "the answer's compression is broken") from error
        if unpack is not None and not unpack.eof and not is_error:
            raise self._error(call, "the response was cut off", retryable=True)
        return bytes(body)

    def _error(
        self, call: str, problem: str, *, status: int | None = None, retryable: bool = False
    ) -> ConnectorError:
        vendor = self._limiter.vendor
        return ConnectorError(vendor, call, problem, status=status, retryable=retryable)


def _tls_problem(error: BaseException) -> str | None:
    """Why no TLS connection came about; None where it is not that."""
    cause: BaseException | None = error
    # httpx raises its own error and keeps OpenSSL's among the causes.
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = short(cause.verify_message, 80)
            return f"its certificate is not trusted ({reason}): set ca_file, or SSL_CERT_FILE"
        if isinstance(cause, ssl.SSLError):
            return f"no TLS connection ({short(cause.reason or 'no reason given', 60)})"
        cause = cause.__cause__ or cause.__context__
    return None


class ClientTransport(httpx.AsyncBaseTransport):
    """An ordinary client as a transport.

    A client that is given a transport no longer looks at the environment's proxies; one inside it
    does.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response with its body still to be read."""
        return await self._client.send(request, stream=True, follow_redirects=False)

    async def aclose(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()


def plain_client(
    *,
    verify: ssl.SSLContext | bool = True,
    timeouts: Timeouts = TIMEOUTS,
    use_proxies: bool = True,
    proxy: str | None = None,
) -> httpx.AsyncClient:
    """The connections below every request of a connector. It follows no redirect.

    For a vendor's API take `open_client`, which adds the limits. `use_proxies` is whether the
    environment's proxies are used; a `proxy` is used instead of them, also for hosts of
    `NO_PROXY`.
    """
    timeout = httpx.Timeout(timeouts.read_s, connect=timeouts.connect_s)
    if verify is True:
        # What httpx verifies with by itself; the environment may name other certificates.
        if not use_proxies:
            verify = _trust(None, None)
        else:
            verify = _trust(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return httpx.AsyncClient(
        verify=verify,
        timeout=timeout,
        trust_env=use_proxies,
        proxy=proxy,
        follow_redirects=False,
    )


@cache
def _trust(file: str | None, directory: str | None) -> ssl.SSLContext:
    """Kept for the life of the process: to read all certificates takes 30 ms, which each collection
    of each connector would wait for."""
    return httpx.create_ssl_context(trust_env=file is not None or directory is not None)


@asynccontextmanager
async def open_client(
    vendor: str,
    server: str,
    limits: Limits,
    *,
    headers: Mapping[str, str],
    deadline: Deadline,
    budget: ByteBudget | None = None,
    timeouts: Timeouts = TIMEOUTS,
    retries: Retries = RETRIES,
    verify: ssl.SSLContext | bool = True,
    allow: Allow = get_only,
    quota: Quota | None = None,
    auth: httpx.Auth | None = None,
    use_proxies: bool = True,
    proxy: str | None = None,
) -> AsyncIterator[httpx.AsyncClient]:
    """A client for one collection, with its own connections. The only way to open one.

    Without a `budget` it gets the bytes of `limits` for itself.
    """
    timeout = httpx.Timeout(timeouts.read_s, connect=timeouts.connect_s)
    transport = VendorTransport(
        ClientTransport(plain_client(verify=verify, use_proxies=use_proxies, proxy=proxy)),
        rate_limiter_of(vendor, server, limits),
        deadline,
        budget or ByteBudget(f"size of {vendor}'s answers", limits.max_bytes),
        allow=allow,
        retries=retries,
        quota=quota,
    )
    async with httpx.AsyncClient(
        headers=headers, timeout=timeout, transport=transport, follow_redirects=False, auth=auth
    ) as client:
        yield client


def retry_after(headers: Mapping[str, str], otherwise: float) -> float:
    """Seconds the vendor asks to wait, or `otherwise`.

    Retry-After holds seconds or a date (RFC 9110 section 10.2.3). Without it, the seconds of
    RateLimit-Reset where the limit is used up (docs.wandb.ai; IETF draft), or the moment that
    Sentry names (docs.sentry.io, "Rate Limits": UTC epoch seconds).
    """
    reset = ""
    if headers.get("ratelimit-remaining", "0").strip() == "0":
        reset = headers.get("ratelimit-reset", "")
    text = headers.get("retry-after", reset).strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    now = datetime.now(UTC)
    moment = headers.get("x-sentry-rate-limit-reset", "").strip()
    if not text and moment.isascii() and moment.isdigit():
        return max(0.0, float(moment[:12]) - now.timestamp())
    if not text:
        return otherwise
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return otherwise
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())
