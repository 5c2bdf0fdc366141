"""Slack's documented rules for the blocks and views that the bot uses: what Slack refuses.

https://docs.slack.dev/reference/block-kit and https://docs.slack.dev/reference/views; the same
numbers stand in `slack_sdk.models.blocks`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Problems = Iterator[str]
KnowsFile = Callable[[str], bool]
Rule = Callable[[Mapping[str, Any], str, KnowsFile], Problems]

MAX_BLOCKS, MAX_VIEW_BLOCKS = 50, 100
MAX_ID = 255
MAX_HEADER = 150
MAX_TEXT = 3000
MAX_FIELDS, MAX_FIELD = 10, 2000
MAX_CONTEXT_ELEMENTS = 10
MAX_ACTIONS = 25
MAX_BUTTON, MAX_VALUE, MAX_URL = 75, 2000, 3000
MAX_OPTION, MAX_OPTION_VALUE = 75, 150
MAX_OVERFLOW, MAX_RADIO, MAX_SELECT = 5, 10, 100
MAX_PLACEHOLDER, MAX_LABEL, MAX_INPUT = 150, 2000, 3000
MAX_CONFIRM = {"title": 100, "text": 300, "confirm": 30, "deny": 30}
MAX_ALT_TEXT = 2000
MAX_MARKDOWN = 12_000
MAX_TITLE, MAX_METADATA = 24, 3000
MAX_JSON = 13_200
"""Of a message. Not documented; measured in slackapi/bolt-js#2509."""
MAX_VIEW_BYTES = 250_000
"""`view_too_large`: https://docs.slack.dev/reference/methods/views.open#errors"""
FILE_ID = re.compile(r"F[A-Z0-9]{8,}")
RICH = {"rich_text_section", "rich_text_list", "rich_text_quote", "rich_text_preformatted"}


def broken_rules(
    blocks: Sequence[Any], knows_file: KnowsFile, *, most: int = MAX_BLOCKS
) -> list[str]:
    """What is wrong, each with its JSON pointer as Slack says it; empty when the blocks are
    valid."""
    problems: list[str] = []
    if len(blocks) > most:
        problems.append(f"no more than {most} items allowed [json-pointer:/blocks]")
    # Block ids have to be unique within a message.
    ids: set[str] = set()
    for number, block in enumerate(blocks):
        at = f"/blocks/{number}"
        kind = block.get("type") if isinstance(block, Mapping) else None
        rule = _RULES.get(str(kind))
        problems += (
            list(rule(block, at, knows_file))
            if rule
            else [f"unsupported block type [json-pointer:{at}/type]"]
        )
        if isinstance(block, Mapping) and "block_id" in block:
            problems += list(_length(block["block_id"], MAX_ID, f"{at}/block_id"))
            if block["block_id"] in ids:
                problems.append(f"block_id already exists [json-pointer:{at}/block_id]")
            ids.add(block["block_id"])
    return problems


def broken_view(view: Mapping[str, Any], knows_file: KnowsFile) -> list[str]:
    """What is wrong with a modal or a Home tab."""
    kind, blocks = view.get("type"), view.get("blocks")
    if kind not in {"modal", "home"} or not isinstance(blocks, list):
        return ["must be a modal or a home with blocks [json-pointer:/view]"]
    problems = broken_rules(blocks, knows_file, most=MAX_VIEW_BLOCKS)
    if kind == "modal":
        problems += _plain(view.get("title"), MAX_TITLE, "/view/title")
        for name in ("submit", "close"):
            problems += _plain(view[name], MAX_TITLE, f"/view/{name}") if name in view else ()
        # Slack refuses a form that nobody could send.
        if "submit" not in view and any(b.get("type") == "input" for b in blocks):
            problems.append("a view with an input must have a submit [json-pointer:/view/submit]")
    elif view.keys() & {"title", "submit", "close"}:
        problems.append("additional properties are not allowed [json-pointer:/view]")
    for name, limit in (
        ("private_metadata", MAX_METADATA),
        ("callback_id", MAX_ID),
        ("external_id", MAX_ID),
    ):
        if len(str(view.get(name, ""))) > limit:
            problems.append(f"must be less than {limit + 1} characters [json-pointer:/view/{name}]")
    return problems + [
        f"unsupported block type [json-pointer:/blocks] {b['type']}"
        for b in blocks
        if (isinstance(b, Mapping) and b.get("type") == "markdown")
    ]


def too_long(blocks: Sequence[Any]) -> bool:
    """Whether Slack answers `msg_blocks_too_long`."""
    # Slack counts characters as they are read, so they are not escaped.
    return len(json.dumps(blocks, ensure_ascii=False)) > MAX_JSON


def view_too_large(view: Mapping[str, Any]) -> bool:
    """Whether Slack answers `view_too_large`."""
    return len(json.dumps(view).encode()) > MAX_VIEW_BYTES


def _length(text: object, limit: int, at: str) -> Problems:
    if not isinstance(text, str) or not text:
        yield f"must be more than 0 characters [json-pointer:{at}]"
    elif len(text) > limit:
        yield f"must be less than {limit + 1} characters [json-pointer:{at}]"


def _between(items: object, most: int, at: str) -> Problems:
    if not isinstance(items, list) or not 1 <= len(items) <= most:
        yield f"must have 1 to {most} items [json-pointer:{at}]"


def _plain(text: object, limit: int, at: str) -> Problems:
    if not isinstance(text, Mapping) or text.get("type") != "plain_text":
        yield f"must be a plain_text [json-pointer:{at}]"
    else:
        yield from _length(text.get("text"), limit, f"{at}/text")


def _any_text(text: object, limit: int, at: str) -> Problems:
    if not isinstance(text, Mapping) or text.get("type") not in {"plain_text", "mrkdwn"}:
        yield f"must be a text object [json-pointer:{at}]"
    else:
        yield from _length(text.get("text"), limit, f"{at}/text")


def _header(block: Mapping[str, Any], at: str, _: KnowsFile) -> Problems:
    yield from _plain(block.get("text"), MAX_HEADER, f"{at}/text")


def _section(block: Mapping[str, Any], at: str, _: KnowsFile) -> Problems:
    # A section has a text or fields, or both.
    if "text" in block or "fields" not in block:
        yield from _any_text(block.get("text"), MAX_TEXT, f"{at}/text")
    if "fields" in block:
        yield from _between(block["fields"], MAX_FIELDS, f"{at}/fields")
        for number, field in enumerate(block["fields"]):
            yield from _any_text(field, MAX_FIELD, f"{at}/fields/{number}")
    if "accessory" in block:
        yield from _element(block["accessory"], f"{at}/accessory")


def _markdown(block: Mapping[str, Any], at: str, _: KnowsFile) -> Problems:
    yield from _length(block.get("text"), MAX_MARKDOWN, f"{at}/text")


def _context(block: Mapping[str, Any], at: str, _: KnowsFile) -> Problems:
    elements = block.get("elements", [])
    yield from _between(elements, MAX_CONTEXT_ELEMENTS, f"{at}/elements")
    for number, element in enumerate(elements):
        yield from _length(element.get("text"), MAX_TEXT, f"{at}/elements/{number}/text")


def _image(block: Mapping[str, Any], at: str, knows_file: KnowsFile) -> Problems:
    yield from _length(block.get("alt_text"), MAX_ALT_TEXT, f"{at}/alt_text")
    file_id = str(block.get("slack_file", {}).get("id", ""))
    if not FILE_ID.fullmatch(file_id):
        yield (
            f"input must match regex pattern: ^[F][A-Z0-9]{{8,}}$ [json-pointer:{at}/slack_file/id]"
        )
    elif not knows_file(file_id):
        yield f"invalid slack file [json-pointer:{at}/slack_file]"


def _divider(_block: Mapping[str, Any], _at: str, _: KnowsFile) -> Problems:
    return iter(())


def _rich_text(block: Mapping[str, Any], at: str, _: KnowsFile) -> Problems:
    for number, element in enumerate(block.get("elements", [])):
        yield from _rich_element(element, f"{at}/elements/{number}")


def _rich_element(element: Mapping[str, Any], at: str) -> Problems:
    kind = element.get("type")
    if kind == "text":
        yield from _length(element.get("text"), MAX_MARKDOWN, f"{at}/text")
    elif kind == "link":
        yield from _length(element.get("url"), MAX_URL, f"{at}/url")
    elif kind == "emoji":
        yield from _length(element.get("name"), MAX_TEXT, f"{at}/name")
    elif kind in RICH:
        if kind == "rich_text_list" and element.get("style") not in {"bullet", "ordered"}:
            yield f"must be a valid enum value [json-pointer:{at}/style]"
        for number, inner in enumerate(element.get("elements", [])):
            if kind == "rich_text_preformatted" and inner.get("type") not in {"text", "link"}:
                yield f"unsupported element type [json-pointer:{at}/elements/{number}/type]"
            yield from _rich_element(inner, f"{at}/elements/{number}")
    else:
        yield f"unsupported element type [json-pointer:{at}/type]"


def _actions(block: Mapping[str, Any], at: str, _: KnowsFile) -> Problems:
    elements = block.get("elements", [])
    yield from _between(elements, MAX_ACTIONS, f"{at}/elements")
    # Action ids have to be unique within a block.
    ids = [element.get("action_id") for element in elements]
    if len(set(ids)) != len(ids):
        yield f"action_id already exists [json-pointer:{at}/elements]"
    for number, element in enumerate(elements):
        yield from _element(element, f"{at}/elements/{number}")


def _input(block: Mapping[str, Any], at: str, _: KnowsFile) -> Problems:
    yield from _plain(block.get("label"), MAX_LABEL, f"{at}/label")
    if "hint" in block:
        yield from _plain(block["hint"], MAX_LABEL, f"{at}/hint")
    yield from _element(block.get("element", {}), f"{at}/element")


def _element(element: Mapping[str, Any], at: str) -> Problems:
    kind = element.get("type")
    yield from _length(element.get("action_id"), MAX_ID, f"{at}/action_id")
    if "placeholder" in element:
        yield from _plain(element["placeholder"], MAX_PLACEHOLDER, f"{at}/placeholder")
    if kind == "button":
        yield from _button(element, at)
    elif kind in _MOST_OPTIONS:
        yield from _between(element.get("options"), _MOST_OPTIONS[str(kind)], f"{at}/options")
        options = element.get("options") or []
        for number, option in enumerate(options):
            yield from _plain(option.get("text"), MAX_OPTION, f"{at}/options/{number}/text")
            yield from _length(
                option.get("value"), MAX_OPTION_VALUE, f"{at}/options/{number}/value"
            )
        if "initial_option" in element and element["initial_option"] not in options:
            yield f"must be one of the options [json-pointer:{at}/initial_option]"
    elif kind == "plain_text_input":
        if (
            not 1 <= element.get("max_length", MAX_INPUT) <= MAX_INPUT
            or len(element.get("initial_value", "")) > MAX_INPUT
        ):
            yield f"must be less than {MAX_INPUT + 1} [json-pointer:{at}/max_length]"
    else:
        yield f"unsupported element type [json-pointer:{at}/type]"


def _button(element: Mapping[str, Any], at: str) -> Problems:
    yield from _plain(element.get("text"), MAX_BUTTON, f"{at}/text")
    for name, limit in (("value", MAX_VALUE), ("url", MAX_URL)):
        if name in element:
            yield from _length(element[name], limit, f"{at}/{name}")
    if element.get("style", "primary") not in {"primary", "danger"}:
        yield f"must be a valid enum value [json-pointer:{at}/style]"
    for name, text in element.get("confirm", {}).items():
        if name in MAX_CONFIRM:
            yield from _any_text(text, MAX_CONFIRM[name], f"{at}/confirm/{name}")


_MOST_OPTIONS = {"overflow": MAX_OVERFLOW, "radio_buttons": MAX_RADIO, "static_select": MAX_SELECT}
_RULES: Mapping[str, Rule] = {
    "header": _header,
    "section": _section,
    "markdown": _markdown,
    "context": _context,
    "image": _image,
    "divider": _divider,
    "rich_text": _rich_text,
    "actions": _actions,
    "input": _input,
}
