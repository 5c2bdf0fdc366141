"""The one place where pdpyras is used: a session that sends GET and nothing else, within a pace,
deadline and budget.

pdpyras blocks, retries 429 forever by default and buffers answers of any size; `send`, through
which every request of a `requests` session passes, bounds all three.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import requests

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.environment_trust import ca_file_of_environment
from faultline.connectors.shared.transport.rate_limiter import RateLimiter
from faultline.connectors.shared.transport.transport import retry_after
from faultline.connectors.shared.vendor_text import plain_url, problem_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # says at import that it gets no more updates
    import pdpyras

VENDOR = "pagerduty"
CONNECT_S, READ_S = 3.0, 10.0
PAGE = 100
MOST_POSITIONS = 10_000
"""offset + limit beyond which PagerDuty answers 400 (REST API, "Pagination")."""
CHUNK = 65_536
OAUTH_TOKEN = re.compile(r"pd[a-z]{2}\+")
"""How tokens of PagerDuty's OAuth begin, with the region (developer.pagerduty.com, "Obtaining an
OAuth Token"): `pdus+`, `pdeu+`."""


def auth_type_of(token: str) -> str:
    """What pdpyras calls the token: PagerDuty takes API keys as `Token token=`, and OAuth tokens as
    `Bearer`."""
    return "oauth2" if OAUTH_TOKEN.match(token) else "token"


class ReadOnlySession(pdpyras.APISession):  # type: ignore[misc]
    """An API session whose requests can only be GET, to the API's own address. Not shared between
    threads."""

    permitted_methods = ("GET",)

    def __init__(
        self,
        token: str,
        url: str,
        from_email: str | None,
        limiter: RateLimiter,
        deadline: Deadline,
        budget: ByteBudget,
    ):
        super().__init__(token, default_from=from_email, auth_type=auth_type_of(token))
        self.verify = ca_file_of_environment() or True
        self.url = plain_url(url, VENDOR)
        # pdpyras retries 429 forever unless it is given a number.
        self.retry = {429: 3, 503: 1}
        self.max_network_attempts = 1
        self.sleep_timer = 0.25
        # A compressed answer may be far larger than the bytes that are counted.
        self.headers["Accept-Encoding"] = "identity"
        self.auth = (
            _identity  # or requests would replace the token by what ~/.netrc holds for the host
        )
        self._limiter = limiter
        self._deadline = deadline
        self._budget = budget

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send one request, or refuse to. The answer is read here, so that its size and time are
        bounded."""
        path = request.path_url.partition("?")[0]
        if request.method != "GET":
            raise ConnectorError(VENDOR, f"{request.method} {path}", "a connector sends GET only")
        if not (request.url or "").startswith(f"{self.url}/"):
            raise ConnectorError(VENDOR, path, "the request leaves the API's address")
        with self._limiter.permit_in_thread(self._deadline) as permit:
            # The wait for the permit may have used up the time.
            self._deadline.check()
            left = self._deadline.remaining
            options.update(
                stream=True,
                allow_redirects=False,
                timeout=(min(CONNECT_S, left), min(READ_S, left)),
            )
            # Set first: whatever raises below counts against the server.
            failed = True
            try:
                response: requests.Response = super().send(request, **options)
                permit.status = response.status_code
                with response:
                    self._read(path, response)
                failed = response.status_code >= 500
            finally:
                self._limiter.breaker.record(failed=failed)
        if response.is_redirect:
            raise ConnectorError(
                VENDOR,
                path,
                "answered with a redirect, which is not followed",
                status=response.status_code,
            )
        if response.status_code in self.retry:
            self._wait(path, response)
        return response

    def _read(self, path: str, response: requests.Response) -> None:
        """Read piece by piece: `read1` returns what has come, so that a drip cannot outlast the
        deadline."""
        if response.headers.get("Content-Encoding", "identity").lower() not in ("identity", ""):
            raise ConnectorError(VENDOR, path, "used an encoding that was not requested")
        body = bytearray()
        while chunk := response.raw.read1(CHUNK):
            self._deadline.check()
            self._budget.take(len(chunk))
            body += chunk
        # requests then takes the answer as read, and does not read it again.
        response._content = bytes(body)
        response._content_consumed = True

    def _wait(self, path: str, response: requests.Response) -> None:
        """Wait as long as PagerDuty says, where there is time; pdpyras itself would not look at the
        header."""
        ratelimit_reset = (
            response.headers.get("ratelimit-reset") or response.headers.get("retry-after") or ""
        )
        pause = retry_after({"retry-after": ratelimit_reset}, 0.0)
        if pause > self._deadline.remaining:
            raise refused(path, response.status_code)
        time.sleep(pause)


def _identity(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def fetch(
    session: ReadOnlySession, path: str, params: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The JSON object at `path`. Raises ConnectorError, BudgetExceeded."""
    try:
        response = session.get(path, params=dict(params or {}))
    except pdpyras.PDHTTPError as error:
        raise refused(path, error.response.status_code) from None
    except (pdpyras.PDClientError, requests.RequestException) as error:
        raise ConnectorError(
            VENDOR, path, f"no answer ({type(error.__cause__ or error).__name__})", retryable=True
        ) from None
    if response.status_code >= 400:
        raise refused(path, response.status_code)
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        raise ConnectorError(VENDOR, path, "the answer is not JSON") from None
    if not isinstance(answer, dict):
        raise ConnectorError(VENDOR, path, "the answer is not a JSON object")
    return answer


def fetch_all(
    session: ReadOnlySession, path: str, key: str, params: Mapping[str, Any], most: int
) -> Iterator[dict[str, Any]]:
    """The objects listed under `key`, page by page, `most` at most. Ends on an empty page, whatever
    `more` says."""
    offset = 0
    while offset < most and offset + PAGE <= MOST_POSITIONS:
        answer = fetch(
            session,
            path,
            {**params, "limit": min(PAGE, most), **({"offset": offset} if offset else {})},
        )
        page = answer.get(key)
        if not isinstance(page, list):
            raise ConnectorError(VENDOR, path, f"the answer holds no list of {key}")
        yield from (entry for entry in page[: most - offset] if isinstance(entry, dict))
        offset += len(page)
        if not page or answer.get("more") is not True:
            return


def refused(path: str, status: int) -> ConnectorError:
    """The error for a status of 400 or above."""
    return ConnectorError(
        VENDOR, path, problem_of(status), status=status, retryable=status == 429 or status >= 500
    )
