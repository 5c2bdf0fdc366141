"""Who sends a webhook of an action group, as Microsoft Entra says ("secure webhook").

The action group asks Entra for a token for an application of the operator's, and sends it in the
header (learn.microsoft.com, "Action groups", secure webhook). Claims are those of
learn.microsoft.com, "Access token claims reference": an application's tokens are of version 1.0 or
2.0, as its manifest says.
"""

from __future__ import annotations

from faultline.bot.intake.sender_tokens import SenderClaims, sender_claims
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.intake.sources.azure_monitor import SOURCE
from faultline.bot.runtime.published_keys import KeySet, PublishedKeys
from faultline.connectors.shared.http.http import ReadOnlyHttp
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.azure import AzureMonitorSettings

ACTION_GROUPS = "461e8683-5575-4561-ac7f-899cc907d62a"
"""The application as which action groups ask for tokens, in every directory (learn.microsoft.com,
"Action groups"). Without this check any application of the directory could send alerts."""
OLDER_ISSUERS = ("https://sts.windows.net", "https://sts.chinacloudapi.cn")
"""Who issues tokens of version 1.0, of the public clouds and of China's."""
LIMITS = Limits(deadline_s=5.0, max_bytes=1024 * 1024)
"""An action group waits 10 s for an answer (learn.microsoft.com, "Action groups", webhook)."""


class _AccessClaims(SenderClaims):
    appid: str = ""
    """The application that asks, in version 1.0."""
    azp: str = ""
    """The same in version 2.0."""


class EntraTokens:
    """Tokens for one section of the settings, or one instance of it."""

    def __init__(self, azure_settings: AzureMonitorSettings) -> None:
        tenant = azure_settings.webhook_tenant_id or azure_settings.tenant_id or ""
        self._audience = azure_settings.webhook_audience
        self._issuers = {f"{azure_settings.login_url}/{tenant}/v2.0"}
        self._issuers |= {f"{issuer}/{tenant}/" for issuer in OLDER_ISSUERS}
        self._http = ReadOnlyHttp("Microsoft Entra", azure_settings.login_url, limits=LIMITS)
        self._path = f"/{tenant}/discovery/v2.0/keys"
        self._keys = PublishedKeys("Microsoft Entra", self._published)

    async def verify(self, token: str) -> None:
        """Raises BadSignature for a token that is not for us, NotAccepted where Entra's keys cannot
        be read."""
        claims = await sender_claims(SOURCE, self._keys, token, _AccessClaims)
        problem = None
        if claims.iss not in self._issuers:
            problem = "is another directory's (iss)"
        elif claims.aud not in self._audience:
            problem = "is for another application (aud)"
        elif ACTION_GROUPS not in (claims.appid, claims.azp):
            problem = "was given to another application than action groups (appid, azp)"
        if problem is not None:
            raise BadSignature(SOURCE, f"the token {problem}")

    async def _published(self) -> KeySet:
        async with self._http.open() as session:
            return await session.get(self._path, type=KeySet)
