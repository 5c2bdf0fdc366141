"""Slack's documented rules for blocks, as far as replies use them: what chat.postMessage answers `invalid_blocks` to.

https://docs.slack.dev/reference/block-kit/blocks
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Found = Iterator[str]

MAX_BLOCKS = 50
MAX_HEADER = 150
MAX_TEXT = 3000
MAX_CONTEXT_ELEMENTS = 10
MAX_ALT_TEXT = 2000
MAX_MARKDOWN = 12_000
MAX_JSON = 13_200
"""Not documented; measured in slackapi/bolt-js#2509."""
FILE_ID = re.compile(r"F[A-Z0-9]{8,}")


def broken_rules(blocks: Sequence[Any], knows_file: Callable[[str], bool]) -> list[str]:
    """What is wrong, each with its JSON pointer as Slack says it; empty when the blocks are valid."""
    found: list[str] = []
    if len(blocks) > MAX_BLOCKS:
        found.append(f"no more than {MAX_BLOCKS} items allowed [json-pointer:/blocks]")
    for number, block in enumerate(blocks):
        at = f"/blocks/{number}"
        kind = block.get("type") if isinstance(block, Mapping) else None
        rule = _RULES.get(str(kind))
        found += list(rule(block, at, knows_file)) if rule else [f"unsupported block type [json-pointer:{at}/type]"]
    return found


def too_long(blocks: Sequence[Any]) -> bool:
    """Whether Slack answers `msg_blocks_too_long`."""
    return len(json.dumps(blocks, ensure_ascii=False)) > MAX_JSON


def _length(text: object, limit: int, at: str) -> Found:
    if not isinstance(text, str) or not text:
        yield f"must be more than 0 characters [json-pointer:{at}]"
    elif len(text) > limit:
        yield f"must be less than {limit + 1} characters [json-pointer:{at}]"


def _header(block: Mapping[str, Any], at: str, _: Callable[[str], bool]) -> Found:
    yield from _length(block.get("text", {}).get("text"), MAX_HEADER, f"{at}/text/text")


def _section(block: Mapping[str, Any], at: str, _: Callable[[str], bool]) -> Found:
    yield from _length(block.get("text", {}).get("text"), MAX_TEXT, f"{at}/text/text")


def _markdown(block: Mapping[str, Any], at: str, _: Callable[[str], bool]) -> Found:
    yield from _length(block.get("text"), MAX_MARKDOWN, f"{at}/text")


def _context(block: Mapping[str, Any], at: str, _: Callable[[str], bool]) -> Found:
    elements = block.get("elements", [])
    if not 1 <= len(elements) <= MAX_CONTEXT_ELEMENTS:
        yield f"must have 1 to {MAX_CONTEXT_ELEMENTS} items [json-pointer:{at}/elements]"
    for number, element in enumerate(elements):
        yield from _length(element.get("text"), MAX_TEXT, f"{at}/elements/{number}/text")


def _image(block: Mapping[str, Any], at: str, knows_file: Callable[[str], bool]) -> Found:
    yield from _length(block.get("alt_text"), MAX_ALT_TEXT, f"{at}/alt_text")
    file_id = str(block.get("slack_file", {}).get("id", ""))
    if not FILE_ID.fullmatch(file_id):
        yield f"input must match regex pattern: ^[F][A-Z0-9]{{8,}}$ [json-pointer:{at}/slack_file/id]"
    elif not knows_file(file_id):
        yield f"invalid slack file [json-pointer:{at}/slack_file]"


def _divider(_block: Mapping[str, Any], _at: str, _: Callable[[str], bool]) -> Found:
    return iter(())


def _rich_text(block: Mapping[str, Any], at: str, _: Callable[[str], bool]) -> Found:
    for number, element in enumerate(block.get("elements", [])):
        yield from _rich_element(element, f"{at}/elements/{number}")


def _rich_element(element: Mapping[str, Any], at: str) -> Found:
    kind = element.get("type")
    if kind == "text":
        yield from _length(element.get("text"), MAX_MARKDOWN, f"{at}/text")
    elif kind == "link":
        yield from _length(element.get("url"), MAX_TEXT, f"{at}/url")
    elif kind == "emoji":
        yield from _length(element.get("name"), MAX_TEXT, f"{at}/name")
    elif kind in {"rich_text_section", "rich_text_list", "rich_text_quote", "rich_text_preformatted"}:
        if kind == "rich_text_list" and element.get("style") not in {"bullet", "ordered"}:
            yield f"must be a valid enum value [json-pointer:{at}/style]"
        for number, inner in enumerate(element.get("elements", [])):
            yield from _rich_element(inner, f"{at}/elements/{number}")
    else:
        yield f"unsupported element type [json-pointer:{at}/type]"


_RULES: Mapping[str, Callable[[Mapping[str, Any], str, Callable[[str], bool]], Found]] = {
    "header": _header,
    "section": _section,
    "markdown": _markdown,
    "context": _context,
    "image": _image,
    "divider": _divider,
    "rich_text": _rich_text,
}
