"""Alerts that were not investigated: counted, one row for each alert and reason, and kept for a
month."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.store.sessions import reading
from faultline.bot.store.storm_tables import SuppressedAlertRow

SuppressionReason = Literal["muted", "excluded", "surplus"]
RETENTION = timedelta(days=30)
MAX_LISTED = 500


@dataclass(frozen=True)
class SuppressedAlert:
    """An alert that came `count` times and was not investigated. `why` names the mute, the rule or
    the rate."""

    kind: SuppressionReason
    alert: Alert
    channel: str
    why: str
    count: int
    first_at: datetime
    last_at: datetime


def count_suppressed(
    session: Session,
    key: str,
    kind: SuppressionReason,
    alert: Alert,
    channel: str,
    why: str,
    now: datetime,
) -> bool:
    """Count the alert under its key, inside the transaction that accepts it; says whether it is the
    first."""
    row = session.get(SuppressedAlertRow, key)
    if row is not None:
        row.count += 1
        row.last_at = now
        return False
    # Skip rows that another host is deleting, instead of waiting for them.
    old = select(SuppressedAlertRow.key).where(SuppressedAlertRow.last_at < now - RETENTION)
    old = old.with_for_update(skip_locked=True)
    session.execute(delete(SuppressedAlertRow).where(SuppressedAlertRow.key.in_(old)))
    content = alert.model_dump(mode="json")
    session.add(
        SuppressedAlertRow(
            key=key,
            kind=kind,
            fingerprint=alert.fingerprint,
            channel=channel,
            alert=content,
            why=why,
            count=1,
            first_at=now,
            last_at=now,
        )
    )
    return True


def suppressed_alerts(engine: Engine, *, limit: int = 100) -> list[SuppressedAlert]:
    """What was not investigated, the latest first."""
    query = (
        select(SuppressedAlertRow)
        .order_by(SuppressedAlertRow.last_at.desc(), SuppressedAlertRow.key)
        .limit(min(limit, MAX_LISTED))
    )
    with reading(engine) as session:
        return [
            SuppressedAlert(
                kind=row.kind,  # type: ignore[arg-type]
                alert=Alert.model_validate(row.alert),
                channel=row.channel,
                why=row.why,
                count=row.count,
                first_at=row.first_at,
                last_at=row.last_at,
            )
            for row in session.scalars(query)
        ]
