"""What the store knows of the alerts of one transaction, read at once: most of them are new, and
need no look each.

The transaction holds the locks of these alerts (`faultline.bot.store.incident_locks`), so that no
other one adds to it meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Select, bindparam, select, tuple_
from sqlalchemy.orm import Session, defer

from faultline.bot.policy.admission import Policy
from faultline.bot.policy.values import Arrival
from faultline.bot.store.groups import Groups
from faultline.bot.store.models import DeliveryRow, InvestigationRow
from faultline.bot.store.mutes import holding
from faultline.bot.store.replays import keys_of
from faultline.bot.store.storm_tables import GroupedAlertRow, MuteRow

R = TypeVar("R", InvestigationRow, GroupedAlertRow)

# Made once: in a storm, making a statement takes as long as the database needs to carry it out.
_VALUES: BindParameter[Any] = bindparam("values", expanding=True)


def _locked(row: type[R], column: Any) -> Select[R]:
    """Rows with given values, locked in an order that is the same for everybody."""
    return select(row).where(column.in_(_VALUES)).order_by(column).with_for_update()


_DELIVERIES = select(DeliveryRow).where(
    tuple_(DeliveryRow.source, DeliveryRow.delivery_id).in_(_VALUES)
)
_MUTED = holding(bindparam("now"), MuteRow.fingerprint).where(MuteRow.fingerprint.in_(_VALUES))
_FIRST = _locked(InvestigationRow, InvestigationRow.open_fingerprint)
# A storm has thousands of these rows, and nothing here reads their large columns.
_JOINED = _locked(GroupedAlertRow, GroupedAlertRow.open_fingerprint).options(
    defer(GroupedAlertRow.alert), defer(GroupedAlertRow.why)
)
_BY_ID = _locked(InvestigationRow, InvestigationRow.id)


class AdmissionState:
    """Deliveries by their keys, and the fingerprints that may have an open alert or a mute that
    holds."""

    def __init__(
        self, session: Session, arrivals: Sequence[Arrival], policy: Policy, now: datetime
    ) -> None:
        self._session = session
        keys = {key for arrival in arrivals for key in keys_of(arrival)}
        prints = {arrival.alert.fingerprint for arrival in arrivals}
        self.groups = Groups(session, policy, now, [arrival.alert for arrival in arrivals])
        deliveries = session.scalars(_DELIVERIES, {"values": list(keys)}) if keys else ()
        self._deliveries = {(row.source, row.delivery_id): row for row in deliveries}
        self.muted = set(session.scalars(_MUTED, {"now": now, "values": list(prints)}))
        rows = self._rows(_FIRST, prints)
        self.first = {row.open_fingerprint: row for row in rows}
        """Of these alerts those that an open investigation began with, by fingerprint; locked."""
        members = self._rows(_JOINED, prints)
        self.joined = {row.open_fingerprint: row for row in members}
        """Those that are open and joined one; locked, as their investigations are."""
        ids = {row.investigation_id for row in members} - {row.id for row in rows}
        of = self._rows(_BY_ID, ids)
        self.locked = {row.id: row for row in (*rows, *of)}
        self.open: set[str | None] = {*self.first, *self.joined}

    def _rows(self, query: Select[R], values: Collection[str]) -> Sequence[R]:
        return self._session.scalars(query, {"values": list(values)}).all() if values else ()

    def delivery(self, source: str, key: str) -> DeliveryRow | None:
        """The row under that key."""
        return self._deliveries.get((source, key))

    def keep(self, row: DeliveryRow) -> None:
        """Add a row."""
        self._session.add(row)
        self._deliveries[row.source, row.delivery_id] = row
