"""Google Cloud's REST APIs, limited to reading calls.

All are GET but `entries.list` of Cloud Logging and `timeSeries.query` of Cloud Monitoring, which
take their filter and their query by POST: the client refuses every other POST, and a body that
holds anything else than such a call's parameters (Cloud Logging API v2, Monitoring API v3,
discovery documents of google-api-python-client 2.202.0).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.http.http import JSON_HEADERS, HttpSession
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.transport import CALL, Timeouts, open_client
from faultline.connectors.shared.vendor_text import plain_url, short

T = TypeVar("T")

VENDOR = "google_cloud"
ENTRIES = "/v2/entries:list"
ENTRIES_KEYS = frozenset({"resourceNames", "filter", "orderBy", "pageSize", "pageToken"})
QUERY = re.compile(r"/v3/projects/[^/?#]+/timeSeries:query")
QUERY_KEYS = frozenset({"query", "pageSize", "pageToken"})
READ_S = 20.0
"""Searches of logs take longer than others."""
NOT_ENABLED = "SERVICE_DISABLED"
"""The reason in an error's details (google.aip.dev/193)."""


class ApiDisabledError(ConnectorError):
    """The project does not use that API, so there is nothing to read."""


class _Detail(msgspec.Struct):
    reason: str = ""


class _GoogleError(msgspec.Struct):
    message: str = ""
    details: list[_Detail] = []


class _ErrorAnswer(msgspec.Struct):
    error: _GoogleError


class GoogleApi:
    """One of the APIs: `monitoring`, `logging` and so on."""

    def __init__(self, name: str, base: str | None, auth: httpx.Auth, limits: Limits) -> None:
        self.base_url = plain_url(base or f"https://{name}.googleapis.com", VENDOR)
        self._auth = auth
        self._limits = limits

    @asynccontextmanager
    async def open(self, deadline: Deadline, budget: ByteBudget) -> AsyncIterator[GoogleSession]:
        """A session within a collection's deadline and size."""
        async with open_client(
            VENDOR,
            self.base_url,
            self._limits,
            headers=JSON_HEADERS,
            deadline=deadline,
            budget=budget,
            timeouts=Timeouts(read_s=READ_S),
            allow=self._reads_only,
            auth=self._auth,
        ) as client:
            yield GoogleSession(VENDOR, self.base_url, client, deadline)

    def _reads_only(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        refused = ConnectorError(VENDOR, request.method, "a connector sends reading calls only")
        # The path of every API begins with its version, so nothing else is asked.
        if not str(request.url).startswith(f"{self.base_url}/v"):
            raise refused
        if request.method == "GET":
            return
        call = str(request.url).removeprefix(self.base_url)
        is_query = QUERY.fullmatch(call) is not None
        if request.method != "POST" or not (call == ENTRIES or is_query):
            raise refused
        try:
            body = msgspec.json.decode(request.content, type=dict[str, Any])
        except (msgspec.DecodeError, httpx.RequestNotRead, RecursionError) as error:
            raise refused from error
        if not (QUERY_KEYS if is_query else ENTRIES_KEYS).issuperset(body):
            raise refused


class GoogleSession(HttpSession):
    """One collection's calls of one API."""

    async def entries(self, body: Mapping[str, Any], *, type: type[T]) -> T:
        """A page of log entries. Raises ConnectorError, BudgetExceeded."""
        return await self._posted(ENTRIES, body, type)

    async def time_series(self, path: str, body: Mapping[str, Any], *, type: type[T]) -> T:
        """The series of a query in MQL. Raises ConnectorError, BudgetExceeded."""
        return await self._posted(path, body, type)

    async def _posted(self, path: str, body: Mapping[str, Any], type: type[T]) -> T:
        response = await self._client.post(
            self._base_url + path,
            content=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
            extensions={CALL: path},
        )
        return self._decoded(path, self._accepted(path, response), type)

    def _refused(self, call: str, response: httpx.Response) -> ConnectorError:
        """With Google's words where the request was wrong, and the reason of a refusal."""
        error = super()._refused(call, response)
        try:
            google_error = msgspec.json.decode(response.content, type=_ErrorAnswer).error
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return error
        reasons = [detail.reason for detail in google_error.details if detail.reason]
        # Google says 403 here, as it does where a permission is missing.
        if NOT_ENABLED in reasons:
            problem = "this API is not enabled in the project"
            return ApiDisabledError(VENDOR, call, problem, status=error.status)
        why = google_error.message if response.status_code == 400 else ", ".join(reasons[:2])
        problem = f"{error.problem}: {short(why)}" if why else error.problem
        return ConnectorError(VENDOR, call, problem, status=error.status, retryable=error.retryable)
