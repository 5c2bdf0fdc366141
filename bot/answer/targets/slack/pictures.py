"""Messages, modals and Home tabs as Slack would show them, as self-contained HTML for pictures,
light and dark."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from faultline.bot.answer.targets.slack.message import SlackMessage
from faultline.bot.answer.targets.slack.preview import EMOJI, Run, mrkdwn_runs, runs_of

Images = Mapping[str, bytes]

_COLOURS: Mapping[str, str] = {
    "red_circle": "#dd2e44",
    "large_green_circle": "#78b159",
    "white_circle": "#e6e7e8",
    "large_yellow_circle": "#fdcb58",
}
_LIGHT = "--back:#fff;--ink:#1d1c1d;--grey:#616061;--line:#ddd;--link:#1264a3;--box:#f8f8f8;--code:#c01343;--veil:#868686"  # noqa: E501
_DARK = "--back:#1a1d21;--ink:#d1d2d3;--grey:#9a9b9e;--line:#4a4d52;--link:#1d9bd1;--box:#222529;--code:#e8912d;--veil:#000"  # noqa: E501
_STYLE = """
body{margin:0;background:var(--back);color:var(--ink);
font:15px/1.466 Lato,"DejaVu Sans","Helvetica Neue",sans-serif}
.message{display:flex;gap:8px;padding:16px 20px;max-width:820px}
.face{flex:0 0 36px;height:36px;border-radius:6px;background:#12355b;color:#fff;font-weight:700;text-align:center;
line-height:36px}
.name{font-weight:700}.app{background:var(--line);color:var(--grey);border-radius:2px;font-size:10px;font-weight:700;
padding:1px 3px;margin:0 6px;vertical-align:2px}.time{color:var(--grey);font-size:12px}
.rich{margin:4px 0 8px;white-space:pre-wrap;overflow-wrap:anywhere}ul{margin:2px 0;padding-left:26px;white-space:normal}
a{color:var(--link);text-decoration:none}
.context{color:var(--grey);font-size:13px;margin:6px 0;overflow-wrap:anywhere}
.context div{margin:2px 0}
img{max-width:100%;border:1px solid var(--line);border-radius:8px;margin:6px 0;display:block}
.dot{display:inline-block;width:15px;height:15px;border-radius:50%;vertical-align:-2px}
.file{color:var(--grey);border:1px solid var(--line);border-radius:8px;padding:8px 12px;margin:6px 0;font-size:13px}
h2{font-size:18px;margin:16px 0 6px}pre{background:var(--box);border:1px solid var(--line);border-radius:4px;
padding:8px;margin:4px 0;font:12px/1.5 "DejaVu Sans Mono",monospace;white-space:pre-wrap;overflow-wrap:anywhere}
code{font:12px "DejaVu Sans Mono",monospace;color:var(--code);border:1px solid var(--line);border-radius:3px;
background:var(--box);padding:1px 3px}.actions{display:flex;flex-wrap:wrap;gap:8px;margin:8px 0}
.button{border:1px solid var(--line);border-radius:4px;padding:3px 12px;font-weight:700;font-size:14px;
background:var(--back);white-space:nowrap}
.section{display:flex;justify-content:space-between;gap:16px;margin:8px 0;align-items:flex-start}
.field{margin:14px 0}.field b{display:block;margin-bottom:6px}.field b span,.hint{color:var(--grey);font-weight:400}
.hint{font-size:13px}
.input{border:1px solid var(--grey);border-radius:4px;padding:8px 12px;min-height:22px;color:var(--grey)}
.tall{min-height:66px}.radio{margin:4px 0}
.radio i{display:inline-block;width:14px;height:14px;border:1.5px solid var(--grey);border-radius:50%;
vertical-align:-3px;margin-right:8px}
.radio.on i{border:5px solid var(--link);width:7px;height:7px}
.veil{background:var(--veil);padding:24px;min-height:100vh;box-sizing:border-box}
.modal{background:var(--back);border-radius:8px;max-width:560px;margin:auto;overflow:hidden}
.head{display:flex;gap:10px;align-items:center;font-weight:900;font-size:20px;padding:16px 24px;
border-bottom:1px solid var(--line)}.head .face{flex:0 0 28px;height:28px;line-height:28px;font-size:14px}
.content{padding:8px 24px 16px}
.foot{border-top:1px solid var(--line);padding:14px 24px;display:flex;justify-content:flex-end;gap:10px}
.go{background:#007a5a;border-color:#007a5a;color:#fff}
.home{padding:8px 24px 24px;max-width:760px}.tab{border-bottom:2px solid var(--link);display:inline-block;
font-weight:700;font-size:13px;padding:8px 0;margin:0 18px 0 0}.tabs{border-bottom:1px solid var(--line);padding:0 24px}
"""  # noqa: E501


def to_html(
    message: SlackMessage, images: Images | None = None, *, time: str = "", dark: bool = False
) -> str:
    """The message as one page without outside references. `images` are PNGs by Slack file id."""
    if message.blocks:
        body = _blocks(message.blocks, images)
    else:
        # The text has Slack's escapes; HTML needs its own.
        body = f'<div class="rich">{_escaped(html.unescape(message.text))}</div>'
    head = (
        f'<span class="name">Faultline</span><span class="app">APP</span><span '
        f'class="time">{_escaped(time)}</span>'
    )
    return _page(
        f'<div class="message"><div class="face">F</div><div>{head}{body}</div></div>', dark
    )


def view_to_html(view: Mapping[str, Any], *, dark: bool = False) -> str:
    """A modal, or a Home tab."""
    body = _blocks(view["blocks"], None)
    if view["type"] == "home":
        tabs = (
            '<div class="tabs"><span class="tab">Home</span><span class="time">Messages &nbsp; '
            "About</span></div>"
        )
        return _page(f'{tabs}<div class="home">{body}</div>', dark)
    title = f'<div class="head"><div class="face">F</div>{_escaped(view["title"]["text"])}</div>'
    buttons = (
        [f'<span class="button">{_escaped(view["close"]["text"])}</span>']
        if "close" in view
        else []
    )
    if "submit" in view:
        buttons.append(f'<span class="button go">{_escaped(view["submit"]["text"])}</span>')
    foot = f'<div class="foot">{"".join(buttons)}</div>'
    shown = f'<div class="modal">{title}<div class="content">{body}</div>{foot}</div>'
    return _page(f'<div class="veil">{shown}</div>', dark)


def _page(body: str, dark: bool) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Slack</title>'
        f"<style>:root{{{_DARK if dark else _LIGHT}}}{_STYLE}</style></head><body>{body}</body></"
        f"html>"
    )


def _blocks(blocks: Sequence[Mapping[str, Any]], images: Images | None) -> str:
    return "".join(
        _SHOWN[block["type"]](block, images or {}) for block in blocks if block["type"] in _SHOWN
    )


def _rich(block: Mapping[str, Any], _: Images) -> str:
    return f'<div class="rich">{"".join(_element(e) for e in block["elements"])}</div>'


def _context(block: Mapping[str, Any], _: Images) -> str:
    lines = ("".join(_run(r) for r in mrkdwn_runs(e["text"])) for e in block["elements"])
    return f'<div class="context">{"".join(f"<div>{line}</div>" for line in lines)}</div>'


def _image(block: Mapping[str, Any], images: Images) -> str:
    png = images.get(block["slack_file"]["id"])
    if png is None:
        return f'<div class="file">{_escaped(block["alt_text"])}</div>'
    # Embedded, because the page refers to nothing outside.
    data = base64.b64encode(png).decode()
    return f'<img alt="{_escaped(block["alt_text"])}" src="data:image/png;base64,{data}">'


def _header(block: Mapping[str, Any], _: Images) -> str:
    return f"<h2>{_escaped(block['text']['text'])}</h2>"


def _section(block: Mapping[str, Any], _: Images) -> str:
    accessory = _button(block["accessory"]) if "accessory" in block else ""
    return f'<div class="section"><span>{_escaped(block["text"]["text"])}</span>{accessory}</div>'


def _actions(block: Mapping[str, Any], _: Images) -> str:
    return f'<div class="actions">{"".join(_button(e) for e in block["elements"])}</div>'


def _button(element: Mapping[str, Any]) -> str:
    label = "⋯" if element["type"] == "overflow" else _escaped(element["text"]["text"])
    return f'<span class="button">{label}</span>'


def _input(block: Mapping[str, Any], _: Images) -> str:
    element = block["element"]
    label = _escaped(block["label"]["text"]) + (
        " <span>(optional)</span>" if block.get("optional") else ""
    )
    hint = f'<div class="hint">{_escaped(block["hint"]["text"])}</div>' if "hint" in block else ""
    return f'<div class="field"><b>{label}</b>{_field(element)}{hint}</div>'


def _field(element: Mapping[str, Any]) -> str:
    if element["type"] == "radio_buttons":
        chosen = element.get("initial_option")
        rows = (
            (" on" if o == chosen else "", _escaped(o["text"]["text"])) for o in element["options"]
        )
        return "".join(f'<div class="radio{on}"><i></i>{label}</div>' for on, label in rows)
    if element["type"] == "static_select":
        return f'<div class="input">{_escaped(element["placeholder"]["text"])} &#9662;</div>'
    tall = " tall" if element.get("multiline") else ""
    return f'<div class="input{tall}">{_escaped(element.get("initial_value", ""))}</div>'


def _element(element: Mapping[str, Any]) -> str:
    if element["type"] == "rich_text_list":
        items = ("".join(_run(r) for r in runs_of(item)) for item in element["elements"])
        return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"
    inside = "".join(_run(r) for r in runs_of(element))
    return f"<pre>{inside}</pre>" if element["type"] == "rich_text_preformatted" else inside


def _run(run: Run) -> str:
    if run.emoji is not None:
        colour = _COLOURS.get(run.emoji)
        if colour:
            return f'<span class="dot" style="background:{colour}"></span>'
        return "⌕" if run.emoji == "mag" else _escaped(EMOJI.get(run.emoji, f":{run.emoji}:"))
    text = _escaped(run.text)
    if run.url is not None:
        return f'<a href="{_escaped(run.url)}">{text}</a>'
    if run.code:
        return f"<code>{text}</code>"
    return f"<b>{text}</b>" if run.bold else text


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)


_SHOWN: Mapping[str, Callable[[Mapping[str, Any], Images], str]] = {
    "rich_text": _rich,
    "context": _context,
    "image": _image,
    "header": _header,
    "section": _section,
    "actions": _actions,
    "input": _input,
}
