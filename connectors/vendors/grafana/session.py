"""Reading Grafana over HTTP: GET, and the one POST that lists incidents, which has no other way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.transport.transport import CALL
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.grafana.incidents import INCIDENTS, IncidentsAnswer


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


class GrafanaHttp(VendorHttp[GrafanaSession]):
    """One Grafana."""

    session = GrafanaSession

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        is_list = request.method == "POST" and str(request.url) == self.base_url + INCIDENTS
        if request.method != "GET" and not is_list:
            raise ConnectorError(self.vendor, request.method, "a connector only lists incidents")
