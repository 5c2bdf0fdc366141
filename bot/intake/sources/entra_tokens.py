"""Who sends a webhook of an action group, as Microsoft Entra says ("secure webhook").

The action group asks Entra for a token for an application of the operator's, and sends it in the
header (learn.microsoft.com, "Action groups", secure webhook). Claims are those of
learn.microsoft.com, "Access token claims reference": an application's tokens are of version 1.0 or
2.0, as its manifest says.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from analysis.errors import ConnectorError, FaultlineError
from bot.intake.accepting import NotAccepted
from bot.intake.signatures import BadSignature
from bot.runtime.published_keys import KeySet, PublishedKeys
from connectors.azure.settings import AzureMonitorSettings
from connectors.http import ReadOnlyHttp
from connectors.limits import Limits

SOURCE = "azure_monitor"
ACTION_GROUPS = "461e8683-5575-4561-ac7f-899cc907d62a"
"""The application as which action groups ask for tokens, in every directory (learn.microsoft.com,
"Action groups"). Without this check any application of the directory could send alerts."""
OLDER_ISSUERS = ("https://sts.windows.net", "https://sts.chinacloudapi.cn")
"""Who issues tokens of version 1.0, of the public clouds and of China's."""
SKEW_S = 300
"""Clocks may differ by so much, as Microsoft's own libraries allow."""
LIMITS = Limits(deadline_s=5.0, max_bytes=1024 * 1024)
"""An action group waits 10 s for an answer (learn.microsoft.com, "Action groups", webhook)."""


class _AccessClaims(msgspec.Struct):
    iss: str
    aud: str
    exp: float
    nbf: float = 0.0
    appid: str = ""
    """The application that asks, in version 1.0."""
    azp: str = ""
    """The same in version 2.0."""


class EntraTokens:
    """Tokens for one section of the settings, or one instance of it."""

    def __init__(self, own: AzureMonitorSettings) -> None:
        tenant = own.webhook_tenant_id or own.tenant_id or ""
        self._audience = own.webhook_audience
        self._issuers = {f"{own.login_url}/{tenant}/v2.0"}
        self._issuers |= {f"{issuer}/{tenant}/" for issuer in OLDER_ISSUERS}
        self._http = ReadOnlyHttp("Microsoft Entra", own.login_url, limits=LIMITS)
        self._path = f"/{tenant}/discovery/v2.0/keys"
        self._keys = PublishedKeys("Microsoft Entra", self._published)

    async def verify(self, token: str) -> None:
        """Raises BadSignature for a token that is not for us, NotAccepted where Entra's keys cannot
        be read."""
        try:
            claims = await self._keys.claims(token)
        except ConnectorError as error:
            if error.call == "token":
                raise BadSignature(SOURCE, str(error)) from None
            raise NotAccepted(str(error)) from error
        except FaultlineError as error:
            raise NotAccepted(str(error)) from error
        problem = self._problem(claims)
        if problem is not None:
            raise BadSignature(SOURCE, f"the token {problem}")

    def _problem(self, claims: Mapping[str, Any]) -> str | None:
        try:
            said = msgspec.convert(dict(claims), _AccessClaims)
        except (msgspec.ValidationError, ValueError, OverflowError, RecursionError):
            return "lacks a claim, or holds one of another type"
        now = time.time()
        if said.iss not in self._issuers:
            return "is another directory's (iss)"
        if said.aud not in self._audience:
            return "is for another application (aud)"
        if not said.exp > now - SKEW_S:
            return "has expired (exp)"
        if not said.nbf <= now + SKEW_S:
            return "is not valid yet (nbf)"
        if ACTION_GROUPS not in (said.appid, said.azp):
            return "was given to another application than action groups (appid, azp)"
        return None

    async def _published(self) -> KeySet:
        async with self._http.open() as session:
            return await session.get(self._path, type=KeySet)
