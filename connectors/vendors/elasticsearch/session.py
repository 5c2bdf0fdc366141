"""Elasticsearch's HTTP API, limited to searches.

A search with a body is sent by POST, as all clients do. So the HTTP client refuses every request
that is not GET or POST to `/INDICES/_search` with nothing but the keys of our own searches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.transport import CALL

T = TypeVar("T")

SEARCH_KEYS = frozenset({"query", "size", "sort", "aggs", "timeout", "track_total_hits", "_source"})
"""What a search of ours may hold: no scripts and no runtime fields."""
LENIENT = [("ignore_unavailable", "true"), ("allow_no_indices", "true")]
"""A pattern or a name without any index is no error."""


class SearchSession(HttpSession):
    """One collection's searches, sent to `path`."""

    path: str = ""

    async def search(self, body: Mapping[str, Any], *, type: type[T]) -> T:
        """The answer, decoded as `type`. Raises ConnectorError, BudgetExceeded."""
        response = await self._client.post(
            self._base_url + self.path,
            params=httpx.QueryParams(tuple(LENIENT)),
            content=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
            extensions={CALL: self.path},
        )
        return self._decoded(self.path, self._accepted(self.path, response), type)


class SearchHttp(VendorHttp[SearchSession]):
    """Elasticsearch or OpenSearch. `indices` are the only ones that are searched."""

    session = SearchSession
    indices: str = "logs-*"

    def _session(self, client: httpx.AsyncClient, deadline: Deadline) -> SearchSession:
        session = super()._session(client, deadline)
        session.path = f"/{self.indices}/_search"
        return session

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        if request.method == "GET":
            return
        refused = ConnectorError(self.vendor, request.method, "a connector sends searches only")
        url = str(request.url).partition("?")[0]
        if request.method != "POST" or url != f"{self.base_url}/{self.indices}/_search":
            raise refused
        try:
            body = msgspec.json.decode(request.content, type=dict[str, Any])
        except (msgspec.DecodeError, httpx.RequestNotRead, RecursionError) as error:
            raise refused from error
        # A key that is not listed may be a script, which could do more than search.
        if not SEARCH_KEYS.issuperset(body):
            raise refused
