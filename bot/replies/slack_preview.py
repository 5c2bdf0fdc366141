"""A Slack message as Slack would show it: in the terminal for the demo, as self-contained HTML for pictures."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.text import Text

from bot.replies.slack_message import SlackMessage

EMOJI: Mapping[str, str] = {
    "red_circle": "\U0001f534",
    "large_green_circle": "\U0001f7e2",
    "white_circle": "⚪",
    "large_yellow_circle": "\U0001f7e1",
    "warning": "⚠",
    "mag": "\U0001f50d",
}
_COLOURS: Mapping[str, str] = {
    "red_circle": "#dd2e44",
    "large_green_circle": "#78b159",
    "white_circle": "#e6e7e8",
    "large_yellow_circle": "#fdcb58",
}
_LINK = re.compile(r"<(https?://[^|>]+)\|([^>]+)>")
_STYLE = """
body{margin:0;background:#fff;color:#1d1c1d;font:15px/1.466 Lato,"DejaVu Sans","Helvetica Neue",sans-serif}
.message{display:flex;gap:8px;padding:16px 20px;max-width:820px}
.face{flex:0 0 36px;height:36px;border-radius:6px;background:#12355b;color:#fff;font-weight:700;text-align:center;
line-height:36px}
.name{font-weight:700}.app{background:#e8e8e8;color:#616061;border-radius:2px;font-size:10px;font-weight:700;
padding:1px 3px;margin:0 6px;vertical-align:2px}.time{color:#616061;font-size:12px}
.rich{margin:4px 0 8px;white-space:pre-wrap;overflow-wrap:anywhere}ul{margin:2px 0;padding-left:26px;white-space:normal}
a{color:#1264a3;text-decoration:none}.context{color:#616061;font-size:13px;margin:6px 0;overflow-wrap:anywhere}
img{max-width:100%;border:1px solid #ddd;border-radius:8px;margin:6px 0;display:block}
.dot{display:inline-block;width:15px;height:15px;border-radius:50%;vertical-align:-2px}
.file{color:#616061;border:1px solid #ddd;border-radius:8px;padding:8px 12px;margin:6px 0;font-size:13px}
"""


@dataclass(frozen=True)
class _Run:
    """A stretch of text of one style; `url` when it is a link, `emoji` when it is one."""

    text: str
    bold: bool = False
    url: str | None = None
    emoji: str | None = None


def to_terminal(message: SlackMessage) -> RenderableType:
    """The message for rich's console. Links can be clicked where the terminal knows how."""
    if not message.blocks:
        return Text(html.unescape(message.text))
    return Group(*(part for block in message.blocks for part in _terminal_block(block)))


def to_html(message: SlackMessage, images: Mapping[str, bytes] | None = None, *, time: str = "") -> str:
    """The message as one HTML page without outside references. `images` are PNGs by Slack file id."""
    if message.blocks:
        body = "".join(_html_block(block, images or {}) for block in message.blocks)
    else:
        body = f'<div class="rich">{_escaped(html.unescape(message.text))}</div>'
    head = f'<span class="name">Faultline</span><span class="app">APP</span><span class="time">{_escaped(time)}</span>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Slack message</title>'
        f"<style>{_STYLE}</style></head><body>"
        f'<div class="message"><div class="face">F</div><div>{head}{body}</div></div></body></html>'
    )


def _terminal_block(block: Mapping[str, Any]) -> Iterator[RenderableType]:
    kind = block["type"]
    if kind == "rich_text":
        for element in block["elements"]:
            if element["type"] == "rich_text_list":
                for item in element["elements"]:
                    yield Padding(_terminal_text([_Run("• "), *_runs(item)]), (0, 0, 0, 2))
            else:
                yield _terminal_text(_runs(element))
        yield Text("")
    elif kind == "context":
        yield _terminal_text([r for e in block["elements"] for r in _mrkdwn_runs(e["text"])], Style(dim=True))
    elif kind == "image":
        yield Text(f"[chart] {block['alt_text']}", style=Style(italic=True, dim=True))
        yield Text("")


def _terminal_text(runs: Sequence[_Run], base: Style | None = None) -> Text:
    text = Text(style=base or Style())
    for run in runs:
        if run.emoji is not None:
            text.append(EMOJI.get(run.emoji, f":{run.emoji}:"))
        elif run.url is not None:
            text.append(run.text, Style(color="bright_blue", link=run.url))
        else:
            text.append(run.text, Style(bold=run.bold))
    return text


def _html_block(block: Mapping[str, Any], images: Mapping[str, bytes]) -> str:
    kind = block["type"]
    if kind == "rich_text":
        return f'<div class="rich">{"".join(_html_element(e) for e in block["elements"])}</div>'
    if kind == "context":
        inner = "".join(_html_run(r) for e in block["elements"] for r in _mrkdwn_runs(e["text"]))
        return f'<div class="context">{inner}</div>'
    if kind == "image":
        png = images.get(block["slack_file"]["id"])
        if png is None:
            return f'<div class="file">{_escaped(block["alt_text"])}</div>'
        data = base64.b64encode(png).decode()
        return f'<img alt="{_escaped(block["alt_text"])}" src="data:image/png;base64,{data}">'
    return ""


def _html_element(element: Mapping[str, Any]) -> str:
    if element["type"] == "rich_text_list":
        items = ("".join(_html_run(r) for r in _runs(item)) for item in element["elements"])
        return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"
    return "".join(_html_run(r) for r in _runs(element))


def _html_run(run: _Run) -> str:
    if run.emoji is not None:
        colour = _COLOURS.get(run.emoji)
        if colour:
            return f'<span class="dot" style="background:{colour}"></span>'
        return _escaped(EMOJI.get(run.emoji, f":{run.emoji}:"))
    text = _escaped(run.text)
    if run.url is not None:
        return f'<a href="{_escaped(run.url)}">{text}</a>'
    return f"<b>{text}</b>" if run.bold else text


def _runs(section: Mapping[str, Any]) -> list[_Run]:
    runs = []
    for element in section["elements"]:
        if element["type"] == "emoji":
            runs.append(_Run("", emoji=element["name"]))
        elif element["type"] == "link":
            runs.append(_Run(element["text"], url=element["url"]))
        else:
            runs.append(_Run(element["text"], bold=bool(element.get("style", {}).get("bold"))))
    return runs


def _mrkdwn_runs(text: str) -> Iterator[_Run]:
    end = 0
    for found in _LINK.finditer(text):
        yield _Run(html.unescape(text[end : found.start()]))
        yield _Run(html.unescape(found[2]), url=html.unescape(found[1]))
        end = found.end()
    yield _Run(html.unescape(text[end:]))


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
