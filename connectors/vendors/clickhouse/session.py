"""ClickHouse's HTTP interface, limited to GET: clickhouse.com/docs/interfaces/http.

The server itself takes a query by GET as read-only. Each query also carries its limits, unless the
user's own profile has `readonly = 1`: then no setting may be sent, and the profile's limits hold.
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.transport.circuit_breaker import Deadline

T = TypeVar("T")

MOST_ROWS = 100_000
"""Rows of one answer, above every LIMIT of ours."""
READONLY = "164"
_WORDS = {
    "60": "there is no such table",
    "81": "there is no such database",
    "159": "the query ran into its time limit (clickhouse.query_timeout_s)",
    "160": "the query would take too long",
    "192": "authentication failed",
    "193": "authentication failed",
    "194": "authentication failed",
    "516": "authentication failed",
    "158": "the query would read more rows than the user may",
    "307": "the query would read more bytes than the user may",
    "396": "the answer has more rows than the user may get",
    "201": "the user's quota is used up",
    "202": "the server runs as many queries as it may",
    "241": "the query needs more memory than the user may use",
    "497": "not permitted: the user needs SELECT on the table",
}
"""Error codes: ClickHouse/ClickHouse, src/Common/ErrorCodes.cpp."""
_CODE = re.compile(rb"\s*Code: (\d{1,4})\.")
_NAME = re.compile(r"\(([A-Z][A-Z0-9_]{2,60})\)")


class Rows(msgspec.Struct, Generic[T]):
    """An answer in the format JSONCompact."""

    data: list[T]


class QuerySession(HttpSession):
    """One collection's queries. Safe to use from several tasks at once."""

    limits: list[tuple[str, str]]

    async def rows(self, text: str, *, type: type[T]) -> list[T]:
        """The rows of a query, each decoded as `type`. Raises ConnectorError, BudgetExceeded."""
        response = await self._sent(text, self.limits)
        if response.status_code >= 400 and _code_of(response) == READONLY and self.limits:
            self.limits = []
            response = await self._sent(text, self.limits)
        if response.status_code >= 400:
            raise self._refused("query", response)
        return self._decoded("query", response, Rows[type]).data  # type: ignore[valid-type]

    async def _sent(self, text: str, limits: list[tuple[str, str]]) -> httpx.Response:
        # Without waiting for its end, an answer that fails half-way would have status 200.
        params = [("query", f"{text} FORMAT JSONCompact"), ("wait_end_of_query", "1"), *limits]
        query = httpx.QueryParams(tuple(params))
        return await self._client.get(f"{self._base_url}/", params=query)

    def _refused(self, call: str, response: httpx.Response) -> ConnectorError:
        code = _code_of(response)
        if code is None:
            return super()._refused(call, response)
        # The whole message holds parts of the query and of the data.
        names = _NAME.findall(response.text[:20_000])
        named = f"{names[-1]}, code {code}" if names else f"code {code}"
        problem = f"{_WORDS.get(code, 'the query was not accepted')} ({named})"
        return ConnectorError(self._vendor, call, problem, status=response.status_code)


class ClickHouseHttp(VendorHttp[QuerySession]):
    """A server. `timeout_s` is for one query."""

    session = QuerySession
    timeout_s: int = 15

    def _session(self, client: httpx.AsyncClient, deadline: Deadline) -> QuerySession:
        session = super()._session(client, deadline)
        session.limits = [
            # Value 2 still takes the settings below, which 1 would refuse.
            ("readonly", "2"),
            ("max_execution_time", str(self.timeout_s)),
            ("max_result_rows", str(MOST_ROWS)),
        ]
        return session


def _code_of(response: httpx.Response) -> str | None:
    """The error's code, which the header or the text tells."""
    code: str = response.headers.get("X-ClickHouse-Exception-Code", "")
    if code.isascii() and code.isdigit():
        return code
    match = _CODE.match(response.content)
    return match[1].decode() if match else None
