"""Azure Monitor over HTTP: queries with GET, by tokens of Microsoft Entra.

API version v1 of Log Analytics and of Application Insights (learn.microsoft.com, "Azure Monitor Log
Analytics API").
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.connectors.shared.auth.azure_token import VENDOR, Credential, Tokens
from faultline.connectors.shared.http.http import HttpSession
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.transport import Timeouts, open_client
from faultline.connectors.shared.vendor_text import plain_url, problem_of, short

if TYPE_CHECKING:
    from faultline.connectors.vendors.azure import AzureMonitorSettings

WAIT_S = 18
"""How long Azure may work on one query (`Prefer: wait`); its default is three minutes."""
PARTIAL = "PartialError"


def credential_of(azure_settings: AzureMonitorSettings) -> Credential:
    """The credential by which the settings ask Azure. Raises SettingsError."""
    secret = (
        azure_settings.client_secret.get_secret_value() if azure_settings.client_secret else None
    )
    if secret is not None and not (azure_settings.tenant_id and azure_settings.client_id):
        raise SettingsError(
            "azure_monitor.tenant_id", "and client_id are needed with the client secret"
        )
    credential = Credential(
        azure_settings.login_url,
        azure_settings.identity_url,
        azure_settings.tenant_id,
        azure_settings.client_id,
        secret,
    )
    around = Credential.of_environment()
    if secret is None and around.assertion_file is not None:
        # A workload identity: what the settings name wins over what AKS put into the environment.
        credential = replace(
            credential,
            tenant_id=azure_settings.tenant_id or around.tenant_id,
            client_id=azure_settings.client_id or around.client_id,
            assertion_file=around.assertion_file,
        )
    return credential


class _AzureColumn(msgspec.Struct):
    name: str


class _AzureTable(msgspec.Struct):
    columns: list[_AzureColumn]
    rows: list[list[Any]]


class _Reason(msgspec.Struct):
    code: str = ""
    message: str = ""
    innererror: Any = None


class _Result(msgspec.Struct):
    tables: list[_AzureTable] = msgspec.field(default_factory=list)
    error: _Reason | None = None


@dataclass(frozen=True)
class Rows:
    """A query's rows by column name; `partial` says why they are not all."""

    rows: list[dict[str, Any]]
    partial: str | None = None


class QuerySession(HttpSession):
    """One collection's queries. Safe to use from several tasks at once."""

    async def query(self, path: str, text: str, timespan: str) -> Rows:
        """The rows of a KQL query in a time span. Raises ConnectorError, BudgetExceeded."""
        response = await self._get(path, [("query", text), ("timespan", timespan)])
        if response.status_code == 204 or not response.content.strip():
            return Rows([])
        result = self._decoded(path, response, _Result)
        if not result.tables:
            why = error_text(result.error) if result.error else "the answer holds no table"
            raise ConnectorError(VENDOR, path, why)
        table = result.tables[0]
        names = [column.name for column in table.columns]
        rows = [dict(zip(names, row, strict=True)) for row in table.rows if len(row) == len(names)]
        left = len(table.rows) - len(rows)
        # A query that met a limit is answered in part, with an error beside the rows.
        if result.error:
            return Rows(rows, f"only a part was answered: {error_text(result.error)}")
        if left:
            return Rows(rows, f"{left} of {len(table.rows)} rows do not fit their columns")
        return Rows(rows)

    def _refused(self, call: str, response: httpx.Response) -> ConnectorError:
        """With Azure's words where the query was wrong: a table that is not there, a column of
        another name."""
        error = super()._refused(call, response)
        if response.status_code != 400:
            return error
        try:
            reason = msgspec.json.decode(response.content, type=_Result).error
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return error
        problem = f"{problem_of(400)}: {error_text(reason)}" if reason else problem_of(400)
        return ConnectorError(VENDOR, call, problem, status=400)


def error_text(reason: _Reason | None) -> str:
    """The innermost code and message of an error (OneAPI: `error`, `innererror` in it, and so
    on)."""
    if reason is None:
        return "no reason given"
    code, message, inner = reason.code, reason.message, reason.innererror
    # The nesting is foreign, so bound how deep it is followed.
    for _ in range(5):
        if not isinstance(inner, dict):
            break
        code, message = inner.get("code") or code, inner.get("message") or message
        inner = inner.get("innererror")
    return short(": ".join(str(part) for part in (code, message) if part)) or "no reason given"


class QueryApi:
    """One of the APIs. Only GET below its address leaves here."""

    def __init__(
        self, base_url: str, tokens: Tokens, limits: Limits, key: str, *, below: str = "/v1/"
    ) -> None:
        self.base_url = plain_url(base_url, key)
        self.limits = limits
        self._below = below
        self._tokens = tokens

    @property
    def audience(self) -> str:
        """What a token is for: the public cloud's old name, which both of its addresses take."""
        if urlsplit(self.base_url).hostname == "api.loganalytics.azure.com":
            return "https://api.loganalytics.io"
        return self.base_url

    @asynccontextmanager
    async def open(self, deadline: Deadline, budget: ByteBudget) -> AsyncIterator[QuerySession]:
        """A session with a token. Raises ConnectorError, BudgetExceeded where there is none."""
        token = await self._tokens.token(self.audience, deadline)
        headers: Mapping[str, str] = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "Authorization": f"Bearer {token}",
            "Prefer": f"wait={WAIT_S}",
        }
        async with open_client(
            VENDOR,
            self.base_url,
            self.limits,
            headers=headers,
            deadline=deadline,
            budget=budget,
            # Longer than Azure may work, so that its own answer arrives.
            timeouts=Timeouts(read_s=WAIT_S + 2),
            allow=self._queries_only,
        ) as client:
            yield QuerySession(VENDOR, self.base_url, client, deadline)

    def _queries_only(self, request: httpx.Request) -> None:
        is_below = str(request.url).startswith(f"{self.base_url}{self._below}")
        if request.method != "GET" or not is_below:
            problem = "a connector buys tokens and sends GET only"
            raise ConnectorError(VENDOR, request.method, problem)
