"""How sure the answer is: the chance that the first cause is right, learned from graded answers.

A logistic model of a few facts about the ranking, fitted by `benchmarks/confidence_calibration.py`
on labelled cases, whole and with part of their evidence taken away, so that it has seen wrong
answers too. Later causes share the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LOWEST, HIGHEST = 0.05, 0.95
"""No answer is certain, and none that is given is impossible."""
GAP_IN_METRICS = 0.5
"""Never more than this when the metrics, which would confirm or refute, could not be collected."""
SYMPTOMS_ONLY, SYMPTOMS_GONE = 0.6, 0.35
"""Nor than this when only the alerting service's own symptoms were seen, still there or gone: the
cause may be out of sight (our choice)."""


@dataclass(frozen=True)
class FirstSuspectStanding:
    """How the first suspect stands among the others."""

    lead: float
    """By how much its score leads the second one's, as a share of its own, in [0, 1]."""
    share: float
    """Its share of all suspects' scores, in [0, 1]."""
    victims: int
    """Other suspects whose symptoms it explains."""
    symptoms_only: bool = False
    """It shows what the alert says already, and nothing that would tell why."""
    gone: bool = False
    """All that speaks for it is back to its baseline."""


INTERCEPT, LEAD, SHARE, VICTIMS = -0.62, 2.66, 1.58, 1.83
"""Of the logistic model. The score itself is left out: its level differs between systems, its lead
carries over."""


def confidence_of(standing: FirstSuspectStanding, *, metrics_missing: bool = False) -> float:
    """The chance in [0.05, 0.95] that the first cause is the right one."""
    logit = (
        INTERCEPT
        + LEAD * standing.lead
        + SHARE * standing.share
        + VICTIMS * math.log1p(standing.victims)
    )
    chance = min(HIGHEST, max(LOWEST, 1.0 / (1.0 + math.exp(-logit))))
    if standing.symptoms_only:
        chance = min(chance, SYMPTOMS_GONE if standing.gone else SYMPTOMS_ONLY)
    return round(min(chance, GAP_IN_METRICS) if metrics_missing else chance, 3)


def confidences(scores: Sequence[float], first: float) -> list[float]:
    """Of all causes in order: the first as given, the others share what is left of 1 by their
    scores."""
    others = sum(scores[1:])
    shares = [first]
    for score in scores[1:]:
        share = (1.0 - first) * score / others if others > 0 else 0.0
        shares.append(round(min(share, shares[-1]), 3))
    return shares[: len(scores)]
