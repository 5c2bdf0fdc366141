"""What a Slack message shows, whatever its layout: its headlines, lines, `key: value` pairs, links
and colours.

Attachments, blocks and plain text become the same few lists. All of them are bounded: the text is
a stranger's.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from faultline.bot.intake.payload_fields import single_line
from faultline.bot.intake.slack_payload import (
    Attachment,
    BlockText,
    Message,
    slack_plain,
    slack_urls,
)
from faultline.bot.intake.slack_words import emoji_state

MAX_BOXES, MAX_FIELDS, MAX_LINES, MAX_PAIRS = 20, 40, 150, 100
LONGEST_LINE = 500
LONGEST_KEY = 40
HEADLINES_OF_TEXT = 3
"""First lines of a text that may say what it is about."""
FIELDS_OF_TEXT = 3
"""A text of that many `key: value` lines is as structured as an attachment."""
RED_BELOW = 25 / 360
GREEN_HUES = (80 / 360, 170 / 360)
"""Hues on the colour circle: orange and yellow, which tools use for warnings, are neither."""
Hue = Literal["red", "green", ""]

_ORNAMENT = re.compile(
    r"^(?:[\s*_~`>•|-]|:[\w+-]{1,40}:|[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])+"
)
_COLUMNS = re.compile(r"[ \u00a0]{2,}|\t|[ ][|·•][ ]")
_BOLD_ALONE = re.compile(r"\*[^*\n]{1,60}\*:?")
_ASSIGNMENT = re.compile(r"(?<![\w.=&?/-])([A-Za-z_]\w{0,39}) ?= ?[\"'`]?([^\s,;\"'`=]{1,120})")
_KEY = re.compile(r"[^\W\d][\w ./()@-]{0,39}")
_EMOJI_CODE = re.compile(r":[a-z0-9_+-]{1,40}:")


@dataclass(frozen=True)
class Layout:
    """A message as it is read. `titles` are those of boxes and headers, `headlines` those and the
    first lines of texts, `lines` all that a reader sees. Keys of `pairs` are in lower case."""

    titles: tuple[str, ...]
    headlines: tuple[str, ...]
    lines: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    urls: tuple[str, ...]
    title_urls: tuple[str, ...]
    hues: frozenset[str]
    titled_hues: frozenset[str]
    names: tuple[str, ...]
    """What the sender calls itself."""
    is_structured: bool
    """Whether it has more than a text, or a text of fields."""

    @property
    def shown_state(self) -> Literal["firing", "resolved"] | None:
        """The state by colour, then by emoji; None where neither says one."""
        if self.hues:
            return "resolved" if self.hues == {"green"} else "firing"
        return emoji_state(self.headlines)

    def values(self, keys: Iterable[str]) -> Iterator[str]:
        """The values of these keys, in the order of the keys."""
        for key in keys:
            for name, value in self.pairs:
                if name == key:
                    yield value


def layout_of(message: Message) -> Layout:
    """The message's parts in the order in which a reader sees them."""
    boxes = message.attachments[:MAX_BOXES]
    reader = _Reader()
    for box in boxes:
        reader.title(box.title)
    all_blocks = [message.blocks, *(box.blocks for box in boxes)]
    for blocks in all_blocks:
        reader.blocks(blocks, headers_only=True)
    reader.text(message.text)
    reader.blocks(message.blocks)
    for box in boxes:
        reader.box(box)
    hues = {_hue(box.color) for box in boxes} - {""}
    titled, names = set(), [message.username, message.bot_profile.name]
    for box in boxes:
        names += [box.author_name, box.footer]
        if box.title or any(block.kind == "header" for block in box.blocks):
            titled.add(_hue(box.color))
    return Layout(
        titles=tuple(dict.fromkeys(reader.titles)),
        headlines=tuple(dict.fromkeys([*reader.titles, *reader.first_lines])),
        lines=tuple(dict.fromkeys(reader.lines))[:MAX_LINES],
        pairs=tuple(reader.pairs[:MAX_PAIRS]),
        urls=tuple(dict.fromkeys(_urls(message, boxes))),
        title_urls=tuple(box.title_link for box in boxes if box.title_link),
        hues=frozenset(hues),
        titled_hues=frozenset(titled - {""}),
        names=tuple(filter(None, names)),
        is_structured=bool(boxes)
        or any(block.kind != "text" for block in message.blocks)
        or len(reader.pairs) >= FIELDS_OF_TEXT,
    )


def shape_of(message: Message) -> str:
    """Which parts a message has, in words, for somebody who wonders why it was passed over."""
    colors = {box.color for box in message.attachments[:MAX_BOXES] if box.color}
    kinds = sorted({block.kind for block in message.blocks})
    parts = ["text"] if message.text else []
    parts += [f"blocks ({', '.join(kinds)})"] if kinds else []
    if message.attachments:
        shown = ", ".join(
            sorted(color for color in colors if color.isalnum() or color[1:].isalnum())
        )
        parts.append(f"attachment{f' ({shown[:40]})' if shown else ''}")
    return ", ".join(parts)


class _Reader:
    """Collects the lines of a message, in Slack's markup without its links."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.first_lines: list[str] = []
        self.lines: list[str] = []
        self.pairs: list[tuple[str, str]] = []

    def title(self, raw: str) -> None:
        """The title of a box, or a header."""
        line = single_line(slack_plain(raw))
        if line:
            self.titles.append(line)
            self.lines.append(line)

    def text(self, raw: str, *, headlines: int = HEADLINES_OF_TEXT) -> None:
        """A text of several lines, of which the first may be headlines."""
        lines = [line.strip()[:LONGEST_LINE] for line in slack_plain(raw).splitlines()[:MAX_LINES]]
        lines = [line for line in lines if line and not line.startswith(("http://", "https://"))]
        self.first_lines += lines[:headlines]
        self.lines += lines
        for number, line in enumerate(lines):
            following = lines[number + 1] if number + 1 < len(lines) else ""
            self.pairs += pairs_in(line, following)

    def blocks(self, blocks: tuple[BlockText, ...], *, headers_only: bool = False) -> None:
        """Headers as titles; else all texts but those of buttons."""
        for block in blocks:
            if (block.kind == "header") != headers_only or block.kind in ("button", "url"):
                continue
            if headers_only:
                self.title(block.text)
            else:
                is_prose = block.kind == "text"
                self.text(block.text, headlines=HEADLINES_OF_TEXT if is_prose else 0)

    def box(self, box: Attachment) -> None:
        """An attachment without its title."""
        self.text(box.pretext)
        self.text(box.text)
        self.blocks(box.blocks)
        for field in box.fields[:MAX_FIELDS]:
            value = single_line(slack_plain(field.value))
            self.lines.append(f"{field.title}: {value}")
            self.pairs.append((_key(slack_plain(field.title)), _value(value)))
            # A field's value may hold pairs itself, as tags do.
            self.pairs += _assignments(value)
            if not field.title:
                self.text(field.value, headlines=1)
        # Slack shows the fallback only where there is nothing else.
        if not (box.title or box.text or box.blocks or box.pretext):
            self.text(box.fallback)


def pairs_in(line: str, following: str = "") -> list[tuple[str, str]]:
    """`key: value` and `key=value` in a line, also several beside each other; a line that is only
    a key has its value on the following one."""
    alone = line.rstrip()
    if following and (_BOLD_ALONE.fullmatch(alone) or alone.endswith(":")):
        key = _key(alone)
        return [(key, _value(following))] if key and len(alone) <= LONGEST_KEY else []
    pairs: list[tuple[str, str]] = []
    for column in _COLUMNS.split(line)[:20]:
        name, colon, value = column.partition(":")
        # An emoji begins with a colon as well.
        if not name.strip(" *_-•>"):
            name, colon, value = _EMOJI_CODE.sub("", column).partition(":")
        is_address = value.startswith("//")
        key = _key(name) if colon and not is_address else ""
        if key and value.strip(" *_`"):
            pairs.append((key, _value(value)))
    return pairs + _assignments(line)


def _assignments(text: str) -> list[tuple[str, str]]:
    matches = _ASSIGNMENT.finditer(text[:LONGEST_LINE])
    return [(match[1].casefold(), match[2]) for match in matches][:20]


def _key(text: str) -> str:
    """The name before a colon in lower case; "" for what is too long to be one."""
    name = bare(text).strip(" :*_`").casefold()
    is_name = len(name) <= LONGEST_KEY and len(name.split()) <= 4 and _KEY.fullmatch(name)
    return name if is_name else ""


def _value(text: str) -> str:
    return single_line(bare(text.replace("*", "").replace("`", "")))


def bare(line: str) -> str:
    """The line without emoji and marks before it, and without marks after it."""
    return _ORNAMENT.sub("", line).rstrip("*_~` ")


def _urls(message: Message, boxes: tuple[Attachment, ...]) -> list[str]:
    raw = [message.text, *(block.text for block in message.blocks)]
    for box in boxes:
        raw += [box.title_link, box.title, box.pretext, box.text]
        raw += [block.text for block in box.blocks]
        raw += [field.value for field in box.fields[:MAX_FIELDS]]
        raw += [action.url for action in box.actions[:MAX_FIELDS]]
    urls: list[str] = []
    for text in raw:
        urls += slack_urls(text)
    return urls


def _hue(color: str) -> Hue:
    """What an attachment's colour says: Slack's words, or a hex colour that the eye calls red or
    green."""
    if color == "danger":
        return "red"
    if color == "good":
        return "green"
    digits = color.removeprefix("#")
    if not re.fullmatch(r"[0-9a-fA-F]{6}", digits):
        return ""
    red, green, blue = bytes.fromhex(digits)
    hue, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
    # Grey and nearly black say nothing.
    if saturation < 0.4 or value < 0.3:
        return ""
    # Red lies at both ends of the circle.
    if hue < RED_BELOW or hue > 1 - RED_BELOW:
        return "red"
    if GREEN_HUES[0] < hue < GREEN_HUES[1]:
        return "green"
    return ""
