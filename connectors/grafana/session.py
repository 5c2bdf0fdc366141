"""Reading Grafana over HTTP: GET, and the one POST that lists incidents, which has no other way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from analysis.errors import ConnectorError
from connectors.budgets import Deadline
from connectors.grafana.incidents import INCIDENTS, IncidentsAnswer
from connectors.http import HttpSession, ReadOnlyHttp
from connectors.transport import CALL
from connectors.vendor_text import short


class GrafanaHttp(ReadOnlyHttp):
    """One Grafana."""

    @asynccontextmanager
    async def open(self, deadline: Deadline | None = None) -> AsyncIterator[GrafanaSession]:
        """A session with its own connections, deadline and byte budget."""
        deadline = deadline or Deadline.within(self.limits)
        async with self._client(deadline) as client:
            yield GrafanaSession(self.vendor, self.base_url, client, deadline)

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        is_list = request.method == "POST" and str(request.url) == self.base_url + INCIDENTS
        if request.method != "GET" and not is_list:
            raise ConnectorError(self.vendor, request.method, "a connector only lists incidents")


class GrafanaSession(HttpSession):
    """One collection's requests. Safe to use from several tasks at once."""

    async def incidents(self, query: Mapping[str, Any]) -> IncidentsAnswer:
        """Incidents of Grafana IRM. Raises ConnectorError, BudgetExceeded."""
        response = await self._client.post(
            self._base_url + INCIDENTS,
            content=msgspec.json.encode({"query": query}),
            headers={"Content-Type": "application/json"},
            extensions={CALL: INCIDENTS},
        )
        answer = self._decoded(INCIDENTS, self._accepted(INCIDENTS, response), IncidentsAnswer)
        # Failures may come with status 200.
        if answer.error:
            raise ConnectorError(self._vendor, INCIDENTS, short(answer.error))
        return answer
