"""Azure Monitor over HTTP: queries with GET, and the one POST that buys a token from Microsoft
Entra.

API version v1 of Log Analytics and of Application Insights (learn.microsoft.com, "Azure Monitor Log
Analytics API").
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from analysis.errors import BudgetExceeded, ConnectorError, SettingsError
from connectors.budgets import ByteBudget, Deadline
from connectors.http import HttpSession
from connectors.limits import Limits
from connectors.transport import CALL, ERROR_BODY, Retries, Timeouts, open_client
from connectors.vendor_text import plain_url, problem_of, short

if TYPE_CHECKING:
    from connectors.azure.settings import AzureMonitorSettings

VENDOR = "azure_monitor"
LOGIN, IDENTITY = "https://login.microsoftonline.com", "http://169.254.169.254"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
"""RFC 7523 section 2.2."""
IDENTITY_PATH, IDENTITY_VERSION = "/metadata/identity/oauth2/token", "2018-02-01"
"""learn.microsoft.com, "How to use managed identities on a virtual machine to acquire an access
token"."""
EARLY_S = 300.0
"""A token is bought again that long before it ends."""
TOKEN_WITHIN_S = 10.0
WAIT_S = 18
"""How long Azure may work on one query (`Prefer: wait`); its default is three minutes."""
PARTIAL = "PartialError"
_ENTRA_CODE = re.compile(r"AADSTS\d{1,9}")


@dataclass(frozen=True)
class Credential:
    """An application with its secret, or the machine's managed identity where there is no
    secret."""

    login_url: str
    identity_url: str
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    assertion_file: str | None = None
    """Instead of a secret: a token of the pod's service account, which AKS renews (learn.microsoft
    .com, "Workload identity federation")."""

    @classmethod
    def of_environment(cls, environ: Mapping[str, str] = os.environ) -> Credential:
        """The pod's workload identity, as AKS' webhook names it, else the machine's identity."""
        return cls(
            environ.get("AZURE_AUTHORITY_HOST", LOGIN).rstrip("/"),
            IDENTITY,
            environ.get("AZURE_TENANT_ID"),
            environ.get("AZURE_CLIENT_ID"),
            assertion_file=environ.get("AZURE_FEDERATED_TOKEN_FILE"),
        )

    @property
    def is_managed(self) -> bool:
        """Whether the machine itself is asked for a token."""
        return self.client_secret is None and self.assertion_file is None

    @property
    def token_url(self) -> str:
        """Where the token comes from."""
        if self.is_managed:
            return f"{self.identity_url}{IDENTITY_PATH}"
        return f"{self.login_url}/{quote(self.tenant_id or '', safe='')}/oauth2/v2.0/token"


def credential_of(own: AzureMonitorSettings) -> Credential:
    """As whom the settings ask Azure. Raises SettingsError."""
    secret = own.client_secret.get_secret_value() if own.client_secret else None
    if secret is not None and not (own.tenant_id and own.client_id):
        raise SettingsError(
            "azure_monitor.tenant_id", "and client_id are needed with the client secret"
        )
    credential = Credential(own.login_url, own.identity_url, own.tenant_id, own.client_id, secret)
    around = Credential.of_environment()
    if secret is None and around.assertion_file is not None:
        # A workload identity: what the settings name wins over what AKS put into the environment.
        credential = replace(
            credential,
            tenant_id=own.tenant_id or around.tenant_id,
            client_id=own.client_id or around.client_id,
            assertion_file=around.assertion_file,
        )
    return credential


def _assertion(path: str) -> str:
    """The pod's own token as of now. Raises SettingsError."""
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({type(error).__name__})"
        raise SettingsError("AZURE_FEDERATED_TOKEN_FILE", problem) from None


class _EntraToken(msgspec.Struct):
    access_token: str
    expires_in: Any = 0


class _EntraError(msgspec.Struct):
    error: str = ""
    error_description: str = ""


class Tokens:
    """Tokens by audience, bought when needed."""

    def __init__(self, credential: Credential, limits: Limits, vendor: str = VENDOR) -> None:
        self._credential = credential
        self._limits = limits
        self._vendor = vendor
        self._held: dict[str, tuple[str, float]] = {}

    async def token(self, audience: str, deadline: Deadline) -> str:
        """A token that is good for five more minutes. Raises ConnectorError, BudgetExceeded."""
        held = self._held.get(audience)
        if held is None or held[1] - EARLY_S < time.monotonic():
            held = self._held[audience] = await self._buy(audience, deadline)
        return held[0]

    async def _buy(self, audience: str, deadline: Deadline) -> tuple[str, float]:
        budget = ByteBudget("size of the token's answer", ERROR_BODY)
        try:
            async with open_client(
                self._vendor,
                self._credential.token_url,
                self._limits,
                # An answer that is not packed cannot become a large one.
                headers={"Accept-Encoding": "identity"},
                deadline=deadline,
                budget=budget,
                timeouts=Timeouts(connect_s=TOKEN_WITHIN_S, read_s=TOKEN_WITHIN_S),
                retries=Retries(attempts=1),
                allow=self._buying_only,
                # The machine's own address for identities, which no proxy reaches.
                use_proxies=not self._credential.is_managed,
            ) as client:
                response = await client.request(
                    **self._request(audience), extensions={CALL: "token"}
                )
        except BudgetExceeded:
            if budget.left >= 0:
                raise
            raise ConnectorError(self._vendor, "token", "unexpected response") from None
        return self._read(response.status_code, response.content)

    def _request(self, audience: str) -> dict[str, Any]:
        own = self._credential
        if own.is_managed:
            params = {"api-version": IDENTITY_VERSION, "resource": audience}
            if own.client_id:
                params["client_id"] = own.client_id
            return {
                "method": "GET",
                "url": own.token_url,
                "params": params,
                "headers": {"Metadata": "true"},
            }
        form = {"grant_type": "client_credentials", "client_id": own.client_id}
        if own.client_secret is not None:
            form["client_secret"] = own.client_secret
        else:
            form["client_assertion_type"] = ASSERTION_TYPE
            form["client_assertion"] = _assertion(own.assertion_file or "")
        return {
            "method": "POST",
            "url": own.token_url,
            "data": form | {"scope": f"{audience}/.default"},
        }

    def _buying_only(self, request: httpx.Request) -> None:
        method = "GET" if self._credential.is_managed else "POST"
        address = str(request.url.copy_with(query=None))
        if request.method != method or address != self._credential.token_url:
            problem = "a connector buys tokens and sends GET only"
            raise ConnectorError(self._vendor, request.method, problem)

    def _read(self, status: int, body: bytes) -> tuple[str, float]:
        """Entra's own words may name tenants and applications: only its codes are shown."""
        try:
            if status >= 400:
                said = msgspec.json.decode(body, type=_EntraError)
                code = _ENTRA_CODE.search(said.error_description[:2_000])
                reasons = [short(said.error, 60), code[0] if code else ""]
                why = ", ".join(reason for reason in reasons if reason) or "no reason given"
                problem = f"no token was given: {why}"
                raise ConnectorError(self._vendor, "token", problem, status=status)
            token = msgspec.json.decode(body, type=_EntraToken)
            lasts = float(str(token.expires_in)[:9])
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError) as error:
            refused = status if status >= 400 else None
            raise ConnectorError(
                self._vendor, "token", "unexpected response", status=refused
            ) from error
        if not token.access_token.isascii() or not token.access_token.isprintable():
            raise ConnectorError(self._vendor, "token", "the answer holds no usable token")
        return token.access_token, time.monotonic() + lasts


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
            why = said(result.error) if result.error else "the answer holds no table"
            raise ConnectorError(VENDOR, path, why)
        table = result.tables[0]
        names = [column.name for column in table.columns]
        rows = [dict(zip(names, row, strict=True)) for row in table.rows if len(row) == len(names)]
        left = len(table.rows) - len(rows)
        if result.error:
            return Rows(rows, f"only a part was answered: {said(result.error)}")
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
        problem = f"{problem_of(400)}: {said(reason)}" if reason else problem_of(400)
        return ConnectorError(VENDOR, call, problem, status=400)


def said(reason: _Reason | None) -> str:
    """The innermost code and message of an error (OneAPI: `error`, `innererror` in it, and so
    on)."""
    if reason is None:
        return "no reason given"
    code, message, inner = reason.code, reason.message, reason.innererror
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
        """Whom a token is for: the public cloud's old name, which both of its addresses take."""
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
            timeouts=Timeouts(read_s=WAIT_S + 2),
            allow=self._queries_only,
        ) as client:
            yield QuerySession(VENDOR, self.base_url, client, deadline)

    def _queries_only(self, request: httpx.Request) -> None:
        is_below = str(request.url).startswith(f"{self.base_url}{self._below}")
        if request.method != "GET" or not is_below:
            problem = "a connector buys tokens and sends GET only"
            raise ConnectorError(VENDOR, request.method, problem)
