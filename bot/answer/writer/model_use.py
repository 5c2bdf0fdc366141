"""What asking a model took, in one short line."""

from __future__ import annotations

from faultline.analysis.vocabulary import ModelUse
from faultline.bot.answer.writer.plain_text import neutral

USED_UP = "is used up"
"""In `ModelUse.ended` where the model was not asked because its budget of the day is used up."""


def model_use_line(use: ModelUse) -> str:
    """`gpt-x: 6 rounds, 9 tool calls, 48k tokens (31k cached), $0.04, 38 s`."""
    if use.rounds == 0 and USED_UP in use.ended:
        return f"{neutral(use.name, 60)} was not asked: {neutral(use.ended, 200)}"
    parts = [_counted(use.rounds, "round"), _counted(use.tool_calls, "tool call")]
    if use.input_tokens is not None and use.output_tokens is not None:
        cached = f" ({_tokens(use.cached_tokens)} cached)" if use.cached_tokens else ""
        parts.append(f"{_tokens(use.input_tokens + use.output_tokens)} tokens{cached}")
    if use.cost_usd is not None:
        parts.append(f"${use.cost_usd:.2f}" if use.cost_usd >= 0.01 else f"${use.cost_usd:.4f}")
    parts.append(f"{use.seconds:.0f} s")
    why = "" if use.ended == "answered" else f" · ended early: {neutral(use.ended, 80)}"
    return f"{neutral(use.name, 60)}: {', '.join(parts)}{why}"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _tokens(n: int | None) -> str:
    if not n:
        return "0"
    return f"{n / 1000:.0f}k" if n >= 10_000 else f"{n / 1000:.1f}k" if n >= 1000 else str(n)
