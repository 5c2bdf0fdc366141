"""In which order what waits is taken: by urgency, which grows with waiting, then fairly between
teams, then by age.

Pure. Fair is weighted round robin on what runs: the next place goes to the team with the fewest
investigations in the workers' hands per share, so that a team with an alert or two never waits for
all of another's storm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultline.bot.policy.priority import PRIORITIES, URGENT

AGEING = timedelta(minutes=10)
"""What has waited for this long counts as one priority higher, so that nothing starves: with four
priorities the lowest is level with the most urgent after half an hour, and from then on age decides
between them. Shorter, and a burst of usual alerts that takes some minutes to work off would be
level with the high ones."""


@dataclass(frozen=True)
class WaitingInvestigation:
    """An accepted investigation that no worker has been given yet."""

    id: str
    priority: int
    team: str
    accepted_at: datetime


def level(priority: int, accepted_at: datetime, now: datetime) -> int:
    """The priority that it counts as now. A clock that was set back makes nothing less urgent than
    it came."""
    return max(URGENT, priority - max(0, int((now - accepted_at) / AGEING)))


def in_order(
    waiting: Iterable[WaitingInvestigation],
    taken: Mapping[str, int],
    share: Callable[[str], float],
    now: datetime,
    *,
    most: int,
) -> list[WaitingInvestigation]:
    """The first `most` in the order in which they are to be taken; `taken` counts what each team
    has already."""
    of_team: dict[int, dict[str, list[WaitingInvestigation]]] = {
        p: defaultdict(list) for p in PRIORITIES
    }
    # Latest first, so that `pop` takes the oldest.
    for investigation in sorted(waiting, key=lambda w: (w.accepted_at, w.id), reverse=True):
        of_team[min(level(investigation.priority, investigation.accepted_at, now), PRIORITIES[-1])][
            investigation.team
        ].append(investigation)
    count, chosen = Counter(taken), list[WaitingInvestigation]()
    for queues in of_team.values():
        while queues and len(chosen) < most:
            # Of teams with an equal share in use, the one that waited longest is next.
            team = min(queues, key=lambda t: (count[t] / share(t), queues[t][-1].accepted_at, t))
            chosen.append(queues[team].pop())
            count[team] += 1
            if not queues[team]:
                del queues[team]
    return chosen
