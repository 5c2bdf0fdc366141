"""What the store knows of the alerts of one transaction, read at once: most of them are new, and
need no look each.

The transaction holds the locks of these alerts (`bot.store.incident_locks`), so that no other one
adds to it meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from bot.policy.admission import Policy
from bot.policy.values import Arrival
from bot.store.groups import Groups
from bot.store.models import DeliveryRow, InvestigationRow
from bot.store.mutes import holding
from bot.store.replays import keys_of
from bot.store.storm_tables import GroupedAlertRow, MuteRow

R = TypeVar("R", InvestigationRow, GroupedAlertRow)


class Known:
    """Deliveries by their keys; and of which fingerprints there may be an open alert, or a mute
    that holds."""

    def __init__(
        self, session: Session, arrivals: Sequence[Arrival], policy: Policy, now: datetime
    ) -> None:
        self._session = session
        keys = {key for arrival in arrivals for key in keys_of(arrival)}
        prints = {arrival.alert.fingerprint for arrival in arrivals}
        self.groups = Groups(session, policy, now, prints)
        told = select(DeliveryRow).where(
            tuple_(DeliveryRow.source, DeliveryRow.delivery_id).in_(keys)
        )
        found = session.scalars(told) if keys else ()
        self._deliveries = {(row.source, row.delivery_id): row for row in found}
        self.muted = set(
            session.scalars(
                holding(now, MuteRow.fingerprint).where(MuteRow.fingerprint.in_(prints))
            )
        )
        rows = self._locked(InvestigationRow, InvestigationRow.open_fingerprint, prints)
        self.first = {row.open_fingerprint: row for row in rows}
        """Of these alerts those that an open investigation began with, by fingerprint; locked."""
        members = self._locked(GroupedAlertRow, GroupedAlertRow.open_fingerprint, prints)
        self.joined = {row.open_fingerprint: row for row in members}
        """Those that are open and joined one; locked, as their investigations are."""
        ids = {row.investigation_id for row in members} - {row.id for row in rows}
        of = self._locked(InvestigationRow, InvestigationRow.id, ids)
        self.locked = {row.id: row for row in (*rows, *of)}
        self.open: set[str | None] = {*self.first, *self.joined}

    def _locked(self, row: type[R], column: Any, values: Collection[str]) -> Sequence[R]:
        """Rows with these values, locked in an order that is the same for everybody."""
        if not values:
            return ()
        query = select(row).where(column.in_(values)).order_by(column).with_for_update()
        return self._session.scalars(query).all()

    def delivery(self, source: str, key: str) -> DeliveryRow | None:
        """The row under that key."""
        return self._deliveries.get((source, key))

    def keep(self, row: DeliveryRow) -> None:
        """Add a row."""
        self._session.add(row)
        self._deliveries[row.source, row.delivery_id] = row
