"""What asking a model took, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.analysis.vocabulary import ModelUse
from faultline.bot.answer.writer.model_use import model_use_line

BUDGET = "the day's budget of 5 USD is used up"


@pytest.mark.parametrize(
    ("use", "line"),
    [
        ({"rounds": 1, "tool_calls": 1}, "m: 1 round, 1 tool call, 38 s"),
        ({"rounds": 6, "tool_calls": 0}, "m: 6 rounds, 0 tool calls, 38 s"),
        (
            {"input_tokens": 40_000, "output_tokens": 8_000, "cached_tokens": 31_000},
            "m: 0 rounds, 0 tool calls, 48k tokens (31k cached), 38 s",
        ),
        (
            {"input_tokens": 900, "output_tokens": 100, "cached_tokens": 0},
            "m: 0 rounds, 0 tool calls, 1.0k tokens, 38 s",
        ),
        (
            {"input_tokens": 900, "output_tokens": 99, "cached_tokens": 9},
            "m: 0 rounds, 0 tool calls, 999 tokens (9 cached), 38 s",
        ),
        (
            {"input_tokens": 9_999, "output_tokens": 0},
            "m: 0 rounds, 0 tool calls, 10.0k tokens, 38 s",
        ),
        (
            {"input_tokens": 10_000, "output_tokens": 0},
            "m: 0 rounds, 0 tool calls, 10k tokens, 38 s",
        ),
        ({"input_tokens": 0, "output_tokens": 0}, "m: 0 rounds, 0 tool calls, 0 tokens, 38 s"),
        ({"input_tokens": 5}, "m: 0 rounds, 0 tool calls, 38 s"),
        ({"output_tokens": 5}, "m: 0 rounds, 0 tool calls, 38 s"),
        ({"cost_usd": 0.01}, "m: 0 rounds, 0 tool calls, $0.01, 38 s"),
        ({"cost_usd": 0.0099}, "m: 0 rounds, 0 tool calls, $0.0099, 38 s"),
        ({"ended": "timeout"}, "m: 0 rounds, 0 tool calls, 38 s · ended early: timeout"),
        ({"ended": BUDGET}, f"m was not asked: {BUDGET}"),
        (
            {"rounds": 1, "ended": BUDGET},
            f"m: 1 round, 0 tool calls, 38 s · ended early: {BUDGET}",
        ),
    ],
)
def test_rounds_tokens_cost_and_how_it_ended(use: dict[str, Any], line: str) -> None:
    assert model_use_line(ModelUse(name="m", seconds=38.2, **use)) == line
