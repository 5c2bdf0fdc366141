"""Genuine requests that come again: what an alert's earlier deliveries tell about a later one.

A delivery's own id makes its repetition a duplicate (`faultline.bot.store.admitting`). Here is what
an id cannot tell: a firing that is older than the end of its alert, whether it was held up on the
way or recorded and sent again; and one of an occurrence that its sender, who repeats what goes on,
has not spoken of for days. All of it lies in `deliveries`.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.bot.policy.values import Accepted, Arrival, Delivery
from faultline.bot.store.models import DeliveryRow

if TYPE_CHECKING:
    from faultline.bot.store.admission_state import AdmissionState

MIN_RETENTION = timedelta(days=400)
"""Rows of `deliveries` that are younger than this must not be deleted: a request that was recorded
could start something again. A row is some 150 bytes."""
UNHEARD = timedelta(days=5)
"""An alert that continues is sent again every `repeat_interval`, which is shorter than
Alertmanager's `--data.retention`, 120 h (prometheus.io, "Alertmanager configuration"): older news
of it is a recording."""


def keys_of(arrival: Arrival) -> list[tuple[str, str]]:
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
