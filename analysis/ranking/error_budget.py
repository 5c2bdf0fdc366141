"""How fast a failing share of requests uses up an error budget.

Burn rate as in the Google SRE Workbook, chapter 5, "Alerting on SLOs": the error rate divided by
what the objective allows; at a rate of 1 the budget lasts exactly the SLO's period. No objective is
assumed: the alert has to name it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from faultline.analysis.vocabulary import Alert
from faultline.analysis.wording.phrases import number, rounded

OBJECTIVE_LABELS = ("slo_objective", "slo_target", "objective", "slo")
"""Labels whose value may be the objective. Of many tools (Sloth, Pyrra) `slo` is a name: then it is
no number."""
PERIOD_DAYS = 30.0
"""The workbook's period; an alert may say another one in `slo_period` or `slo_window`, as `28d`."""
PERIOD_LABELS = ("slo_period", "slo_window")
LEAST_BURN = 1.0
"""At a lower rate the budget lasts its period, so it is not mentioned."""


@dataclass(frozen=True)
class ErrorBudget:
    """`objective` as a share; at `burn_rate` times too fast the whole budget of `days` lasts
    `hours`."""

    objective: float
    burn_rate: float
    hours: float
    days: float

    @property
    def sentence(self) -> str:
        """Half a sentence, its numbers as in `numbers`."""
        n = self.numbers
        objective, days = number(n["objective_percent"], 6), number(n["budget_days"])
        phrase = (
            f"the error budget of {objective} % burns {number(n['burn_rate'], 2)} times too fast: "
        )
        return phrase + f"{days} days of it last about {number(n['budget_hours'], 2)} h"

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers as they are quoted."""
        return {
            "objective_percent": rounded(100 * self.objective, 6),
            "burn_rate": rounded(self.burn_rate, 2),
            "budget_days": rounded(self.days),
            "budget_hours": rounded(self.hours, 2),
        }


def error_budget(alert: Alert, failing_share: float) -> ErrorBudget | None:
    """The budget at this share of failing requests; None without an objective, or where it lasts
    its period."""
    objective = objective_of(alert.labels)
    if objective is None or not 0 < failing_share <= 1:
        return None
    burn = failing_share / (1 - objective)
    days = _period_days(alert.labels)
    return ErrorBudget(objective, burn, 24 * days / burn, days) if burn > LEAST_BURN else None


def objective_of(labels: Mapping[str, str]) -> float | None:
    """The objective as a share in (0.5, 1), given as `99.9`, `99.9%` or `0.999`."""
    for name in OBJECTIVE_LABELS:
        value = _number(labels.get(name, "").strip().removesuffix("%"))
        if value is not None and 50 < value < 100:
            return value / 100
        # Require more than one half: a smaller number is a share of errors, or something else.
        if value is not None and 0.5 < value < 1:
            return value
    return None


def _period_days(labels: Mapping[str, str]) -> float:
    for name in PERIOD_LABELS:
        label = labels.get(name, "").strip().lower()
        value = _number(label[:-1]) if label.endswith(("d", "w", "h")) else None
        if value is not None and value > 0:
            days = value * {"d": 1.0, "w": 7.0, "h": 1 / 24}[label[-1]]
            if 1 <= days <= 366:
                return days
    return PERIOD_DAYS


def _number(text: str) -> float | None:
    try:
        # Labels are foreign text: read no number of arbitrary length.
        value = float(text) if len(text) <= 20 else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
