"""Reading MLflow over HTTP: GET, and the one POST that searches runs, which has no other way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from analysis.errors import ConnectorError
from connectors.budgets import Deadline
from connectors.http import HttpSession, ReadOnlyHttp
from connectors.mlflow.answers import RunsAnswer
from connectors.transport import CALL

API = "/api/2.0/mlflow"
SEARCH = f"{API}/runs/search"


class MlflowHttp(ReadOnlyHttp):
    """A tracking server."""

    @asynccontextmanager
    async def open(self, deadline: Deadline | None = None) -> AsyncIterator[MlflowSession]:
        """A session with its own connections, deadline and byte budget."""
        deadline = deadline or Deadline.within(self.limits)
        async with self._client(deadline) as client:
            yield MlflowSession(self.vendor, self.base_url, client, deadline)

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        is_search = request.method == "POST" and str(request.url) == self.base_url + SEARCH
        if request.method != "GET" and not is_search:
            raise ConnectorError(self.vendor, request.method, "a connector only searches runs")


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
