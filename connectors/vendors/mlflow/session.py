"""Reading MLflow over HTTP: GET, and the one POST that searches runs, which has no other way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.transport.transport import CALL
from faultline.connectors.vendors.mlflow.answers import RunsAnswer

API = "/api/2.0/mlflow"
SEARCH = f"{API}/runs/search"


class MlflowSession(HttpSession):
    """One collection's requests."""

    async def search(self, body: Mapping[str, Any]) -> RunsAnswer:
        """Runs. Raises ConnectorError, BudgetExceeded."""
        response = await self._client.post(
            self._base_url + SEARCH,
            content=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
            extensions={CALL: SEARCH},
        )
        return self._decoded(SEARCH, self._accepted(SEARCH, response), RunsAnswer)


class MlflowHttp(VendorHttp[MlflowSession]):
    """A tracking server."""

    session = MlflowSession

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        is_search = request.method == "POST" and str(request.url) == self.base_url + SEARCH
        if request.method != "GET" and not is_search:
            raise ConnectorError(self.vendor, request.method, "a connector only searches runs")
