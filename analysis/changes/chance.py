"""How often a service is changed anyway: that a change came just before proves nothing by itself.

Of a service that is deployed every half hour there is always a deploy near any onset.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.changes.shipping import Shipped

LEAST_HISTORY_MIN = 120.0
"""Of a shorter past nothing can be said of how often changes come."""
FALLS_OFF_MIN = 43.0
"""Mean minutes between a guilty change and its sudden onset: a half-life of half an hour."""
RECENT = timedelta(days=2)
"""Most sources tell of changes since a day before the baseline. What is older stems from the few
that keep more, as Kubernetes keeps ten revisions, and says nothing about the others' services."""
GUILTY = 0.5
"""Where a service is the cause and one of its changes is near, before anything else is known: in
half of all incidents a change did it (our choice; published post-mortems say 40 to 70 %)."""


@dataclass(frozen=True)
class ChangeHistory:
    """How many changes each service had, in how many minutes before the onset."""

    minutes: float
    counts: Mapping[str, int]
    long_rates: Mapping[str, float] = field(default_factory=dict)
    """Changes a minute of those services whose history is longer than `RECENT`."""

    def guilty(self, change: Shipped, ahead_min: float) -> float:
        """In [0, 1]: how much likelier such a change is near because it did it, beside one of the
        usual that is near by chance. 1 where the past is too short to tell."""
        rate, ahead = self._rate(change.service or ""), max(ahead_min, 0.0)
        if rate <= 0:
            return 1.0
        # Probability densities of the delay: for a guilty change, and at the usual rate.
        did_it = GUILTY * math.exp(-ahead / FALLS_OFF_MIN) / FALLS_OFF_MIN
        by_chance = (1 - GUILTY) * rate * math.exp(-rate * ahead)
        return did_it / (did_it + by_chance)

    def _rate(self, service: str) -> float:
        """Changes a minute beside the one that is weighed. A service that is changed more often now
        than it used to be has the rate of now."""
        rate = self.long_rates.get(service, 0.0)
        other_changes = self.counts.get(service, 0) - 1
        if self.minutes >= LEAST_HISTORY_MIN:
            rate = max(rate, other_changes / self.minutes)
        return rate


def change_history(case: Case, near: Collection[Shipped], onset: datetime) -> ChangeHistory:
    """From the changes table up to the onset. A change of several services counts for each."""
    requested_services = [change.service for change in near if change.service]
    # A merge reaches production with a deploy, which is counted itself.
    before = case.changes.filter(pl.col("time") <= onset, pl.col("kind") != "merge")
    recent = before.filter(pl.col("time") >= onset - RECENT)
    first = recent["time"].min()
    minutes, counts = 0.0, Counter[str]()
    if isinstance(first, datetime):
        minutes = (onset - first).total_seconds() / 60
        services = recent.filter(pl.col("service").is_in(requested_services))["service"]
        counts.update(services.to_list())
    changes = before.filter(pl.col("service").is_in(requested_services))
    return ChangeHistory(minutes, counts, _long_rates(changes, onset))


def _long_rates(changes: pl.DataFrame, onset: datetime) -> dict[str, float]:
    rates = {}
    spans = changes.group_by("service").agg(pl.col("time").min(), pl.len().alias("count"))
    for service, first, count in spans.iter_rows():
        # The first one begins the span, so it is not counted in it.
        if first < onset - RECENT:
            rates[service] = (count - 1) / ((onset - first).total_seconds() / 60)
    return rates
