"""The rules by which Slack on loopback refuses blocks and views: each limit is refused one above
it."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.bot.answer.targets.slack.blocks import (
    actions,
    button,
    context,
    field,
    modal,
    option,
    overflow,
    paragraph,
    preformatted,
    rich,
)
from faultline.loopback.block_kit_rules import broken_rules, broken_view, view_too_large


def knows(_: str) -> bool:
    return True


def with_text(block: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The block with some of its parts replaced."""
    return {**block, **more}


def plain(length: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": "x" * length}


def an_option(number: int) -> dict[str, Any]:
    return option(f"choice {number}", str(number))


BUTTON = button("a", "Press", "v")
INPUT = {"type": "plain_text_input", "action_id": "given"}
TOO_MUCH: dict[str, Any] = {
    "button text": actions("b", [with_text(BUTTON, text=plain(76))]),
    "button value": actions("b", [with_text(BUTTON, value="v" * 2001)]),
    "button style": actions("b", [with_text(BUTTON, style="green")]),
    "empty button": actions("b", [with_text(BUTTON, text=plain(0))]),
    "26 elements": actions("b", [button(f"a{n}", "x", "v") for n in range(26)]),
    "no elements": actions("b", []),
    "equal action ids": actions("b", [BUTTON, BUTTON]),
    "6 options": actions(
        "b", [{"type": "overflow", "action_id": "m", "options": [an_option(n) for n in range(6)]}]
    ),
    "option text": actions("b", [overflow("m", [with_text(an_option(1), text=plain(76))])]),
    "option value": actions("b", [overflow("m", [with_text(an_option(1), value="v" * 151)])]),
    "block id": actions("b" * 256, [BUTTON]),
    "header": {"type": "header", "text": plain(151)},
    "section": {"type": "section", "text": plain(3001)},
    "context": {"type": "context", "elements": [{"type": "mrkdwn", "text": "x" * 3001}]},
    "11 context elements": {"type": "context", "elements": [{"type": "mrkdwn", "text": "x"}] * 11},
    "an emoji in a box": rich(
        {**preformatted("x"), "elements": [{"type": "emoji", "name": "tada"}]}
    ),
    "a label": with_text(field("f", "x", INPUT), label=plain(2001)),
    "an unknown element": actions("b", [with_text(BUTTON, type="slider")]),
    "an unknown block": {"type": "poem"},
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_much_is_refused(name: str) -> None:
    assert broken_rules([TOO_MUCH[name]], knows)


def test_what_just_fits_is_taken() -> None:
    blocks = [
        actions("b" * 255, [with_text(BUTTON, text=plain(75), value="v" * 2000)]),
        actions("c", [overflow("m", [an_option(n) for n in range(5)])]),
        {"type": "header", "text": plain(150)},
        {"type": "section", "text": plain(3000), "accessory": BUTTON},
        context("x"),
        rich(preformatted("x")),
    ]
    assert broken_rules(blocks, knows) == []
    assert broken_rules([paragraph("x")] * 51, knows)
    assert broken_rules([paragraph("x")] * 50, knows) == []


def test_views_have_limits_of_their_own() -> None:
    fits = modal("c", "x" * 24, [paragraph("x")] * 100, metadata="m" * 3000)
    assert broken_view(fits, knows) == []
    assert broken_view({**fits, "title": plain(25)}, knows)
    assert broken_view({**fits, "private_metadata": "m" * 3001}, knows)
    assert broken_view({**fits, "callback_id": "c" * 256}, knows)
    assert broken_view({**fits, "blocks": [paragraph("x")] * 101}, knows)
    assert broken_view({**fits, "blocks": [field("f", "x", INPUT)]}, knows), (
        "an input needs a submit"
    )
    assert broken_view({"type": "home", "title": plain(3), "blocks": []}, knows)
    assert broken_view({"type": "home", "blocks": [paragraph("x")]}, knows) == []
    assert view_too_large({"blocks": [paragraph("x" * 260_000)]})
    assert not view_too_large(fits)
