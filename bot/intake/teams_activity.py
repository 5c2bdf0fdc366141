"""The parts of the Bot Framework's activities that we read: a message, or a click on a card.

Source: ConnectorAPI.json of botbuilder-python (`Activity`), learn.microsoft.com, "Universal Actions
for Adaptive Cards" (`adaptiveCard/action`), and Teams' `channelData`. All text is hostile.
"""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.bot.intake.payload_fields import plain
from faultline.bot.intake.sender_tokens import SenderClaims, sender_claims
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.runtime.published_keys import KeySet, PublishedKeys
from faultline.bot.settings.reply_targets import THREAD, MsTeamsSettings
from faultline.connectors.shared.http.http import ReadOnlyHttp
from faultline.connectors.shared.settings.connector_settings import Limits

CLICK = "adaptiveCard/action"
MAX_TEXT = 2_000
_MENTION = re.compile(r"<at(?: [^<>]*)?>[^<>]*</at>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,200}>")
_ID = re.compile(r"[\w:.@;=|\-]{1,400}")
"""Ids of conversations, messages and people, which become addresses and keys."""


class Account(msgspec.Struct, rename="camel"):
    """A person or a bot."""

    id: str = ""
    aad_object_id: str | None = None


class Conversation(msgspec.Struct, rename="camel"):
    """Of a channel's thread `<channel>;messageid=<the first message>`."""

    id: str = ""
    conversation_type: str | None = None
    tenant_id: str | None = None


class Tenant(msgspec.Struct):
    """A tenant of Microsoft 365."""

    id: str = ""


class ChannelData(msgspec.Struct):
    """What Teams adds."""

    tenant: Tenant | None = None


class CardAction(msgspec.Struct):
    """A click."""

    verb: str = ""
    data: dict[str, Any] = {}


class ClickValue(msgspec.Struct):
    """What an invoke holds."""

    action: CardAction | None = None


class Activity(msgspec.Struct, rename="camel"):
    """One thing that happened."""

    type: str
    service_url: str
    channel_id: str
    id: str = ""
    name: str | None = None
    text: str | None = None
    sender: Account = msgspec.field(name="from", default_factory=Account)
    recipient: Account = msgspec.field(default_factory=Account)
    conversation: Conversation = msgspec.field(default_factory=Conversation)
    channel_data: ChannelData | None = None
    entities: list[Any] = []
    value: Any = None

    @property
    def tenant(self) -> str:
        """The tenant in which it was sent; of a shared channel the sender's."""
        tenant = self.channel_data.tenant if self.channel_data else None
        return (tenant.id if tenant else "") or self.conversation.tenant_id or ""

    @property
    def channel(self) -> str:
        """The conversation without its thread."""
        return self.conversation.id.partition(THREAD)[0]

    @property
    def root(self) -> str:
        """The first message of the thread; "" where it is in none."""
        return self.conversation.id.partition(THREAD)[2]

    @property
    def is_for_bot(self) -> bool:
        """Whether it mentions the bot, or was written to it alone. An app that may read a channel
        hears all of it."""
        if self.conversation.conversation_type == "personal":
            return True
        for entity in self.entities:
            mentioned = entity.get("mentioned") if isinstance(entity, dict) else None
            if isinstance(mentioned, dict) and mentioned.get("id") == self.recipient.id:
                # Two missing ids are equal as well.
                return bool(self.recipient.id)
        return False

    @property
    def plain_text(self) -> str:
        """The text without mentions and markup."""
        # Cut before the patterns run, but leave room for the markup that they remove.
        text = _TAG.sub(" ", _MENTION.sub(" ", (self.text or "")[: 4 * MAX_TEXT]))
        # Unescape after removing tags: `&lt;at&gt;` is text that somebody typed, not a mention.
        return plain(" ".join(html.unescape(text).split()), MAX_TEXT)

    @property
    def click(self) -> CardAction | None:
        """The button that was clicked; None where it is no click of ours."""
        if self.type != "invoke" or self.name != CLICK:
            return None
        try:
            return msgspec.convert(self.value, ClickValue).action
        except msgspec.ValidationError:
            return None


def read_activity(body: bytes) -> Activity | None:
    """The activity; None for what is none of Teams', or has ids of another form."""
    try:
        activity = msgspec.json.decode(body, type=Activity)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    # The activity's own id may be missing.
    ids = (activity.conversation.id, activity.sender.id, activity.id or "0")
    is_whole = bool(activity.service_url) and all(_ID.fullmatch(identifier) for identifier in ids)
    return activity if is_whole else None


class Unknown(FaultlineError):
    """Nobody told who somebody is."""


# Who sends a message to the bot, as the Bot Framework says.
#
# Source: learn.microsoft.com, "Authentication with the Bot Connector API", step 3 of requests from
# the connector to a bot: issuer, audience, time, signature by a published key that is endorsed for
# the channel, and a `serviceurl` equal to the message's.

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
