"""The one place where datadog-api-client is used: it builds the requests; it may send
`datadog_calls.CALLS` alone.

Requests are made in threads by the client's blocking side: its async side (the `async` extra) reads
answers whole, whatever their size, and needs another HTTP library. Every request passes
`_Sending.request`, which holds the list of calls, the pace, the deadline, the size and the rate
limits. Answers are read as JSON and not as the client's models: one unknown field or a null would
cost the whole answer, and importing the models costs seconds.
"""

from __future__ import annotations

import importlib
import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import urllib3
from datadog_api_client.api_client import ApiClient
from datadog_api_client.configuration import Configuration
from datadog_api_client.exceptions import OpenApiException
from datadog_api_client.rest import RESTClientObject

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.environment_trust import (
    ca_file_of_environment,
    proxy_of_environment,
)
from faultline.connectors.shared.transport.rate_limiter import RateLimiter, rate_limiter_of
from faultline.connectors.shared.transport.transport import RETRYABLE
from faultline.connectors.shared.vendor_text import (
    plain_url,
    problem_of,
    short,
    unexpected_response,
)
from faultline.connectors.vendors.datadog.calls import Call, call_of

T = TypeVar("T")

VENDOR = "datadog"
CONNECT_S, READ_S = 3.0, 15.0
ATTEMPTS, PAUSE_S = 3, 0.5
CHUNK = 65_536
ERROR_BODY = 65_536

ALLOWANCES: Mapping[str, tuple[int, float]] = {"spans": (240, 3600.0), "traces": (45, 60.0)}
"""Calls in this many seconds. Datadog allows an organisation 300 searches for spans an hour and 60
traces a minute (API reference, "Spans" and "APM Trace"); a part is left to its people."""


@dataclass(frozen=True)
class DatadogResponse:
    """An answer read to its end, decoded from gzip."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Allowances:
    """What is left of the rate limits of one server, for all investigations of this process."""

    def __init__(self) -> None:
        self._used: dict[str, deque[float]] = {name: deque() for name in ALLOWANCES}
        self._closed_until: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, call: Call) -> float:
        """Seconds until Datadog takes the call again, 0 for now. Raises ConnectorError when our own
        share is used."""
        with self._lock:
            now = time.monotonic()
            if call.allowance:
                most, seconds = ALLOWANCES[call.allowance]
                used = self._used[call.allowance]
                while used and used[0] <= now - seconds:
                    used.popleft()
                if len(used) >= most:
                    share = f"{most} in {seconds:g} s"
                    problem = (
                        "our share of Datadog's rate limit for "
                        f"{call.allowance} is used up ({share})"
                    )
                    raise ConnectorError(VENDOR, call.text, problem)
                # Count before sending, so that other threads see the place as taken.
                used.append(now)
            return max(0.0, self._closed_until.get(call.text, 0.0) - now)

    def note(self, call: Call, headers: Mapping[str, str]) -> None:
        """Remember a limit that is used up, until it resets."""
        if headers.get("x-ratelimit-remaining", "").strip() == "0":
            with self._lock:
                self._closed_until[call.text] = time.monotonic() + seconds_to_reset(headers, 0.0)


def seconds_to_reset(headers: Mapping[str, str], otherwise: float) -> float:
    """Seconds that Datadog asks to wait (API reference, "Rate limits"), or `otherwise`."""
    for name in ("x-ratelimit-reset", "retry-after"):
        text = headers.get(name, "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
    return otherwise


_allowances: dict[str, Allowances] = {}
_allowances_lock = threading.Lock()


def allowances_of(server: str) -> Allowances:
    """The allowances shared by everybody in this process who asks that server."""
    with _allowances_lock:
        return _allowances.setdefault(server, Allowances())


@dataclass(frozen=True)
class DatadogAccess:
    """How Datadog is reached: the API's address, both keys, and the limits."""

    url: str
    api_key: str
    application_key: str
    limits: Limits

    def session(self, deadline: Deadline) -> DatadogSession:
        """A session for one collection."""
        return DatadogSession(self, deadline)


class DatadogSession:
    """One collection's calls, from any thread; closed at its end."""

    def __init__(self, access: DatadogAccess, deadline: Deadline) -> None:
        self.deadline = deadline
        configuration = Configuration(  # type: ignore[no-untyped-call]
            host=plain_url(access.url, VENDOR),
            api_key={"apiKeyAuth": access.api_key, "appKeyAuth": access.application_key},
        )
        # Leave the body to `_read`, which keeps within the bounds.
        configuration.preload_content = False
        configuration.proxy = proxy_of_environment(configuration.host)
        configuration.ssl_ca_cert = ca_file_of_environment()
        # the list of calls decides; what is named here would warn, or be refused
        configuration.unstable_operations = {}  # type: ignore[assignment]
        self._client = _Client(configuration, access.limits, deadline)

    def ask(self, call: Call, type: type[T], **params: Any) -> T:
        """The answer to a call, decoded as `type`; `params` are the client's own parameters.
        Blocks.

        Raises ConnectorError, BudgetExceeded.
        """
        module, _, api = call.api.rpartition(".")
        try:
            apis = importlib.import_module(f"datadog_api_client.{module.replace('.', '.api.', 1)}")
            answer: DatadogResponse = getattr(getattr(apis, api)(self._client), call.name)(**params)
        except OpenApiException as error:
            problem = f"the request cannot be made ({error.__class__.__name__})"
            raise ConnectorError(VENDOR, call.text, problem) from None
        try:
            return msgspec.json.decode(answer.body, type=type)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise unexpected_response(VENDOR, call.text, error) from error

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


class _Client(ApiClient):
    """The client, with our way to send."""

    def __init__(self, configuration: Configuration, limits: Limits, deadline: Deadline) -> None:
        self._limits = limits
        self._deadline = deadline
        super().__init__(configuration)

    def _build_rest_client(self) -> _Sending:
        return _Sending(self.configuration, self._limits, self._deadline)


class _Sending(RESTClientObject):
    """Sends what is on the list, to the API's own address, and reads what comes within limits."""

    def __init__(self, configuration: Configuration, limits: Limits, deadline: Deadline) -> None:
        super().__init__(configuration, maxsize=limits.concurrency)  # type: ignore[no-untyped-call]
        self._url = configuration.host
        self._limiter: RateLimiter = rate_limiter_of(VENDOR, self._url, limits)
        # Datadog counts by organisation: two of them at one address have their own.
        self._allowances = allowances_of(f"{self._limiter.vendor} {self._url}")
        self._deadline = deadline
        self._budget = ByteBudget("size of datadog's answers", limits.max_bytes)

    def request(
        self,
        method: str,
        url: str,
        query_params: Any = None,
        headers: Any = None,
        body: Any = None,
        post_params: Any = None,
        preload_content: bool = True,
        request_timeout: Any = None,
    ) -> DatadogResponse:
        """Send one request, or refuse to; try again where Datadog says "later" and there is
        time."""
        # The settings may put the API below a path of a proxy.
        path = urlsplit(url).path.removeprefix(urlsplit(self._url).path)
        call = call_of(method, path)
        # Both keys travel with the request, so nothing leaves for another address.
        if call is None or post_params or not url.startswith(f"{self._url}/"):
            raise ConnectorError(
                VENDOR, f"{method} {short(path, 80)}", "a connector sends reading calls only"
            )
        for attempt in range(1, ATTEMPTS + 1):
            # A retry counts against Datadog's limit as well.
            self._wait(call, self._allowances.take(call))
            try:
                answer = self._once(call, url, query_params, dict(headers or {}), body)
            except ConnectorError as error:
                if attempt == ATTEMPTS or not error.retryable:
                    raise
                pause = PAUSE_S * 2 ** (attempt - 1)
            else:
                if answer.status < 400:
                    return answer
                pause = seconds_to_reset(answer.headers, PAUSE_S * 2 ** (attempt - 1))
                if (
                    answer.status not in RETRYABLE
                    or attempt == ATTEMPTS
                    or pause > self._deadline.remaining
                ):
                    raise refused(call, answer)
            self._wait(call, pause)
        raise AssertionError("ATTEMPTS is at least 1")

    def _wait(self, call: Call, seconds: float) -> None:
        if seconds > self._deadline.remaining:
            problem = f"the rate limit is used up; it resets in {seconds:.0f} s"
            raise ConnectorError(VENDOR, call.text, problem, status=429, retryable=True)
        time.sleep(seconds)

    def _once(
        self, call: Call, url: str, query: Any, headers: dict[str, str], body: Any
    ) -> DatadogResponse:
        payload: dict[str, Any] = (
            {"fields": query} if call.method == "GET" else {"body": json.dumps(body)}
        )
        with self._limiter.permit_in_thread(self._deadline) as permit, self._judged(call):
            self._deadline.check()
            left = self._deadline.remaining
            timeout = urllib3.Timeout(connect=min(CONNECT_S, left), read=min(READ_S, left))
            response = self.pool_manager.request(
                call.method, url, headers={**headers, "Accept-Encoding": "gzip"}, redirect=False,
                retries=False,
                preload_content=False, decode_content=False, timeout=timeout, **payload,
            )  # fmt: skip
            permit.status = response.status
            try:
                values = {name.lower(): value for name, value in response.headers.items()}
                if 300 <= response.status < 400:
                    problem = "answered with a redirect, which is not followed"
                    raise ConnectorError(VENDOR, call.text, problem, status=response.status)
                answer = DatadogResponse(
                    response.status, values, self._read(call, response, values)
                )
            finally:
                response.close()
        self._limiter.breaker.record(failed=answer.status >= 500, why=f"HTTP {answer.status}")
        self._allowances.note(call, answer.headers)
        return answer

    @contextmanager
    def _judged(self, call: Call) -> Iterator[None]:
        """A failed connection as a ConnectorError, and noted."""
        try:
            yield
        except (urllib3.exceptions.TimeoutError, TimeoutError):
            self._limiter.breaker.record(failed=True, why="no answer in time")
            raise ConnectorError(VENDOR, call.text, "no answer in time", retryable=True) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            problem = f"no answer ({type(error).__name__})"
            self._limiter.breaker.record(failed=True, why=problem)
            raise ConnectorError(VENDOR, call.text, problem, retryable=True) from None

    def _read(self, call: Call, response: Any, headers: Mapping[str, str]) -> bytes:
        """Read and unpack piece by piece, so that no answer takes more time or memory than it
        may."""
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip", ""):
            raise ConnectorError(VENDOR, call.text, "used an encoding that was not requested")
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == "gzip" else None
        most = ERROR_BODY if response.status >= 400 else None
        body = bytearray()
        try:
            while raw := response.read1(CHUNK, decode_content=False):
                self._deadline.check()
                # One byte more than is left is enough to see that the budget is exceeded.
                chunk = unpack.decompress(raw, self._budget.left + 1) if unpack else raw
                self._budget.take(len(chunk))
                body += chunk
                if most and len(body) > most:
                    break
        except zlib.error:
            raise ConnectorError(VENDOR, call.text, "the answer's compression is broken") from None
        except urllib3.exceptions.ProtocolError:
            raise ConnectorError(
                VENDOR, call.text, "the response was cut off", retryable=True
            ) from None
        if unpack and not unpack.eof and not most:
            raise ConnectorError(VENDOR, call.text, "the response was cut off", retryable=True)
        return bytes(body)


class _Errors(msgspec.Struct):
    errors: list[Any] = []


def refused(call: Call, answer: DatadogResponse) -> ConnectorError:
    """The error for a status of 400 or above; Datadog's own words are given for a request that it
    found wrong."""
    problem = problem_of(answer.status)
    if answer.status in (400, 422):
        problem += _error_text(answer.body)
    if answer.status == 403:
        problem = "not permitted with these keys (or one of them is not valid)"
    return ConnectorError(
        VENDOR, call.text, problem, status=answer.status, retryable=answer.status in RETRYABLE
    )


def _error_text(body: bytes) -> str:
    try:
        first = next(iter(msgspec.json.decode(body, type=_Errors).errors), "")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
    words = first.get("detail") or first.get("title") if isinstance(first, dict) else first
    return f": {short(words)}" if isinstance(words, str) and words else ""


def threads(limits: Limits) -> ThreadPoolExecutor:
    """The threads in which a connector's calls are made."""
    return ThreadPoolExecutor(limits.concurrency, thread_name_prefix=VENDOR)
