"""What is asked about a deploy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

# When a deploy is looked at while the time runs, and how much of the allowed false alarms each look
# may spend.
#
# By the union bound the shares of all looks add up to the stated rate, however the looks depend on
# each other (Lan and DeMets 1983 spend alike, in proportion to the time that has passed).

MOST_LOOKS = 5
SHORTEST = timedelta(minutes=2)
"""A window of less holds too few points of usual scrape intervals (15 to 60 s)."""


@dataclass(frozen=True)
class Look:
    """One look of several, when the window from `start` to `end` is judged."""

    number: int
    of: int
    start: datetime
    end: datetime
    spends: float
    """The share of the false alarms that it may spend."""

    @property
    def last_third(self) -> datetime:
        """Where its last third begins."""
        return self.end - (self.end - self.start) / 3

    @property
    def is_last(self) -> bool:
        return self.number == self.of


def looks_of(deployed_at: datetime, wait: timedelta, warm_up: timedelta) -> tuple[Look, ...]:
    """The looks at a deploy that is watched for `wait`; the first `warm_up` of it is left out."""
    start, judged = deployed_at + warm_up, wait - warm_up
    count = max(1, min(MOST_LOOKS, judged // SHORTEST))
    return tuple(
        Look(n, count, start, start + judged * n / count, 1 / count) for n in range(1, count + 1)
    )


def looks_left(looks: Sequence[Look], now: datetime) -> tuple[Look, ...]:
    """The looks that make sense at `now`: of those whose time is over only the last, which spends
    what they did not, and all that are to come."""
    over = [look for look in looks if look.end <= now]
    if not over:
        return tuple(looks)
    spends = sum(look.spends for look in over)
    return replace(over[-1], spends=spends), *looks[len(over) :]


@dataclass(frozen=True)
class DeployQuestion:
    """One deploy, and the look at it."""

    service: str
    deployed_at: datetime
    look: Look
    parts: Mapping[str, str] = field(default_factory=dict)
    """The parts that got the deploy, by kind: `{"cluster": "eu-1"}`. Unset: whatever is new."""
