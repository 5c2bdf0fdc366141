"""How sure the answer is: the ranking's own probability, capped where the evidence cannot carry
more.

The probability was calibrated on answers of systems that were left out of the fit, among them ones
whose cause was not to be seen (`benchmarks/suspect_weights.py`).
"""

from __future__ import annotations

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
    """How the first suspect stands."""

    probability: float
    """Beside all other suspects and what was not seen."""
    symptoms_only: bool = False
    """It shows what the alert says already, and nothing that would tell why."""
    gone: bool = False
    """All that speaks for it is back to its baseline."""


def confidence_of(standing: FirstSuspectStanding, *, metrics_missing: bool = False) -> float:
    """The chance in [0.05, 0.95] that the first cause is the right one."""
    chance = min(HIGHEST, max(LOWEST, standing.probability))
    if standing.symptoms_only:
        chance = min(chance, SYMPTOMS_GONE if standing.gone else SYMPTOMS_ONLY)
    return round(min(chance, GAP_IN_METRICS) if metrics_missing else chance, 3)
