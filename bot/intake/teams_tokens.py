"""Who sends a message to the bot, as the Bot Framework says.

Source: learn.microsoft.com, "Authentication with the Bot Connector API", step 3 of requests from
the connector to a bot: issuer, audience, time, signature by a published key that is endorsed for
the channel, and a `serviceurl` equal to the message's.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.bot.intake.sender_tokens import SenderClaims, sender_claims
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.runtime.published_keys import KeySet, PublishedKeys
from faultline.bot.settings.reply_targets import MsTeamsSettings
from faultline.connectors.shared.http.http import ReadOnlyHttp
from faultline.connectors.shared.settings.connector_settings import Limits

SOURCE = CHANNEL = "msteams"
VENDOR = "Bot Framework"
LIMITS = Limits(deadline_s=5.0, max_bytes=1024 * 1024)
BEARER = "bearer "
LONGEST_TOKEN = 8_192


class _Metadata(msgspec.Struct):
    jwks_uri: str


class BotClaims(SenderClaims):
    """What the token says. `serviceurl` is the address of the service that sends it."""

    serviceurl: str = ""


class TeamsTokens:
    """Tokens for one bot."""

    def __init__(self, teams_settings: MsTeamsSettings) -> None:
        parts = urlsplit(teams_settings.openid_url)
        self._origin, self._path = f"{parts.scheme}://{parts.netloc}", parts.path
        self._http = ReadOnlyHttp(VENDOR, self._origin, limits=LIMITS)
        self._keys = PublishedKeys(VENDOR, self._published)
        # The issuer of what is sent to bots is the audience of what they send, in each cloud.
        self._issuer, self._audience = teams_settings.audience, teams_settings.client_id

    async def verify(self, header: str | None) -> BotClaims:
        """What the token of a header says. Raises BadSignature, and NotAccepted where the keys
        cannot be read."""
        header = header or ""
        if header[: len(BEARER)].lower() != BEARER or len(header) > LONGEST_TOKEN:
            raise BadSignature(SOURCE, "there is no token")
        token = header[len(BEARER) :].strip()
        claims = await sender_claims(SOURCE, self._keys, token, BotClaims)
        problem = None
        if claims.iss != self._issuer:
            problem = "has another issuer (iss)"
        elif claims.aud != self._audience:
            problem = "is for another bot (aud)"
        elif not claims.serviceurl:
            problem = "names no service (serviceurl)"
        if problem is not None:
            raise BadSignature(SOURCE, f"the token {problem}")
        return claims

    async def _published(self) -> KeySet:
        """The keys that may sign for Teams. They are where the metadata is."""
        async with self._http.open() as session:
            metadata = await session.get(self._path, type=_Metadata)
            if not metadata.jwks_uri.startswith(f"{self._origin}/"):
                raise ConnectorError(VENDOR, "metadata", "names keys on another host")
            path = metadata.jwks_uri.removeprefix(self._origin)
            keys = (await session.get(path, type=KeySet)).keys
        endorsed = [key for key in keys if CHANNEL in (key.get("endorsements") or ())]
        return KeySet(endorsed)
