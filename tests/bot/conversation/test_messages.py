"""Answers fit into Slack's limits, and no text in them can mention, link or format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultline.bot.answer.targets.slack.message import MAX_BLOCKS_JSON, MAX_TEXT
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.conversation.answering import answer_from_case
from faultline.bot.conversation.messages import message_of
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.loopback.block_kit_rules import broken_rules, too_long
from tests.bot.conversation.test_answers import ASKED

HOSTILE = "<!channel> <@U123> <https://evil.example|ok> *b* `c` \u202e\u200b&lt; " * 30


def blocks_of(
    answer: AnswerText, url: str | None = "https://faultline.example/i/1"
) -> list[dict[str, Any]]:
    message = message_of(answer, url, chart="F0123456789")
    blocks = list(message.blocks)
    assert broken_rules(blocks, lambda _file: True) == []
    assert not too_long(blocks)
    assert len(json.dumps(blocks, ensure_ascii=False)) <= MAX_BLOCKS_JSON
    assert 0 < len(message.text) <= MAX_TEXT
    return blocks


@pytest.mark.parametrize("question", ASKED)
def test_every_answer_is_a_message_that_slack_takes(slow_rank: AnsweredCase, question: str) -> None:
    blocks_of(answer_from_case(slow_rank, question).text)


def test_the_longest_answer_fits_and_says_what_is_left_out() -> None:
    line = AnswerLine(
        text=HOSTILE,
        bold=HOSTILE,
        links=tuple((f"F{n}", "https://a.example/" + "x" * 500) for n in range(9)),
    )
    blocks = blocks_of(
        AnswerText(lead=HOSTILE, lines=(line,) * 200, more=(HOSTILE,) * 20, code=(HOSTILE,) * 200)
    )
    assert "more lines on the page" in json.dumps(blocks)


def test_an_empty_answer_is_a_message() -> None:
    blocks_of(AnswerText(lead=""), None)
    blocks_of(AnswerText(lead="\u0000", lines=(AnswerLine(text=""),), code=("",)), None)


def test_foreign_text_stands_where_slack_parses_nothing() -> None:
    answer = AnswerText(
        lead=HOSTILE,
        lines=(AnswerLine(text=HOSTILE, bold=HOSTILE),),
        more=(HOSTILE,),
        code=(HOSTILE,),
    )
    message = message_of(answer, None)
    assert "<!" not in message.text
    assert "<@" not in message.text
    for block in message.blocks:
        if block["type"] == "context":
            assert all("<!" not in e["text"] and "<@" not in e["text"] for e in block["elements"])
        else:
            assert block["type"] == "rich_text"
            kinds = json.dumps(block)
            assert '"broadcast"' not in kinds
            assert '"user"' not in kinds
            assert '"link"' not in kinds


def test_a_link_that_is_none_is_left_out() -> None:
    line = AnswerLine(text="a", links=(("x", "javascript:alert(1)"), ("y", "https://ok.example/1")))
    shown = json.dumps(message_of(AnswerText(lead="b", lines=(line,)), None).blocks)
    assert "javascript" not in shown
    assert "https://ok.example/1" in shown
