"""A deploy that is to be watched: what may be asked, and when it is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from pydantic import Field

from faultline.analysis.deploys.looks import SHORTEST, Look, looks_left, looks_of
from faultline.analysis.errors import SettingsError
from faultline.analysis.kinds.part_labels import PART_LABELS
from faultline.analysis.vocabulary import Frozen, UtcTime

WAIT, WARM_UP, BASELINE = timedelta(minutes=15), timedelta(minutes=2), timedelta(hours=6)
LONGEST_WAIT, LONGEST_BASELINE = timedelta(hours=24), timedelta(days=7)
SETTLES = timedelta(seconds=20)
"""After a look's end, until its last points can be read: a scrape and the store behind it."""
OLDEST = timedelta(days=3_660)
SHORT = timedelta(minutes=1)


class DeployToCheck(Frozen):
    """One deploy, and how it is looked at."""

    service: str
    deployed_at: UtcTime
    wait: timedelta = WAIT
    warm_up: timedelta = WARM_UP
    baseline: timedelta = BASELINE
    parts: Mapping[str, str] = Field(default_factory=dict)
    """The parts that got the deploy, by kind."""
    places: Mapping[str, str] = Field(default_factory=dict)
    """Where it is, by label: only sources that cover it are asked."""

    def checked(self, now: datetime) -> DeployToCheck:
        """Itself. Raises SettingsError for what cannot be judged."""
        # A pipeline's clock may be slightly ahead.
        if self.deployed_at > now + SHORT:
            raise SettingsError("since", "lies in the future")
        if self.deployed_at < now - OLDEST:
            raise SettingsError("since", "lies more than ten years back")
        if not self.warm_up + SHORTEST <= self.wait <= LONGEST_WAIT:
            raise SettingsError(
                "wait", "must be at least 2 minutes longer than warm-up, and at most 24h"
            )
        for kind in self.parts:
            if kind not in PART_LABELS:
                text = ", ".join(PART_LABELS)
                raise SettingsError("canary", f"{kind[:40]!r} is none of {text}")
        if not 2 * self.wait <= self.baseline <= LONGEST_BASELINE:
            raise SettingsError("baseline", "must be at least twice as long as wait, at most 7d")
        return self

    def looks(self, now: datetime, done: int = 0) -> tuple[Look, ...]:
        """The looks that are left at `now` after the first `done`. The first of them may be due."""
        every = looks_of(self.deployed_at, self.wait, self.warm_up)
        return looks_left(every[done:], now - SETTLES)


def due_at(look: Look) -> datetime:
    """When a look can be taken."""
    return look.end + SETTLES
