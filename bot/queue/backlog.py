"""What waits in the store: for how long, whose it is, in which order it is taken, and how much the
workers can take soon.

By urgency, which grows with waiting, then fairly between teams, then by age. Fair is weighted round
robin on what runs: the next place goes to the team with the fewest investigations in the workers'
hands per share, so that a team with an alert or two never waits for all of another's storm. In the
store they are ordered each time a slot is free. In the engine's queue the order is fixed, so beyond
what it may hold they wait in the store. Reads are synchronous; callers on an event loop use
`in_store`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

from sqlalchemy import Engine, Select, and_, bindparam, func, or_, select

from faultline.bot.policy.priority import PRIORITIES, URGENT
from faultline.bot.store.connections import reading
from faultline.bot.store.store import Store
from faultline.bot.store.tables import InvestigationRow as Row
from faultline.bot.store.tables import ProgressRow

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


WAITING, RUNNING = "accepted", "running"
TICK = timedelta(microseconds=1)
VENDORS_WAIT = timedelta(seconds=3)
"""Connectors answer within about a second where their vendors do; what takes longer waits for
one."""
AT_MOST = timedelta(seconds=10)
"""A usual investigation is answered within two or three seconds; what takes longer must not keep
others waiting."""
ASSEMBLED = "memory"
"""The line of progress that stands once all connectors have answered."""
NOT_DISPATCHED = Row.dispatched_at.is_(None)


@dataclass(frozen=True)
class TeamQueue:
    """One team's part of it."""

    waiting: int = 0
    running: int = 0


@dataclass(frozen=True)
class QueueState:
    """Accepted investigations that no worker has begun, the age of the oldest in seconds (0 where
    none waits), and those that run; the same by team, "" being what belongs to none."""

    waiting: int = 0
    oldest_s: float = 0.0
    running: int = 0
    by_team: Mapping[str, TeamQueue] = field(default_factory=dict)


def queue_state(store: Store, now: datetime | None = None) -> QueueState:
    """The queue at this moment."""
    now = now or datetime.now(UTC)
    query = (
        select(Row.status, Row.team, func.count(), func.min(Row.accepted_at))
        .where(Row.status.in_((WAITING, RUNNING)))
        .group_by(Row.status, Row.team)
    )
    with reading(store.engine) as session:
        rows = session.execute(query).all()
    counts = Counter({(status, team): number for status, team, number, _ in rows})
    teams = sorted({team for _, team, _, _ in rows})
    oldest = min((at for status, _, _, at in rows if status == WAITING), default=now)
    return QueueState(
        waiting=sum(n for (status, _), n in counts.items() if status == WAITING),
        oldest_s=max(0.0, (now - oldest).total_seconds()),
        running=sum(n for (status, _), n in counts.items() if status == RUNNING),
        by_team={t: TeamQueue(counts[WAITING, t], counts[RUNNING, t]) for t in teams},
    )


def ahead_of(store: Store, investigation_id: str, now: datetime | None = None) -> int | None:
    """How many wait before this one, by urgency and age. An estimate if teams share the workers.
    None when it no longer waits."""
    now = now or datetime.now(UTC)
    with reading(store.engine) as session:
        row = session.get(Row, investigation_id)
        if row is None or row.status != WAITING:
            return None
        if row.dispatched_at is not None:
            before = [and_(Row.dispatched_at.is_not(None), Row.dispatched_at < row.dispatched_at)]
        else:
            # For each priority: what was accepted before a certain moment is before `row`.
            urgency, conditions = level(row.priority, row.accepted_at, now), []
            for priority in PRIORITIES:
                until = min(
                    row.accepted_at, now - max(0, priority - urgency) * AGEING + TICK
                )  # as urgent by now, and older
                if urgency > URGENT:
                    until = max(
                        until, now - (priority - urgency + 1) * AGEING + TICK
                    )  # more urgent by now
                if priority < urgency:
                    until = now
                conditions.append(
                    and_(Row.priority == priority, NOT_DISPATCHED, Row.accepted_at < until)
                )
            before = [Row.dispatched_at.is_not(None), *conditions]
        query = select(func.count()).select_from(Row).where(Row.status == WAITING, or_(*before))
        return session.scalar(query) or 0


def any_waiting(engine: Engine) -> bool:
    """Whether anything waits in the store for the engine to have room."""
    with reading(engine) as session:
        return session.scalar(select(Row.id).where(NOT_DISPATCHED).limit(1)) is not None


def next_per_team(engine: Engine, most: int) -> Sequence[WaitingInvestigation]:
    """Of each team and priority the `most` that have waited longest: among these are the next
    `most` of all."""
    place = func.row_number().over(
        partition_by=(Row.priority, Row.team), order_by=(Row.accepted_at, Row.id)
    )
    ranked = select(Row.id, Row.priority, Row.team, Row.accepted_at, place.label("place")).where(
        NOT_DISPATCHED
    )
    inner = ranked.subquery()
    query = select(inner.c.id, inner.c.priority, inner.c.team, inner.c.accepted_at).where(
        inner.c.place <= most
    )
    with reading(engine) as session:
        return [WaitingInvestigation(*row) for row in session.execute(query)]


def taken_by_team(engine: Engine, ids: Sequence[str]) -> Counter[str]:
    """Whose these investigations are."""
    query = select(Row.team, func.count()).where(Row.id.in_(ids)).group_by(Row.team)
    with reading(engine) as session:
        return Counter({row[0]: row[1] for row in session.execute(query)})


def busy(engine: Engine, ids: Sequence[str], now: datetime) -> int:
    """How many of these use the worker's own time, or will at once: not those that have waited for
    their connectors for `VENDORS_WAIT`, and none that runs for longer than `AT_MOST`: a model, a
    capture, a large trace."""
    count = 0
    with reading(engine) as session:
        for started_at, collected in session.execute(_progressed(), {"ids": list(ids)}):
            # The clocks of two hosts may differ.
            age = abs(now - started_at) if started_at is not None else timedelta(0)
            count += age < (AT_MOST if collected else VENDORS_WAIT)
    return count


@cache
def _progressed() -> Select[datetime | None, bool]:
    line = select(ProgressRow.id).where(
        ProgressRow.investigation_id == Row.id, ProgressRow.stage == ASSEMBLED
    )
    return select(Row.started_at, line.exists()).where(Row.id.in_(bindparam("ids", expanding=True)))


URGENT_PART = 4
"""One place for urgent investigations beside each four usual ones of a worker: with the default of
8 they have 2 extra slots, which no long investigation occupies."""
PREFETCH_PART = 8
"""For each eight places of a worker one investigation more is queued, so that a place that becomes
free is filled at the queue's next look: a look each quarter of a second, and some seconds for an
investigation, need about one for eight. More would wait in the queue's fixed order, behind which
another team's alert waits too."""
MORE_THAN_CORES = 2
"""A worker starts this many more investigations at once than it has cores. Each needs about a
second of one core and waits for vendors about as long. More of them would only share the cores, so
that all are answered late, and another team's alert behind them too. Those that wait for something
outside do not count."""


def urgent_concurrency(concurrency: int) -> int:
    """Urgent investigations at once in one worker, beside `concurrency` others."""
    return max(1, concurrency // URGENT_PART)


@dataclass(frozen=True)
class Capacity:
    """Free places: on the urgent queue, and on the usual one."""

    urgent: int
    usual: int

    @classmethod
    def of(
        cls,
        *,
        concurrency: int,
        workers: int,
        urgent_taken: int,
        usual_taken: int,
        usual_busy: int,
        cores: int,
    ) -> Capacity:
        """Of `workers` living workers, each on `cores`, given those queued or running already.

        `usual_busy` are those of `usual_taken` that do not wait for something outside.
        """
        prefetch = max(1, concurrency // PREFETCH_PART)
        free = workers * (concurrency + prefetch) - usual_taken
        unused = workers * (cores + MORE_THAN_CORES + prefetch) - usual_busy
        urgent = workers * urgent_concurrency(concurrency) - urgent_taken
        return cls(urgent=max(0, urgent), usual=max(0, min(free, unused)))

    @property
    def any(self) -> bool:
        """Whether there is a free place at all."""
        return self.urgent > 0 or self.usual > 0
