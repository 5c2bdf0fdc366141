"""Changes that were reported to the bot, until retention deletes them.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from faultline.analysis.secrets.redaction import masked_value
from faultline.bot.store.change_tables import ReportedChangeRow
from faultline.bot.store.memory import storable

MOST_READ = 2_000
LONGEST_ID = 200
LONGEST_NAME = 300
LONGEST_TEXT = 2_000
LONGEST_FILES = 20_000
LONGEST_DIFF = 200_000


@dataclass(frozen=True)
class ReportedChange:
    """One change. `files` are paths, one a line; `place` holds labels such as environment."""

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

    def __post_init__(self) -> None:
        """Nothing of a change is stored before the secrets in it are masked."""
        for name in ("id", "service", "title", "author", "link", "files", "diff", "place"):
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
    )
