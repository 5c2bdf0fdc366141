"""A Slack message as Slack would show it, in the terminal;
`faultline.bot.answer.targets.slack.pictures` shows it as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from faultline.bot.answer.targets.slack.message import SlackMessage

EMOJI: Mapping[str, str] = {
    "red_circle": "\U0001f534",
    "large_green_circle": "\U0001f7e2",
    "white_circle": "⚪",
    "large_yellow_circle": "\U0001f7e1",
    "warning": "⚠",
    "mag": "\U0001f50d",
}
# Slack's `<url|title>` and `*bold*`.
_MARKED = re.compile(r"<(https?://[^|>]+)\|([^>]+)>|\*([^*\n]+)\*")


@dataclass(frozen=True)
class Run:
    """A stretch of text of one style; `url` when it is a link, `emoji` when it is one."""

    text: str
    bold: bool = False
    code: bool = False
    url: str | None = None
    emoji: str | None = None


def to_terminal(message: SlackMessage) -> RenderableType:
    """The message for rich's console. Links can be clicked where the terminal knows how."""
    if not message.blocks:
        return Text(html.unescape(message.text))
    return Group(*(part for block in message.blocks for part in _terminal_block(block)))


def _terminal_block(block: Mapping[str, Any]) -> Iterator[RenderableType]:
    kind = block["type"]
    if kind == "rich_text":
        for element in block["elements"]:
            yield from _terminal_element(element)
        yield Text("")
    elif kind == "context":
        runs: list[Run] = []
        for element in block["elements"]:
            runs += mrkdwn_runs(element["text"])
        yield _terminal_text(runs, Style(dim=True))
    elif kind == "actions":
        names = _names_of_actions(block["elements"])
        yield Text("  ".join(f"[{name}]" for name in names), style=Style(dim=True))
        yield Text("")
    elif kind == "image":
        yield Text(f"[chart] {block['alt_text']}", style=Style(italic=True, dim=True))
        yield Text("")


def _terminal_element(element: Mapping[str, Any]) -> Iterator[RenderableType]:
    if element["type"] != "rich_text_list":
        yield _terminal_text(runs_of(element))
        return
    for item in element["elements"]:
        yield Padding(_terminal_text([Run("• "), *runs_of(item)]), (0, 0, 0, 2))


def _names_of_actions(elements: Sequence[Mapping[str, Any]]) -> list[str]:
    """The buttons, then what the overflow menus hold: a terminal has no menu to open."""
    buttons: list[str] = []
    options: list[str] = []
    for element in elements:
        if element["type"] == "button":
            buttons.append(element["text"]["text"])
        elif element["type"] == "overflow":
            options += [option["text"]["text"] for option in element["options"]]
    return [*buttons, *options]


def _terminal_text(runs: Sequence[Run], base: Style | None = None) -> Text:
    text = Text(style=base or Style())
    for run in runs:
        if run.emoji is not None:
            text.append(EMOJI.get(run.emoji, f":{run.emoji}:"))
        elif run.url is not None:
            text.append(run.text, Style(color="bright_blue", link=run.url))
        else:
            text.append(run.text, Style(bold=run.bold, color="red" if run.code else None))
    return text


def runs_of(section: Mapping[str, Any]) -> list[Run]:
    """The stretches of a rich text section."""
    runs = []
    for element in section["elements"]:
        if element["type"] == "emoji":
            runs.append(Run("", emoji=element["name"]))
        elif element["type"] == "link":
            runs.append(Run(element["text"], url=element["url"]))
        else:
            style = element.get("style", {})
            runs.append(
                Run(element["text"], bold=bool(style.get("bold")), code=bool(style.get("code")))
            )
    return runs


def mrkdwn_runs(text: str) -> Iterator[Run]:
    """The stretches of a mrkdwn text: links and bold words, which is all that the bot writes in
    it."""
    end = 0
    # Find marks before unescaping: an escaped bracket is no link.
    for match in _MARKED.finditer(text):
        yield Run(html.unescape(text[end : match.start()]))
        if match[1] is not None:
            yield Run(html.unescape(match[2]), url=html.unescape(match[1]))
        else:
            yield Run(html.unescape(match[3]), bold=True)
        end = match.end()
    yield Run(html.unescape(text[end:]))
