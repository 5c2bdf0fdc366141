"""Who calls whom, as investigations learned it, until retention deletes it.

A call is kept for the environment, cluster and region of the alert in whose investigation it was
seen. Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Engine, delete, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from faultline.bot.store.call_tables import LearnedCallRow
from faultline.bot.store.memory import storable
from faultline.bot.store.visibility import ALL, Visibility

MOST_LEARNED = 5_000
"""Of one investigation."""
MAX_ROWS = 50_000
"""Names come from telemetry, which anyone who writes spans can fill: beyond this the calls that
were not seen for longest go."""
MAX_CALLS = 5_000
LONGEST_NAME = 253
"""Of a host name (RFC 1035)."""
AT_ONCE = 500
"""Rows of one statement: SQLite takes 32,766 values."""


@dataclass(frozen=True)
class LearnedCall:
    """What one source says about a call. `place` holds environment, cluster and region where they
    are known. `team` is empty for an alert of no team."""

    caller: str
    callee: str
    source: str
    last_seen: datetime
    investigation_id: str
    place: Mapping[str, str] = field(default_factory=dict)
    team: str = ""


class LearnedCalls:
    """All of them that can be seen, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, visibility: Visibility = ALL) -> None:
        self._engine = engine
        self._visibility = visibility

    def learn(self, calls: Iterable[LearnedCall]) -> None:
        """Keep what was seen, the first `MOST_LEARNED` of it; of a call that is known, the latest
        time it was seen."""
        rows: dict[str, dict[str, Any]] = {}
        for call in calls:
            row = _values(call)
            before = rows.get(row["id"])
            if before is None or before["last_seen"] < row["last_seen"]:
                rows[row["id"]] = row
            if len(rows) >= MOST_LEARNED:
                break
        # Workers that write the same rows in another order would wait for each other forever.
        ordered = [rows[name] for name in sorted(rows)]
        with Session(self._engine) as session, session.begin():
            for batch in _batches(ordered):
                self._write(session, batch)
            _forget_oldest(session)

    def of_place(
        self, place: Mapping[str, str], *, since: datetime, service: str | None = None
    ) -> Sequence[LearnedCall]:
        """What is known of that place, seen since then, the latest first; only calls from or to one
        service if given.

        Both must say the same environment, or none: a call seen in staging says nothing about
        production. Cluster and region may differ only where one of both does not say.
        """
        row = LearnedCallRow
        query = select(row).where(row.last_seen >= since, *self._in_place(place))
        if service is not None:
            query = query.where(or_(row.caller == service, row.callee == service))
        return self._read(query.order_by(row.last_seen.desc(), row.id).limit(MAX_CALLS))

    def everywhere(self, *, service: str | None = None) -> Sequence[LearnedCall]:
        """What is known of all places, by name."""
        row = LearnedCallRow
        query = select(row).where(*self._visible())
        if service is not None:
            query = query.where(or_(row.caller == service, row.callee == service))
        return self._read(query.order_by(row.caller, row.callee, row.id).limit(MAX_CALLS))

    def _read(self, query: Any) -> list[LearnedCall]:
        with Session(self._engine) as session:
            return [_call(row) for row in session.scalars(query)]

    def _in_place(self, place: Mapping[str, str]) -> list[ColumnElement[bool]]:
        row, requested_place = LearnedCallRow, _place(place)
        conditions = [row.environment == requested_place["environment"], *self._visible()]
        if requested_place["cluster"]:
            # An empty name is one that the alert did not give.
            conditions.append(row.cluster.in_(["", requested_place["cluster"]]))
        if requested_place["region"]:
            conditions.append(row.region.in_(["", requested_place["region"]]))
        return conditions

    def _visible(self) -> list[ColumnElement[bool]]:
        teams = self._visibility.teams
        if teams is None:
            return []
        return [LearnedCallRow.team.in_(["", *sorted(teams)])]

    def _write(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
        is_postgres = self._engine.dialect.name == "postgresql"
        insert = (postgresql.insert if is_postgres else sqlite.insert)(LearnedCallRow)
        new = insert.excluded
        update = {"last_seen": new.last_seen, "investigation_id": new.investigation_id}
        is_later = LearnedCallRow.last_seen <= new.last_seen
        session.execute(
            insert.values(rows).on_conflict_do_update(
                index_elements=["id"], set_=update, where=is_later
            )
        )


def _batches(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    for first in range(0, len(rows), AT_ONCE):
        yield rows[first : first + AT_ONCE]


def _forget_oldest(session: Session) -> None:
    row = LearnedCallRow
    count = session.scalar(select(func.count()).select_from(row)) or 0
    if count > MAX_ROWS:
        oldest = select(row.id).order_by(row.last_seen, row.id).limit(count - MAX_ROWS)
        session.execute(delete(row).where(row.id.in_(oldest)))


def _place(place: Mapping[str, str]) -> dict[str, str]:
    kinds = ("environment", "cluster", "region")
    return {kind: storable(place.get(kind, ""), LONGEST_NAME) for kind in kinds}


def _values(call: LearnedCall) -> dict[str, Any]:
    key = {
        "team": storable(call.team, LONGEST_NAME),
        **_place(call.place),
        "caller": storable(call.caller, LONGEST_NAME),
        "callee": storable(call.callee, LONGEST_NAME),
        "source": storable(call.source, LONGEST_NAME),
    }
    # No name holds a NUL (`storable`), so different names never join to the same text.
    joined = "\x00".join(key.values()).encode()
    sighting = {"last_seen": call.last_seen, "investigation_id": call.investigation_id}
    return {"id": hashlib.sha256(joined).hexdigest(), **key, **sighting}


def _call(row: LearnedCallRow) -> LearnedCall:
    place = {"environment": row.environment, "cluster": row.cluster, "region": row.region}
    return LearnedCall(
        row.caller,
        row.callee,
        row.source,
        row.last_seen,
        row.investigation_id,
        {kind: value for kind, value in place.items() if value},
        row.team,
    )
