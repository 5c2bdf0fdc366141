"""Checks of deploys: taken once, looked at by one worker at a time.

Synchronous, each operation one transaction; callers on an event loop use `in_store`. Whoever claims
a check has it for `LEASE`: a worker that dies loses it to another, which looks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.analysis.secrets.redaction import masked_value
from faultline.bot.store.deploy_tables import DeployCheckRow
from faultline.bot.store.sessions import reading

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
