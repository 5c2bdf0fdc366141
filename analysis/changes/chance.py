"""How often a service is changed anyway: that a change came just before proves nothing by itself.

Of a service that is deployed every half hour there is always a deploy near any onset.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from analysis.case.folder import Case
from analysis.changes.shipping import Shipped

LEAST_HISTORY_MIN = 120.0
"""Of a shorter past nothing can be said of how often changes come."""
FALLS_OFF_MIN = 43.0
"""Mean minutes between a guilty change and its sudden onset: a half-life of half an hour."""
GUILTY = 0.5
"""Where a service is the cause and one of its changes is near, before anything else is known: in
half of all incidents a change did it (our choice; published post-mortems say 40 to 70 %)."""


@dataclass(frozen=True)
class ChangeHistory:
    """How many changes each service had, in how many minutes before the onset."""

    minutes: float
    counts: Mapping[str, int]

    def guilty(self, change: Shipped, lead_min: float) -> float:
        """In [0, 1]: how much likelier such a change is near because it did it, beside one of the
        usual that is near by chance. 1 where the past is too short to tell."""
        others = self.counts.get(change.service or "", 0) - 1
        if self.minutes < LEAST_HISTORY_MIN or others <= 0:
            return 1.0
        rate, lead = others / self.minutes, max(lead_min, 0.0)
        did_it = GUILTY * math.exp(-lead / FALLS_OFF_MIN) / FALLS_OFF_MIN
        by_chance = (1 - GUILTY) * rate * math.exp(-rate * lead)
        return did_it / (did_it + by_chance)


def change_history(case: Case, near: Collection[Shipped], onset: datetime) -> ChangeHistory:
    """From the changes table up to the onset. A change of several services counts for each."""
    before = case.changes.filter(pl.col("time") <= onset, pl.col("kind") != "merge")
    first = before["time"].min()
    if not isinstance(first, datetime):
        return ChangeHistory(0.0, {})
    minutes = (onset - first).total_seconds() / 60
    wanted = {change.service for change in near if change.service}
    services = before["service"].drop_nulls().to_list()
    return ChangeHistory(minutes, Counter(name for name in services if name in wanted))
