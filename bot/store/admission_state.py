"""What is read and locked before an alert is admitted: what the store knows of the alerts of one
transaction, read at once, because most of them are new and need no look each; genuine requests that
come again; and locks of alerts that may be of one incident.

**Repeats.** A delivery's own id makes its repetition a duplicate (`faultline.bot.store.admitting`).
Here is what an id cannot tell: a firing that is older than the end of its alert, whether it was
held up on the way or recorded and sent again; and one of an occurrence that its sender, who repeats
what goes on, has not spoken of for days. All of it lies in `deliveries`.

**Locks.** Alerts that may be of one incident are accepted one after the other, whichever host takes
them; all others side by side. On PostgreSQL, by advisory locks of the accepting transaction: one
for the alert itself, without which it is not accepted, and those of what it is about, so that
related alerts see each other. A host that is lost inside its transaction keeps its locks until the
server ends its session (`faultline.bot.store.connections`). Until then alerts it had in hand are
refused, and others that are about the same are accepted without seeing them: at worst, one more
investigation. SQLite takes its one lock for each transaction that writes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Engine, Select, bindparam, select, text, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, defer

from faultline.analysis.errors import FaultlineError
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.relation import keys_of, sought_keys
from faultline.bot.policy.values import Accepted, Arrival, Delivery
from faultline.bot.store.groups import Groups
from faultline.bot.store.suppressed_alerts import holding
from faultline.bot.store.tables import DeliveryRow, GroupedAlertRow, InvestigationRow, MuteRow

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

PERSON_PREFIX = "asked:"


class AdmissionState:
    """Deliveries by their keys, and the fingerprints that may have an open alert or a mute that
    holds."""

    def __init__(
        self, session: Session, arrivals: Sequence[Arrival], policy: Policy, now: datetime
    ) -> None:
        self._session = session
        keys = {key for arrival in arrivals for key in delivery_keys(arrival)}
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


def is_on_request(arrival: Arrival) -> bool:
    """Whether a person asked for it: with a mention or a click in Slack, each with its own
    fingerprint."""
    alert = arrival.alert
    return arrival.by_person or (
        alert.source == "slack" and alert.labels.get("fingerprint", "").startswith(PERSON_PREFIX)
    )


MIN_RETENTION = timedelta(days=400)
"""Rows of `deliveries` that are younger than this must not be deleted: a request that was recorded
could start something again. A row is some 150 bytes."""
UNHEARD = timedelta(days=5)
"""An alert that continues is sent again every `repeat_interval`, which is shorter than
Alertmanager's `--data.retention`, 120 h (prometheus.io, "Alertmanager configuration"): older news
of it is a recording."""


def delivery_keys(arrival: Arrival) -> list[tuple[str, str]]:
    """Source and id of every row of `deliveries` that may tell something about it."""
    delivery = arrival.delivery
    if delivery is None:
        return []
    keys = [delivery.id, _end_of(arrival.alert.fingerprint)]
    keys += [_occurrence_key(delivery.occurrence)] if delivery.occurrence is not None else []
    return [(delivery.source, key) for key in keys]


def repeat_of(state: AdmissionState, arrival: Arrival, now: datetime) -> Accepted | None:
    """What the arrival repeats, when it is an old one of its alert; None for news. Inside the
    accepting transaction."""
    delivery = arrival.delivery
    if delivery is None or arrival.alert.status == "resolved" or arrival.by_person:
        return None
    if delivery.at is not None:
        # By the vendor's clock, because a delivery may be late or out of order.
        ended = state.delivery(delivery.source, _end_of(arrival.alert.fingerprint))
        if ended is not None and delivery.at < ended.received_at:
            return Accepted("duplicate", ended.investigation_id)
    if delivery.occurrence is not None:
        delivery_row = state.delivery(delivery.source, _occurrence_key(delivery.occurrence))
        if delivery_row is not None and now - delivery_row.received_at > UNHEARD:
            return Accepted("duplicate", delivery_row.investigation_id)
    return None


def remember(state: AdmissionState, arrival: Arrival, accepted: Accepted, now: datetime) -> None:
    """Keep when the alert ended by its vendor's clock, or that its occurrence was heard of now."""
    delivery = arrival.delivery
    if delivery is None:
        return
    if arrival.alert.status == "resolved":
        if delivery.at is not None:
            _keep(state, delivery.source, _end_of(arrival.alert.fingerprint), accepted, delivery.at)
    elif delivery.occurrence is not None:
        _keep(state, delivery.source, _occurrence_key(delivery.occurrence), accepted, now)


def first_time(engine: Engine, delivery: Delivery, now: datetime) -> bool:
    """Remember a delivery that is no alert; whether it is new."""
    row = DeliveryRow(
        source=delivery.source, delivery_id=delivery.id, investigation_id=None, received_at=now
    )
    try:
        with Session(engine) as session, session.begin():
            if session.get(DeliveryRow, (delivery.source, delivery.id)) is not None:
                return False
            session.add(row)
    except IntegrityError:  # another process took it at the same moment
        return False
    return True


def _keep(state: AdmissionState, source: str, key: str, accepted: Accepted, at: datetime) -> None:
    row = state.delivery(source, key)
    if row is None:
        state.keep(
            DeliveryRow(
                source=source,
                delivery_id=key,
                investigation_id=accepted.investigation_id,
                received_at=at,
            )
        )
        return
    # Deliveries may arrive out of order, and the latest time counts.
    row.received_at = max(row.received_at, at)
    row.investigation_id = accepted.investigation_id or row.investigation_id


def _end_of(fingerprint: str) -> str:
    return "ended " + hashlib.sha256(fingerprint.encode("utf-8", "replace")).hexdigest()


def _occurrence_key(occurrence: str) -> str:
    return "heard " + hashlib.sha256(occurrence.encode("utf-8", "replace")).hexdigest()


WAIT_S = 1.0
"""Transactions that accept alerts take some ms; one that takes this long is not waited for."""
REMEMBERED_S = 5.0
"""How long a lock that timed out is only tried and not waited for."""
PAUSES_S = (0.002, 0.005, 0.01, 0.02, 0.04)
BUCKETS = 512
"""Locks of what alerts are about, in all: PostgreSQL has room for 64 of each connection
(`max_locks_per_transaction`), and a batch of alerts may be about thousands of things."""
TRY = text(
    "SELECT set_config('lock_timeout', :wait, true), l.key, CASE WHEN l.alone"
    " THEN pg_try_advisory_xact_lock(l.key) ELSE pg_try_advisory_xact_lock_shared(l.key) END AS got"
    " FROM unnest(CAST(:keys AS bigint[]), CAST(:alone AS boolean[])) AS l (key, alone)"
)


class IncidentBusy(FaultlineError):
    """Another host has alerts of the same incident in hand, and does not end. `blocked` are the
    places of the refused alerts in their sequence; the others can be accepted without them."""

    def __init__(self, blocked: Iterable[int]) -> None:
        self.blocked = frozenset(blocked)
        super().__init__("another host has alerts of the same incident in hand; try again")


@dataclass(frozen=True)
class IncidentLocks:
    """The locks for a sequence of alerts. `alert_keys` are those of each alert; `about` says of
    each of the others whether nobody else may share it."""

    alert_keys: tuple[int, ...]
    about: dict[int, bool]

    def try_all(self, session: Session) -> set[int]:
        """Take the free locks until the transaction ends, and return the busy ones. From here on
        the transaction waits for rows no longer than WAIT_S."""
        # An alert's own lock is never shared.
        alone = self.about | dict.fromkeys(self.alert_keys, True)
        parameters = {"keys": list(alone), "alone": list(alone.values())}
        execute = session.execute(TRY, parameters | {"wait": f"{WAIT_S * 1000:.0f}"})
        return {key for _, key, got in execute if not got}

    def refused(self, busy: set[int]) -> list[int]:
        """Places of the alerts whose own locks are busy."""
        return [place for place, key in enumerate(self.alert_keys) if key in busy]


def locks_of(arrivals: Sequence[Arrival], policy: Policy) -> IncidentLocks:
    """The locks for alerts that are accepted together."""
    about: dict[int, bool] = {}
    for arrival in arrivals:
        alone, shared = _about(arrival, policy)
        about |= dict.fromkeys(map(_bucket, alone), True)
        # `setdefault`: a key that one of the alerts is about stays exclusive.
        for key in map(_bucket, shared):
            about.setdefault(key, False)
    return IncidentLocks(tuple(_number(arrival.alert.fingerprint) for arrival in arrivals), about)


def _about(arrival: Arrival, policy: Policy) -> tuple[list[str], list[str]]:
    """What the alert is about, and what alerts related to it may be about."""
    # Requests and resolutions join nothing by what they are about.
    if is_on_request(arrival) or arrival.alert.status == "resolved":
        return [], []
    channel = policy.channel(arrival)
    alone = [f"channel:{channel}"] if policy.per_hour(channel) is not None else []
    if policy.groups == "off":
        return alone, []
    traits = policy.traits(arrival.alert)
    trait_keys = keys_of(traits, policy.topology)
    return [*alone, *trait_keys], [
        key for key in sought_keys(traits, policy.topology) if key not in trait_keys
    ]


class Patience:
    """How long a store waits for locks: not again for one that has just timed out."""

    def __init__(self) -> None:
        self._in_vain: dict[int, float] = {}

    def until(self, locks: IncidentLocks) -> float:
        """The time, of `time.monotonic`, at which the wait ends."""
        now = time.monotonic()
        timeouts = self._in_vain
        if timeouts and any(
            timeouts.get(key, 0.0) > now for key in (*locks.alert_keys, *locks.about)
        ):
            return now
        return now + WAIT_S

    def ended(self, busy: set[int]) -> None:
        """These timed out."""
        now = time.monotonic()
        # Forget those that are over, so that the table does not grow.
        remaining = {key: until for key, until in self._in_vain.items() if until > now}
        self._in_vain = remaining | dict.fromkeys(busy, now + REMEMBERED_S)


def _number(name: str) -> int:
    # An advisory lock of one key takes a signed 64-bit integer.
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _bucket(key: str) -> int:
    return _number(f"about {_number(key) % BUCKETS}")
