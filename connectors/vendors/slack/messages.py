"""Slack's messages as plain text, and the deploys that they announce. All text in them is
hostile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from faultline.connectors.shared.vendor_text import short

LONGEST = 2_000
"""Characters of a message that are looked at; an announcement stands at its beginning."""
LONGEST_MESSAGE = 500
MOST_NODES = 500
MOST_LINES, MOST_WORDS, MOST_NAMED = 40, 5_000, 5
_MARKUP = re.compile(r"<([^<>\n]{1,2000})>")
_TS = re.compile(r"\d{10}\.\d{6}")
_DONE = re.compile(
    r"\b(?:re-?deployed|deployed|released|rolled[ "
    r"-]?(?:out|back)|reverted|shipped|promoted|went live|hotfixed)\b"
    r"|\b(?:deploy(?:ment)?s?|releases?|roll[ -]?(?:out|back))\b.{0,80}?"
    r"\b(?:succeeded|successful(?:ly)?|finished|completed?|done|is live|to prod(?:uction)?)\b"
    r"|\b(?:deploying|releasing|rolling[ -]?(?:out|back)|shipping)\b",
    re.I | re.S,
)
_NOT = re.compile(
    r"\b(?:not|never|n't|will be|to be|going to|should we|can we|could "
    r"we|who|when|was it|fail(?:ed|s|ure)|"
    r"cancell?ed|aborted|blocked|scheduled|planned|please)\b|n['\u2019]t\b|\?\s*$",
    re.I,
)
"""A question, a plan or a deploy that did not come about."""
_HASH = re.compile(r"(?<![\w-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![\w-])")
_VERSION = re.compile(
    r"(?<![\w.])v?\d{1,8}(?:\.\d{1,8}){1,3}(?:[-+][0-9A-Za-z.-]{1,40})?(?![\w])|"
    r"(?<![\w.])v\d{1,8}(?![\w.])"
)


class SlackHistoryMessage(msgspec.Struct):
    """The fields that are read of a message of conversations.history and conversations.replies."""

    ts: str
    text: str | None = None
    user: str | None = None
    bot_id: str | None = None
    app_id: str | None = None
    username: str | None = None
    subtype: str | None = None
    thread_ts: str | None = None
    attachments: Any = None
    blocks: Any = None
    metadata: Any = None

    @property
    def time(self) -> datetime | None:
        """When it was posted."""
        return moment_of(self.ts)

    @property
    def author(self) -> str:
        """Who wrote it: an id, or the name that a bot gives itself."""
        return short(self.user or self.username or self.bot_id or "somebody", 80)


@dataclass(frozen=True)
class Announced:
    """A deploy as a message announces it. `id` is the version or commit, else the message's own
    time."""

    service: str
    time: datetime
    id: str
    title: str
    author: str


def plain(message: SlackHistoryMessage) -> str:
    """What a message says, without markup; mentions of people are ids, nothing that would call
    them."""
    texts = [message.text or "", *_strings(message.attachments), *_strings(message.blocks)]
    lines = dict.fromkeys(
        line for text in texts if (line := short(_MARKUP.sub(_label, text[:LONGEST]), LONGEST))
    )
    remaining_lines = list(lines)[:MOST_LINES]
    joined = " ".join(
        line
        for line in remaining_lines
        # Blocks and attachments repeat the message's text.
        if not any(line != other and line in other for other in remaining_lines)
    )
    # The ampersand last, or `&amp;lt;` would be undone twice.
    return joined[:LONGEST].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def moment_of(ts: str) -> datetime | None:
    """The time in a message's `ts`."""
    return datetime.fromtimestamp(float(ts), UTC) if _TS.fullmatch(ts) else None


class ServiceWords:
    """Finds services of the catalogue in a text, by their names and aliases."""

    def __init__(self, services: Mapping[str, Sequence[str]]) -> None:
        named = [
            (word.casefold(), name)
            for name, aliases in services.items()
            for word in (name, *aliases)
            if word
        ]
        # Reversed: of equal words the service that comes first in the catalogue wins.
        self._ours = dict(reversed(named[:MOST_WORDS]))

    def in_text(self, text: str) -> list[str]:
        """The services that are named, in their order; of words within one another the longest
        counts."""
        folded = text.casefold()
        # The longest first, because an alternation takes the first that fits.
        there = sorted((word for word in self._ours if word in folded), key=len, reverse=True)
        if not there:
            return []
        matches = re.findall(rf"(?<![\w-])(?:{'|'.join(map(re.escape, there))})(?![\w-])", folded)
        return list(dict.fromkeys(self._ours[word] for word in matches))[:MOST_NAMED]


def announced(message: SlackHistoryMessage, words: ServiceWords) -> list[Announced]:
    """The deploys that a message announces: a service of the catalogue, and that it was deployed or
    rolled back."""
    text, at = plain(message), message.time
    if at is None or _DONE.search(text) is None or _NOT.search(text) is not None:
        return []
    match = _HASH.search(text) or _VERSION.search(text)
    identity = match[0] if match else f"slack {message.ts}"
    title = short(text, 300)
    services = words.in_text(text)
    return [Announced(service, at, identity, title, message.author) for service in services]


def _strings(root: Any) -> Iterator[str]:
    """Every text inside attachments or blocks, in reading order."""
    waiting, node_count = [root], 0
    while waiting and node_count < MOST_NODES:
        node, node_count = waiting.pop(), node_count + 1
        if isinstance(node, dict):
            for key in ("pretext", "title", "text", "value"):
                if isinstance(node.get(key), str):
                    yield node[key]
            if isinstance(node.get("fallback"), str) and not any(
                node.get(k) for k in ("title", "text", "blocks")
            ):
                yield node["fallback"]
            waiting.extend(reversed([v for v in node.values() if isinstance(v, (dict, list))]))
        elif isinstance(node, list):
            waiting.extend(reversed(node[:MOST_NODES]))


def _label(match: re.Match[str]) -> str:
    target, bar, label = match[1].partition("|")
    # `#` names a channel, `@` a person, `!` all who are here.
    if target.startswith("#"):
        return f" {label or target[1:]} "
    if target.startswith("@"):
        return f" {target[1:]} "
    if target.startswith("!"):
        return " "
    return label if bar else target


def thread_details(messages: Iterable[SlackHistoryMessage]) -> dict[str, str]:
    """What was said, by time and author."""
    details: dict[str, str] = {}
    for message in messages:
        text, at = plain(message), message.time
        if not text or at is None:
            continue
        key = f"{at:%Y-%m-%dT%H:%M:%SZ} {message.author}"
        if key in details:
            # Two messages of one second differ in the microseconds.
            key += f" ({message.ts[-6:]})"
        details[key] = short(text, LONGEST_MESSAGE)
    return details
