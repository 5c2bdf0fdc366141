"""A vendor's HTTP API of JSON answers, limited to GET.

How requests are sent is the transport's: `faultline.connectors.shared.transport.transport`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.transport import (
    CALL,
    RETRIES,
    RETRYABLE,
    TIMEOUTS,
    Quota,
    Retries,
    Timeouts,
    get_only,
    open_client,
)
from faultline.connectors.shared.vendor_text import (
    plain_url,
    problem_of,
    short,
    unexpected_response,
)

T = TypeVar("T")
H = TypeVar("H", bound="HttpSession")

JSON_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip"}


class VendorHttp(Generic[H]):
    """A vendor's HTTP API: what `_allowed` says, which is GET alone. One per connector; `open`
    gives one session per collection."""

    session: type[H]
    quota: Quota | None = None
    """What the vendor says of its own rate limit, where it does so in its own headers."""

    def __init__(
        self,
        vendor: str,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits,
        timeouts: Timeouts = TIMEOUTS,
        retries: Retries = RETRIES,
        verify: ssl.SSLContext | bool = True,
        access: ServerAccess = ANYONE,
        proxy: str | None = None,
    ) -> None:
        self.vendor = vendor
        self.base_url = plain_url(base_url, vendor)
        self.limits = limits
        self._headers = {**JSON_HEADERS, **(headers or {}), **access.headers}
        self._access = access
        self._timeouts = timeouts
        self._retries = retries
        self._verify = verify
        self._proxy = proxy

    @asynccontextmanager
    async def open(
        self, deadline: Deadline | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[H]:
        """A session with its own connections, deadline and byte budget. `headers` are sent in it
        besides the connector's."""
        # A caller with several sessions gives them one deadline.
        deadline = deadline or Deadline.within(self.limits)
        # Read certificates for each collection, because they rotate while the bot runs.
        verify = self._verify
        if self._access.trust is not None:
            verify = await self._access.verify()
        async with open_client(
            self.vendor,
            self.base_url,
            self.limits,
            headers={**self._headers, **(headers or {})},
            deadline=deadline,
            timeouts=self._timeouts,
            retries=self._retries,
            verify=verify,
            allow=self._allowed,
            quota=self.quota,
            auth=self._access.auth,
            proxy=self._proxy,
        ) as client:
            yield self._session(client, deadline)

    def _session(self, client: httpx.AsyncClient, deadline: Deadline) -> H:
        return self.session(self.vendor, self.base_url, client, deadline)

    def _allowed(self, request: httpx.Request) -> None:
        """Looks at each request before it is sent; raises ConnectorError for one that may
        write."""
        get_only(request)


class HttpSession:
    """One collection's requests. Safe to use from several tasks at once."""

    def __init__(
        self, vendor: str, base_url: str, client: httpx.AsyncClient, deadline: Deadline
    ) -> None:
        self._vendor = vendor
        self._base_url = base_url
        self._client = client
        self.deadline = deadline

    async def get(
        self, path: str, params: list[tuple[str, str]] | None = None, *, type: type[T]
    ) -> T:
        """The answer to GET `path`, decoded from JSON as `type`.

        Raises ConnectorError, BudgetExceeded.
        """
        return self._decoded(path, await self._get(path, params or []), type)

    async def text(self, path: str, params: list[tuple[str, str]] | None = None) -> str:
        """The answer to GET `path` as plain text; what is no UTF-8 is replaced.

        Raises ConnectorError, BudgetExceeded.
        """
        return (await self.body(path, params)).decode(errors="replace")

    async def body(self, path: str, params: list[tuple[str, str]] | None = None) -> bytes:
        """The answer to GET `path` as it comes, unpacked. Raises ConnectorError, BudgetExceeded."""
        # Text and files are not JSON, so accept anything.
        return (await self._get(path, params or [], accept="*/*")).content

    async def _get(
        self, path: str, params: list[tuple[str, str]], accept: str | None = None
    ) -> httpx.Response:
        """The response to GET `path`. Raises ConnectorError, BudgetExceeded."""
        query = httpx.QueryParams(tuple(params))
        url = self._base_url + path
        headers = {"Accept": accept} if accept else None
        response = await self._client.get(
            url, params=query, headers=headers, extensions={CALL: path}
        )
        return self._accepted(path, response)

    def _accepted(self, call: str, response: httpx.Response) -> httpx.Response:
        """The response, unless the vendor refused the call. Raises ConnectorError."""
        if response.status_code >= 400:
            raise self._refused(call, response)
        return response

    def _decoded(self, call: str, response: httpx.Response, type: type[T]) -> T:
        try:
            return msgspec.json.decode(response.content, type=type)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise unexpected_response(self._vendor, call, error) from error

    def _refused(self, call: str, response: httpx.Response) -> ConnectorError:
        status = response.status_code
        problem = problem_of(status)
        vendors_words = _vendors_words(response)
        if vendors_words:
            problem = f"{problem}: {vendors_words}"
        return ConnectorError(
            self._vendor, call, problem, status=status, retryable=status in RETRYABLE
        )


class ReadOnlyHttp(VendorHttp[HttpSession]):
    """GET alone."""

    session = HttpSession


class _ErrorBody(msgspec.Struct):
    error: str | None = None


def _vendors_words(response: httpx.Response) -> str:
    """The vendor's words for a request that it found wrong; other errors are not quoted."""
    # Only these statuses are about what we asked, so only their words help the operator.
    if response.status_code not in (400, 422):
        return ""
    try:
        return short(msgspec.json.decode(response.content, type=_ErrorBody).error or "")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
