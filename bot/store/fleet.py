"""The fleet's memory: which machines took part in the training jobs that were investigated, and
which of them the answers blamed.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from sqlalchemy import ColumnElement, Engine, delete, func, select
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import HostIncident, HostRecord
from faultline.analysis.training.fleet_parts import (
    MIN_BLAMED,
    BlamedPart,
    by_chance,
    is_repeated,
    majority_part,
)
from faultline.bot.store.connections import storable
from faultline.bot.store.listing import Labels
from faultline.bot.store.tables import FleetHostRow
from faultline.bot.store.visibility import ALL, Visibility

MOST_BLAMES = 5_000
"""The newest that are looked at."""
MOST_RECORDS = 50
MAX_INCIDENTS = 5
"""Incidents that a record names."""
LONGEST_NAME = 253
AT_ONCE = 500
"""Values of one statement: SQLite takes 32,766."""

Occasion = tuple[str, date]
"""A job and a day: several alerts about a job in one day have one cause as a rule, so a machine is
blamed once in them."""


@dataclass
class _Occasion:
    """What the investigations of one job and day say together."""

    blamed: set[str] = field(default_factory=set)
    hosts: int = 1

    @property
    def chance(self) -> float:
        """That one of its machines is blamed, if they are all alike."""
        return len(self.blamed) / self.hosts


class FleetMemory:
    """All that can be seen, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, visibility: Visibility = ALL) -> None:
        self._engine = engine
        self._visibility = visibility

    def remember(
        self,
        investigation_id: str,
        *,
        at: datetime,
        job: str,
        hosts: Iterable[str],
        blamed: Iterable[BlamedPart],
    ) -> None:
        """Keep the machines of an investigation; once more replaces what was kept."""
        by_host = {part.host: part for part in blamed}
        rows = []
        # An answer may blame a machine that the list of machines lacks.
        for host in dict.fromkeys([*hosts, *by_host]):
            part = by_host.get(host)
            rows.append(
                FleetHostRow(
                    investigation_id=investigation_id,
                    host=storable(host, LONGEST_NAME),
                    at=at,
                    job=storable(job, LONGEST_NAME),
                    fault=storable(part.fault, LONGEST_NAME) if part else "",
                    part=storable(part.part, LONGEST_NAME) if part else "",
                )
            )
        with Session(self._engine) as session, session.begin():
            mine = FleetHostRow.investigation_id == investigation_id
            session.execute(delete(FleetHostRow).where(mine))
            session.add_all(rows)

    def records(
        self, *, since: datetime, before: datetime, without: Collection[str] = ()
    ) -> tuple[HostRecord, ...]:
        """The machines that were blamed at least twice, in the incidents of that time: the least
        likely by chance first. `without` are investigations that do not count."""
        between = [FleetHostRow.at >= since, FleetHostRow.at < before]
        blames = self._blames(between, set(without))
        by_host: dict[str, dict[Occasion, FleetHostRow]] = defaultdict(dict)
        occasions: dict[Occasion, _Occasion] = defaultdict(_Occasion)
        for row in blames:
            # Rows come newest first, so the latest blame of an occasion stays.
            by_host[row.host].setdefault(_occasion(row), row)
            occasions[_occasion(row)].blamed.add(row.host)
        often = [host for host, host_rows in by_host.items() if len(host_rows) >= MIN_BLAMED]
        # By name as well, so that every run keeps the same machines.
        often.sort(key=lambda host: (-len(by_host[host]), host))
        often = often[:MOST_RECORDS]
        took_part = self._took_part(often, between, set(without), occasions)
        records = []
        for host in often:
            host_rows = list(by_host[host].values())
            there = took_part[host]
            chances = [occasions[occasion].chance for occasion in there]
            records.append(_record(host, host_rows, len(there), by_chance(len(host_rows), chances)))
        return tuple(sorted(records, key=lambda record: (record.by_chance, record.host)))

    def investigations(self, *, since: datetime, before: datetime) -> frozenset[str]:
        """The ids of those that the records of this time come from."""
        between = (FleetHostRow.at >= since, FleetHostRow.at < before)
        query = select(FleetHostRow.investigation_id).distinct().where(*between, *self._visible())
        with self._read() as session:
            return frozenset(session.scalars(query))

    def suspicious(
        self, *, since: datetime, before: datetime, without: Collection[str] = ()
    ) -> tuple[HostRecord, ...]:
        """Those that were blamed more often than chance would have it, of all that are known.
        `without` are investigations that do not count."""
        with self._read() as session:
            between = (FleetHostRow.at >= since, FleetHostRow.at < before)
            counted = select(func.count(FleetHostRow.host.distinct())).where(
                *between, *self._visible()
            )
            host_count = session.scalar(counted) or 0
        records = self.records(since=since, before=before, without=without)
        return tuple(
            record for record in records if is_repeated(record.blamed, record.by_chance, host_count)
        )

    def _blames(
        self, between: Sequence[ColumnElement[bool]], without: set[str]
    ) -> list[FleetHostRow]:
        """The newest blames, but for those of answers that people called wrong."""
        query = select(FleetHostRow).where(FleetHostRow.fault != "", *between, *self._visible())
        query = query.order_by(FleetHostRow.at.desc(), FleetHostRow.investigation_id)
        with self._read() as session:
            rows = list(session.scalars(query.limit(MOST_BLAMES)))
        ids = [row.investigation_id for row in rows]
        for batch in _batches(ids):
            judged = Labels(self._engine, self._visibility).of(batch)
            without |= {name for name, label in judged.items() if not label.right}
        return [row for row in rows if row.investigation_id not in without]

    def _took_part(
        self,
        hosts: Sequence[str],
        between: Sequence[ColumnElement[bool]],
        without: set[str],
        occasions: dict[Occasion, _Occasion],
    ) -> Mapping[str, set[Occasion]]:
        """The occasions of each of these machines; fills in how many machines each had."""
        parts: dict[str, set[Occasion]] = defaultdict(set)
        sizes: dict[str, Occasion] = {}
        if not hosts:
            return parts
        query = select(FleetHostRow).where(FleetHostRow.host.in_(hosts), *between, *self._visible())
        with self._read() as session:
            for row in session.scalars(query):
                if row.investigation_id not in without:
                    parts[row.host].add(_occasion(row))
                    sizes[row.investigation_id] = _occasion(row)
            for batch in _batches(list(sizes)):
                counted = (
                    select(FleetHostRow.investigation_id, func.count())
                    .where(FleetHostRow.investigation_id.in_(batch))
                    .group_by(FleetHostRow.investigation_id)
                )
                for name, count in session.execute(counted):
                    occasion = occasions[sizes[name]]
                    # Investigations of one occasion may have seen different parts of the job.
                    occasion.hosts = max(occasion.hosts, count)
        return parts

    def _visible(self) -> list[ColumnElement[bool]]:
        """The condition on rows; nothing where all are seen."""
        if self._visibility.is_all:
            return []
        return [FleetHostRow.investigation_id.in_(self._visibility.ids())]

    def _read(self) -> Session:
        reading = self._engine.execution_options(reads_only=True)
        return Session(reading, expire_on_commit=False)


def _occasion(row: FleetHostRow) -> Occasion:
    return row.job, row.at.date()


def _record(
    host: str, host_rows: Sequence[FleetHostRow], took_part: int, probability: float
) -> HostRecord:
    newest = sorted(host_rows, key=lambda row: (row.at, row.investigation_id), reverse=True)
    host_incidents = []
    for row in newest[:MAX_INCIDENTS]:
        host_incidents.append(
            HostIncident(
                id=row.investigation_id, at=row.at, job=row.job, fault=row.fault, part=row.part
            )
        )
    return HostRecord(
        host=host,
        took_part=max(took_part, len(host_rows)),
        blamed=len(host_rows),
        by_chance=probability,
        part=majority_part(row.part for row in host_rows),
        incidents=tuple(host_incidents),
    )


def _batches(names: Sequence[str]) -> Iterable[Sequence[str]]:
    for start in range(0, len(names), AT_ONCE):
        yield names[start : start + AT_ONCE]
