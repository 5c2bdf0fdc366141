"""Memory: investigations that ended with an answer, found again by their alert, their services or
their words; and who calls whom, as investigations learned it, until retention deletes it.

A call is kept for the environment, cluster and region of the alert in whose investigation it was
seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Engine, Select, delete, false, func, or_, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import EarlierInvestigation
from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.words import search_words, words_of
from faultline.bot.store.connections import reading, storable
from faultline.bot.store.tables import LearnedCallRow, RememberedRow, RememberedServiceRow
from faultline.bot.store.visibility import ALL, Visibility

MAX_SERVICES = 50
READ_FOR_LIKENESS = 300
"""How many of the newest investigations that share any word with an alert are compared by counting
words."""
ALIKE = 0.5
"""Share of an alert's words that one of like words has."""


class Memory:
    """All remembered investigations that can be seen, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, visibility: Visibility = ALL) -> None:
        self._engine = engine
        self._visibility = visibility

    def remember(self, investigation: EarlierInvestigation, alert: Alert) -> None:
        """Keep it; once more replaces what was kept. The investigation itself must be in the
        store."""
        # A judgement may change later, and is kept apart (`Labels`).
        document = investigation.model_copy(update={"judged": None})
        services = list(
            dict.fromkeys(storable(s, 200) for s in investigation.services if s.strip())
        )[:MAX_SERVICES]
        with Session(self._engine) as session, session.begin():
            row = session.scalar(_by_id(investigation.id).with_for_update())
            if row is None:
                row = RememberedRow(investigation_id=investigation.id)
                session.add(row)
            row.at = investigation.at
            row.fingerprint = investigation.fingerprint
            row.alike = alike(alert)
            row.content = document.model_dump(mode="json", exclude_none=True)
            row.words = " ".join(_words(investigation))
            # The services' rows refer to this one.
            session.flush()
            mine = RememberedServiceRow.investigation_id == investigation.id
            session.execute(delete(RememberedServiceRow).where(mine))
            session.add_all(
                RememberedServiceRow(investigation_id=investigation.id, service=s) for s in services
            )

    def get(self, investigation_id: str) -> EarlierInvestigation | None:
        """One, or None."""
        with self._read() as session:
            row = session.scalar(_by_id(investigation_id).where(*self._visible()))
            return _remembered(row) if row else None

    def same_alert(
        self, alert: Alert, *, since: datetime, before: datetime, limit: int
    ) -> list[EarlierInvestigation]:
        """Of the same alert: its fingerprint, or its words on its service. The newest first."""
        query = self._newest(since=since, before=before, limit=limit).where(_same(alert))
        with self._read() as session:
            return [_remembered(row) for row in session.scalars(query)]

    def count_answers(self, alert: Alert, *, since: datetime, before: datetime) -> int:
        """How often the same alert was answered."""
        between = (RememberedRow.at >= since, RememberedRow.at < before)
        query = (
            select(func.count())
            .select_from(RememberedRow)
            .where(_same(alert), *between, *self._visible())
        )
        with self._read() as session:
            return session.scalar(query) or 0

    def of_services(
        self, services: Collection[str], *, since: datetime, before: datetime, limit: int
    ) -> list[EarlierInvestigation]:
        """Of any of these services. The newest first."""
        names = sorted({storable(service, 200) for service in services})[:MAX_SERVICES]
        about = select(RememberedServiceRow.investigation_id).where(
            RememberedServiceRow.service.in_(names)
        )
        query = self._newest(since=since, before=before, limit=limit)
        query = query.where(RememberedRow.investigation_id.in_(about))
        with self._read() as session:
            return [_remembered(row) for row in session.scalars(query)]

    def of_like_words(
        self, text: str, *, since: datetime, before: datetime, limit: int
    ) -> list[EarlierInvestigation]:
        """Those that hold at least half of the words of the text. The newest first."""
        words = search_words(text)
        if not words:
            return []
        # The share of words is counted here and not by the database, so bound what is read.
        query = self._newest(since=since, before=before, limit=READ_FOR_LIKENESS)
        with self._read() as session:
            rows = session.scalars(query.where(self._matches(words, every=False)))
            matching_rows = (
                row
                for row in rows
                if len(set(words) & set(row.words.split(" "))) >= ALIKE * len(words)
            )
            return [_remembered(row) for _, row in zip(range(limit), matching_rows, strict=False)]

    def _matches(self, words: Sequence[str], *, every: bool) -> ColumnElement[bool]:
        """Rows with the words, by the database's own full-text index. Words hold letters and digits
        alone."""
        if self._engine.dialect.name == "sqlite":
            # `*` here, and `:*` below, match words that begin so.
            expression = (" AND " if every else " OR ").join(
                f'"{w}"*' if every else f'"{w}"' for w in words
            )
            match = text("SELECT rowid FROM remembered_search WHERE remembered_search MATCH :words")
            return RememberedRow.id.in_(
                match.bindparams(words=expression).columns(RememberedRow.id)
            )
        expression = (" & " if every else " | ").join(
            f"'{w}':*" if every else f"'{w}'" for w in words
        )
        indexed = (
            "array_to_tsvector(string_to_array(remembered.words, ' ')) @@ CAST(:words AS tsquery)"
        )
        return text(indexed).bindparams(words=expression)  # type: ignore[return-value]

    def matching(self, text: str) -> Select[str]:
        """The ids of those that hold every word of the text, as a query; a text without any word
        finds nothing."""
        query = select(RememberedRow.investigation_id)
        words = search_words(text)
        return query.where(self._matches(words, every=True) if words else false())

    def _newest(self, *, since: datetime, before: datetime, limit: int) -> Select[RememberedRow]:
        between = (RememberedRow.at >= since, RememberedRow.at < before)
        query = select(RememberedRow).where(*between, *self._visible())
        query = query.order_by(RememberedRow.at.desc(), RememberedRow.investigation_id.desc())
        return query.limit(limit)

    def _visible(self) -> list[ColumnElement[bool]]:
        """The condition on rows; nothing where all are seen."""
        return (
            [RememberedRow.investigation_id.in_(self._visibility.ids())]
            if not self._visibility.is_all
            else []
        )

    def _read(self) -> Session:
        return reading(self._engine)


def alike(alert: Alert) -> str:
    """Equal for alerts of the same words on the same service, whatever identity their vendor gave
    each of them."""
    parts = [alert.service or "", *words_of(alert.title, alert.signal or "")]
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _words(investigation: EarlierInvestigation) -> tuple[str, ...]:
    causes = (
        part
        for c in investigation.causes
        for part in (c.subject, c.kind, *c.troubles, c.change or "", c.change_kind or "", c.summary)
    )
    texts = (
        investigation.title,
        investigation.system or "",
        investigation.verdict,
        investigation.headline,
    )
    return words_of(*texts, *investigation.services[:MAX_SERVICES], *causes)


def _by_id(investigation_id: str) -> Select[RememberedRow]:
    return select(RememberedRow).where(RememberedRow.investigation_id == investigation_id)


def _same(alert: Alert) -> ColumnElement[bool]:
    return or_(RememberedRow.fingerprint == alert.fingerprint, RememberedRow.alike == alike(alert))


def _remembered(row: RememberedRow) -> EarlierInvestigation:
    return EarlierInvestigation.model_validate(row.content)


MOST_LEARNED = 5_000
"""Of one investigation."""
MAX_CALL_ROWS = 50_000
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
    if count > MAX_CALL_ROWS:
        oldest = select(row.id).order_by(row.last_seen, row.id).limit(count - MAX_CALL_ROWS)
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
