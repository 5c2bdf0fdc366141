"""Access tokens of Microsoft Entra: of an application, of a pod's workload identity, or of the
machine's managed identity."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from faultline.analysis.errors import BudgetExceeded, ConnectorError, SettingsError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.transport import (
    CALL,
    ERROR_BODY,
    Retries,
    Timeouts,
    open_client,
)
from faultline.connectors.shared.vendor_text import short

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
TOKEN_LIMITS = Limits(max_bytes=65_536)
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
        # Keep one token per audience: an API refuses the token of another.
        self._tokens: dict[str, tuple[str, float]] = {}

    async def token(self, audience: str, deadline: Deadline) -> str:
        """A token that is good for five more minutes. Raises ConnectorError, BudgetExceeded."""
        buy = self._tokens.get(audience)
        if buy is None or buy[1] - EARLY_S < time.monotonic():
            buy = self._tokens[audience] = await self._buy(audience, deadline)
        return buy[0]

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
            # The time ran out, not the size: only an oversized answer is an unexpected response.
            if budget.left >= 0:
                raise
            raise ConnectorError(self._vendor, "token", "unexpected response") from None
        return self._read(response.status_code, response.content)

    def _request(self, audience: str) -> dict[str, Any]:
        credential = self._credential
        if credential.is_managed:
            params = {"api-version": IDENTITY_VERSION, "resource": audience}
            if credential.client_id:
                params["client_id"] = credential.client_id
            return {
                "method": "GET",
                "url": credential.token_url,
                "params": params,
                "headers": {"Metadata": "true"},
            }
        form = {"grant_type": "client_credentials", "client_id": credential.client_id}
        if credential.client_secret is not None:
            form["client_secret"] = credential.client_secret
        else:
            # Read the file at each purchase: Kubernetes replaces the token while the bot runs.
            form["client_assertion_type"] = ASSERTION_TYPE
            form["client_assertion"] = _assertion(credential.assertion_file or "")
        return {
            "method": "POST",
            "url": credential.token_url,
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
                entra_error = msgspec.json.decode(body, type=_EntraError)
                code = _ENTRA_CODE.search(entra_error.error_description[:2_000])
                reasons = [short(entra_error.error, 60), code[0] if code else ""]
                why = ", ".join(reason for reason in reasons if reason) or "no reason given"
                problem = f"no token was given: {why}"
                raise ConnectorError(self._vendor, "token", problem, status=status)
            token = msgspec.json.decode(body, type=_EntraToken)
            # The metadata server sends the number of seconds as text, Entra as a number.
            lasts = float(str(token.expires_in)[:9])
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError) as error:
            refused = status if status >= 400 else None
            raise ConnectorError(
                self._vendor, "token", "unexpected response", status=refused
            ) from error
        # The token goes into a header, where a line break would start another header.
        if not token.access_token.isascii() or not token.access_token.isprintable():
            raise ConnectorError(self._vendor, "token", "the answer holds no usable token")
        return token.access_token, time.monotonic() + lasts
