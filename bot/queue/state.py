"""The queue as the store has it: what waits, for how long, what runs, whose it is, and in which
order it waits.

Synchronous, each operation one read; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

from sqlalchemy import Engine, Select, and_, bindparam, func, or_, select

from faultline.bot.policy.priority import PRIORITIES, URGENT
from faultline.bot.queue.order import AGEING, WaitingInvestigation, level
from faultline.bot.store.connections import reading
from faultline.bot.store.store import Store
from faultline.bot.store.tables import InvestigationRow as Row
from faultline.bot.store.tables import ProgressRow

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
