"""The parts of Slack's event payloads that we read: docs.slack.dev, "Events API" and "message
event".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from faultline.bot.intake.payload_fields import (
    Address,
    Line,
    Payload,
    Rows,
    Table,
    Text,
    as_rows,
    as_url,
    in_utc,
    plain,
)

# Slack's message markup as plain text, and the links in it: docs.slack.dev, "Formatting message
# text".

MAX_BLOCK_NODES = 2_000
# Some senders do not escape the sign in `<url|latency > 5 s>`.
_MARKUP = re.compile(r"<([^<>\n]{1,4096}(?: > [^<>\n]{1,300})?)(?<! )>")
_BARE_URL = re.compile(r"https?://[^\s<>|\"'`]{3,2048}")


def slack_plain(text: str) -> str:
    """`<url|label>` becomes its label, mentions of people and groups vanish, `&amp;` and the like
    are unescaped."""
    return _unescape(_MARKUP.sub(_label, text))


def slack_urls(text: str) -> list[str]:
    """Every link in a text, in its order, without repeats."""
    urls: dict[str, None] = {}
    for match in _BARE_URL.findall(text):
        url = _unescape(match).rstrip(".,;:!?)")
        if as_url(url):
            urls[url] = None
    return list(urls)


def slack_time(ts: str) -> datetime | None:
    """The time in a message's `ts` (epoch seconds with a fraction), UTC; None when it is none."""
    try:
        return in_utc(datetime.fromtimestamp(float(ts), UTC))
    except (ValueError, OverflowError, OSError):
        return None


BlockKind = Literal["header", "text", "field", "context", "button", "url"]


@dataclass(frozen=True)
class BlockText:
    """A text or a link inside Block Kit blocks, and the part it plays there."""

    kind: BlockKind
    text: str


_KINDS: dict[str, BlockKind] = {
    "header": "header",
    "context": "context",
    "actions": "button",
    "button": "button",
}
_RICH_TEXT_LINES = frozenset({"rich_text_section", "rich_text_preformatted", "rich_text_quote"})


def block_texts(blocks: Any) -> tuple[BlockText, ...]:
    """Every text and link inside Block Kit blocks, in reading order."""
    return tuple(_texts_in(blocks))


def _texts_in(root: Any) -> Iterator[BlockText]:
    # A stack of our own: a sender decides how deep blocks are nested.
    waiting: list[tuple[BlockKind, Any]] = [("text", root)]
    node_count = 0
    while waiting and node_count < MAX_BLOCK_NODES:
        kind, node = waiting.pop()
        node_count += 1
        if isinstance(node, dict):
            name = node.get("type")
            kind = _KINDS.get(name, kind) if isinstance(name, str) else kind
            # The pieces of a line of rich text say something only together.
            if name in _RICH_TEXT_LINES:
                yield BlockText(kind, _rich_text(node.get("elements")))
                continue
            if as_url(node.get("url")):
                yield BlockText("url", node["url"])
            if isinstance(node.get("text"), str):
                yield BlockText(kind, plain(node["text"]))
            for key, value in reversed(node.items()):
                if isinstance(value, (dict, list)):
                    waiting.append(("field" if key == "fields" else kind, value))
        elif isinstance(node, list):
            waiting.extend((kind, item) for item in reversed(node[:MAX_BLOCK_NODES]))


def _rich_text(elements: Any) -> str:
    pieces: list[str] = []
    for element in as_rows(elements, MAX_BLOCK_NODES):
        text, url, name = (element.get(key) for key in ("text", "url", "name"))
        if element.get("type") == "emoji" and isinstance(name, str):
            pieces.append(f":{name}:")
        elif as_url(url):
            pieces.append(f"<{url}|{text}>" if isinstance(text, str) else f"<{url}>")
        elif isinstance(text, str):
            style = element.get("style")
            is_bold = isinstance(style, dict) and style.get("bold") is True
            pieces.append(f"*{text}*" if is_bold else text)
    return plain("".join(pieces))


def _label(match: re.Match[str]) -> str:
    target, bar, label = match[1].partition("|")
    if target.startswith(("@", "!")) and not target.startswith("!date"):
        return ""
    if target.startswith("#"):
        return "#" + (label or target[1:])
    return label if bar else target.removeprefix("mailto:")


def _unescape(text: str) -> str:
    # `&amp;` comes last: `&amp;lt;` stands for the text `&lt;`, not for a bracket.
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


Blocks = Annotated[tuple[BlockText, ...], BeforeValidator(block_texts)]
"""Block Kit blocks, as the texts and links inside them."""

OUR_METADATA = "faultline"
"""Our own messages carry metadata whose event type begins so."""


class AttachmentField(Payload):
    """One title and value inside an attachment."""

    title: Line = ""
    value: Text = ""


class AttachmentAction(Payload):
    """A button below an attachment."""

    url: Address = ""


class Attachment(Payload):
    """What most monitoring tools post: a coloured box with a title."""

    title: Line = ""
    title_link: Address = ""
    pretext: Text = ""
    text: Text = ""
    fallback: Text = ""
    color: Line = ""
    author_name: Line = ""
    footer: Line = ""
    fields: Rows[AttachmentField] = ()
    actions: Rows[AttachmentAction] = ()
    blocks: Blocks = ()


class Metadata(Payload):
    """Message metadata."""

    event_type: Line = ""


class Profile(Payload):
    """Who a bot is."""

    app_id: Line = ""
    name: Line = ""
    team_id: Line = ""


class Message(Payload):
    """A message, or the event about one. `changed` is the new form of an edited message."""

    type: Line = ""
    subtype: Line = ""
    channel: Line = ""
    user: Line = ""
    team: Line = ""
    user_team: Line = ""
    source_team: Line = ""
    bot_id: Line = ""
    app_id: Line = ""
    username: Line = ""
    text: Text = ""
    ts: Line = ""
    thread_ts: Line = ""
    attachments: Rows[Attachment] = ()
    blocks: Blocks = ()
    metadata: Table[Metadata] = Field(default_factory=Metadata)
    bot_profile: Table[Profile] = Field(default_factory=Profile)

    @property
    def thread(self) -> str:
        """The thread a reply belongs to."""
        return self.thread_ts or self.ts

    @property
    def sender(self) -> str:
        """The app or bot that posted it, by an id that a sender does not choose."""
        return self.bot_id or self.app_id or self.bot_profile.app_id

    @property
    def teams(self) -> frozenset[str]:
        """The workspaces that the message gives its author."""
        by_author = {self.bot_profile.team_id, self.user_team, self.source_team} - {""}
        return frozenset(by_author or {self.team} - {""})

    @property
    def is_reply(self) -> bool:
        """Whether it stands inside a thread of another message."""
        return bool(self.thread_ts) and self.thread_ts != self.ts


class SlackEvent(Message):
    """An event of the Events API that is or concerns a message."""

    message: Table[Message] = Field(default_factory=Message)
    channel_type: Line = ""
    deleted_ts: Line = ""


class Authorization(Payload):
    """The installation that an event was sent to: ours. `team_id` is where the app is installed."""

    team_id: Line = ""
    enterprise_id: Line = ""
    is_enterprise_install: Any = False
    user_id: Line = ""
    is_bot: Any = False


class Envelope(Payload):
    """The outer body of an event.

    `team_id` is where the event happened, which in a channel shared by Slack Connect may be the
    other company's workspace; `authorizations` and `context_team_id` say through which installation
    we hear of it (https://docs.slack.dev/apis/slack-connect/using-slack-connect-in-apps).
    """

    event_id: Line = ""
    team_id: Line = ""
    context_team_id: Line = ""
    is_ext_shared_channel: Any = False
    api_app_id: Line = ""
    authorizations: Rows[Authorization] = ()
    event: Table[SlackEvent] = Field(default_factory=SlackEvent)

    @property
    def installed_in(self) -> frozenset[str]:
        """The workspaces, or the organisation, whose installation of the app hears of it."""
        ids = {self.context_team_id}
        for authorization in self.authorizations:
            ids |= {
                authorization.team_id,
                authorization.enterprise_id if authorization.is_enterprise_install is True else "",
            }
        # `team_id` comes last: in a shared channel it may be the other company's.
        return frozenset(ids - {""}) or frozenset({self.team_id} - {""})


@dataclass(frozen=True)
class Ourselves:
    """Who we are in this workspace, from `auth.test` and from the event's own envelope."""

    user_ids: frozenset[str] = frozenset()
    bot_id: str = ""
    app_id: str = ""
    teams: frozenset[str] = frozenset()
    """The workspaces, or the organisation, whose apps are ours; empty while that is not known."""

    def wrote(self, message: Message) -> bool:
        """Whether a message is our own; we never react to those."""
        # One sign is enough: a bot that answers itself never stops.
        return (
            message.metadata.event_type.startswith(OUR_METADATA)
            or message.user in self.user_ids
            or bool(self.bot_id and message.bot_id == self.bot_id)
            or bool(self.app_id and self.app_id in (message.app_id, message.bot_profile.app_id))
        )
