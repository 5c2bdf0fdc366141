"""Watches the model: each of its answers, and what they took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from faultline.bot.runtime import measures, tracing
from faultline.bot.runtime.measures import word

FAILED = "failed"


@dataclass
class Round:
    """One answer, by how it ended; `failed` where nothing usable came."""

    ending: str = FAILED


@contextlib.contextmanager
def watched_round() -> Iterator[Round]:
    """The time of one answer."""
    model_round, began = Round(), time.monotonic()
    try:
        with tracing.child_span("model round") as span:
            yield model_round
            tracing.note_outcome(span, model_round.ending)
    finally:
        measures.MODEL_ROUNDS.labels(word("ending", model_round.ending)).inc()
        measures.MODEL_TIME.observe(time.monotonic() - began)


def model_used(sent: int, cached: int, answered: int, cost_usd: float | None) -> None:
    """What one answer took; `cached` of what was sent."""
    for kind, tokens in (("input", sent), ("cached", cached), ("output", answered)):
        # A counter raises for a negative amount.
        measures.MODEL_TOKENS.labels(kind).inc(max(0, tokens))
    if cost_usd is not None:
        measures.MODEL_COST.inc(max(0.0, cost_usd))
