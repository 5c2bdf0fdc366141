"""Changes that were reported to the bot, until retention deletes them; checks of deploys; and the
state of watched services.

A check is looked at by one worker at a time. Whoever claims it has it for `LEASE`: a worker that
dies loses it to another, which looks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.analysis.secrets.redaction import masked_value
from faultline.bot.store.connections import reading, storable
from faultline.bot.store.tables import DeployCheckRow, ReportedChangeRow, WatchRow

MOST_READ = 2_000
LONGEST_ID = 200
LONGEST_NAME = 300
LONGEST_TEXT = 2_000
LONGEST_FILES = 20_000
LONGEST_DIFF = 200_000


@dataclass(frozen=True)
class ReportedChange:
    """One change. `files` are paths, one a line; `place` holds labels such as environment; `before`
    and `after` are the versions, the numbers of replicas or the values."""

    id: str
    at: datetime
    service: str
    kind: str
    title: str
    author: str = ""
    link: str = ""
    files: str = ""
    diff: str = ""
    place: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    after: str = ""

    def __post_init__(self) -> None:
        """Nothing of a change is stored before the secrets in it are masked."""
        for name in self.__dataclass_fields__.keys() - {"at", "kind"}:
            # The class is frozen, and this sets a field all the same.
            object.__setattr__(self, name, masked_value(getattr(self, name)))


class ReportedChanges:
    """All of them, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def report(self, changes: Iterable[ReportedChange], *, now: datetime | None = None) -> None:
        """Keep the changes, all or none. One with a known id replaces the earlier report."""
        received = now or datetime.now(UTC)
        with Session(self._engine) as session, session.begin():
            for change in changes:
                session.merge(_row(change, received))

    def any(self) -> bool:
        """Whether there are any at all."""
        with Session(self._engine) as session:
            return session.scalar(select(ReportedChangeRow.id).limit(1)) is not None

    def between(self, start: datetime, end: datetime) -> Sequence[ReportedChange]:
        """The changes of that time, the latest `MOST_READ` of them, in the order of time."""
        row = ReportedChangeRow
        query = select(row).where(row.at >= start, row.at < end)
        query = query.order_by(row.at.desc(), row.id).limit(MOST_READ)
        with Session(self._engine) as session:
            changes = [_change(row) for row in session.scalars(query)]
        # Read from the newest because of the limit, and given in the order of time.
        return changes[::-1]


def _row(change: ReportedChange, received: datetime) -> ReportedChangeRow:
    return ReportedChangeRow(
        id=storable(change.id, LONGEST_ID),
        at=change.at,
        received_at=received,
        service=storable(change.service, LONGEST_NAME),
        kind=storable(change.kind, LONGEST_NAME),
        title=storable(change.title, LONGEST_TEXT),
        author=storable(change.author, LONGEST_NAME),
        link=storable(change.link, LONGEST_TEXT),
        files=storable(change.files, LONGEST_FILES),
        diff=storable(change.diff, LONGEST_DIFF),
        place=dict(change.place),
        before=storable(change.before, LONGEST_NAME),
        after=storable(change.after, LONGEST_NAME),
    )


def _change(row: ReportedChangeRow) -> ReportedChange:
    return ReportedChange(
        row.id,
        row.at,
        row.service,
        row.kind,
        row.title,
        row.author,
        row.link,
        row.files,
        row.diff,
        row.place,
        row.before,
        row.after,
    )


LEASE = timedelta(minutes=5)
"""Longer than any look takes: connectors end within two minutes, the statistics take seconds."""


@dataclass(frozen=True)
class StoredCheck:
    """One check, as it stands."""

    id: str
    request: Mapping[str, Any]
    team: str
    requested_by: str
    requested_at: datetime
    due_at: datetime | None
    looks_done: int
    verdict: Mapping[str, Any] | None


class DeployChecks:
    """All checks, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, check: StoredCheck) -> bool:
        """Take a check; False where one of this id was taken before."""
        try:
            with Session(self._engine) as session, session.begin():
                if session.get(DeployCheckRow, check.id) is not None:
                    return False
                session.add(
                    DeployCheckRow(
                        id=check.id,
                        asked=masked_value(dict(check.request)),
                        team=check.team,
                        asked_by=check.requested_by,
                        asked_at=check.requested_at,
                        due_at=check.due_at,
                        leased_until=None,
                        looks_done=0,
                        verdict=None,
                    )
                )
            return True
        except IntegrityError:  # another process took it at the same moment
            return False

    def get(self, check_id: str) -> StoredCheck | None:
        """One check."""
        with reading(self._engine) as session:
            row = session.get(DeployCheckRow, check_id)
            return None if row is None else _stored(row)

    def claim(self, now: datetime) -> StoredCheck | None:
        """The check that has been due for longest, which nobody else gets until `LEASE` is over."""
        row = DeployCheckRow
        free = or_(row.leased_until.is_(None), row.leased_until < now)
        with Session(self._engine) as session, session.begin():
            due = select(row.id).where(row.due_at <= now, free).order_by(row.due_at).limit(1)
            check_id = session.scalar(due)
            if check_id is None:
                return None
            # Of two that found the same row, one changes it.
            taken = update(row).where(row.id == check_id, free).values(leased_until=now + LEASE)
            if session.execute(taken).rowcount != 1:  # type: ignore[attr-defined]
                return None
            return _stored(session.get_one(row, check_id))

    def record_look(
        self,
        check_id: str,
        looks_done: int,
        verdict: Mapping[str, Any] | None,
        due_at: datetime | None,
    ) -> None:
        """Keep what a look said, and when the next one is due. A look that came late, when another
        worker had looked already, changes nothing."""
        row = DeployCheckRow
        with Session(self._engine) as session, session.begin():
            session.execute(
                update(row)
                .where(row.id == check_id, row.looks_done < looks_done)
                .values(
                    looks_done=looks_done,
                    verdict=None if verdict is None else masked_value(dict(verdict)),
                    due_at=due_at,
                    leased_until=None,
                )
            )


def _stored(row: DeployCheckRow) -> StoredCheck:
    return StoredCheck(
        id=row.id,
        request=row.asked,
        team=row.team,
        requested_by=row.asked_by,
        requested_at=row.asked_at,
        due_at=row.due_at,
        looks_done=row.looks_done,
        verdict=row.verdict,
    )


@dataclass(frozen=True)
class WatchState:
    """One watch, as it stands."""

    name: str
    due_at: datetime
    worse_in_a_row: int
    alerted: bool
    checked_at: datetime | None
    headline: str


class Watches:
    """All watches, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def keep(self, names: Collection[str], now: datetime) -> None:
        """Have a row for each of these; new ones are due at once."""
        for name in names:
            try:
                with Session(self._engine) as session, session.begin():
                    if session.get(WatchRow, name) is None:
                        session.add(_new(name, now))
            except IntegrityError:  # another worker made it at the same moment
                continue

    def states(self) -> list[WatchState]:
        """All of them, by name."""
        with reading(self._engine) as session:
            return [
                _state(row) for row in session.scalars(select(WatchRow).order_by(WatchRow.name))
            ]

    def claim(self, names: Collection[str], now: datetime) -> WatchState | None:
        """The watch of these that has been due for longest, which nobody else gets until `LEASE` is
        over."""
        row = WatchRow
        free = or_(row.leased_until.is_(None), row.leased_until < now)
        with Session(self._engine) as session, session.begin():
            due = select(row.name).where(row.due_at <= now, row.name.in_(sorted(names)), free)
            watch_name = session.scalar(due.order_by(row.due_at).limit(1))
            if watch_name is None:
                return None
            # Of two that found the same row, one changes it.
            taken = update(row).where(row.name == watch_name, row.due_at <= now, free)
            result = session.execute(taken.values(leased_until=now + LEASE))
            if result.rowcount != 1:  # type: ignore[attr-defined]
                return None
            return _state(session.get_one(row, watch_name))

    def record_look(
        self,
        before: WatchState,
        *,
        worse_in_a_row: int,
        alerted: bool,
        headline: str,
        now: datetime,
        every: timedelta,
    ) -> None:
        """Keep what a look said. One that came late, after another worker's, changes nothing."""
        row = WatchRow
        with Session(self._engine) as session, session.begin():
            session.execute(
                update(row)
                .where(row.name == before.name, row.due_at == before.due_at)
                .values(
                    due_at=now + every,
                    leased_until=None,
                    worse_in_a_row=worse_in_a_row,
                    alerted=alerted,
                    looked_at=now,
                    headline=headline,
                )
            )


def _new(name: str, now: datetime) -> WatchRow:
    return WatchRow(
        name=name,
        due_at=now,
        leased_until=None,
        worse_in_a_row=0,
        alerted=False,
        looked_at=None,
        headline="",
    )


def _state(row: WatchRow) -> WatchState:
    return WatchState(
        row.name, row.due_at, row.worse_in_a_row, row.alerted, row.looked_at, row.headline
    )
