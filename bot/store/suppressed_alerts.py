"""Alerts that were not investigated: counted, one row for each alert and reason, and kept for a
month; and mutes, by which alerts are not investigated for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import BindParameter, CompoundSelect, Engine, Select, delete, or_, select, union
from sqlalchemy.orm import Session

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Alert
from faultline.bot.store.connections import reading, storable
from faultline.bot.store.tables import (
    GroupedAlertRow,
    InvestigationRow,
    MuteRow,
    SuppressedAlertRow,
)
from faultline.bot.store.visibility import ALL, Visibility

MAX_TEXT = 500
LONGEST = timedelta(hours=24)
"""A mute ends by itself; what is to be ignored for longer is a matter for a rule, which is
reviewed. `people.mute_hours` says otherwise."""
MAX_LISTED = 500


@dataclass(frozen=True)
class Mute:
    """One mute. `alert_count` alerts came while it held, the last of them at `last_alert_at`."""

    fingerprint: str
    title: str
    at: datetime
    until: datetime
    by: str
    reason: str
    alert_count: int
    last_alert_at: datetime | None
    until_resolved: bool = False
    covers_critical: bool = False


class Mutes:
    """All mutes, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, longest: timedelta = LONGEST) -> None:
        self._engine = engine
        self.longest = longest

    def mute(
        self,
        fingerprint: str,
        until: datetime,
        by: str,
        reason: str = "",
        *,
        title: str = "",
        until_resolved: bool = False,
        covers_critical: bool = False,
        now: datetime | None = None,
    ) -> Mute | None:
        """Mute the alert until then, for `longest` at most; once more moves the end. None when that
        is past already.

        With `until_resolved` its resolution ends it, too. Without `covers_critical` it does not
        hold for the alert while that is critical; somebody who may not silence it then takes no
        such cover away, and does not prolong it.
        """
        now = now or datetime.now(UTC)
        until = min(until, now + self.longest)
        if until <= now or not fingerprint:
            return None
        with Session(self._engine) as session, session.begin():
            row = lock_mute(session, fingerprint, now)
            if row is None or (row.covers_critical and not covers_critical):
                row = MuteRow(
                    fingerprint=storable(fingerprint, 200), title="", at=now, alert_count=0
                )
                session.add(row)
            row.until = until
            row.until_resolved = until_resolved
            row.covers_critical = covers_critical
            row.who = storable(by.strip(), MAX_TEXT)
            # What a person typed may hold a secret.
            row.reason = storable(masked(reason.strip()), MAX_TEXT)
            row.title = storable(masked(title.strip()), MAX_TEXT) or row.title
            session.flush()
            return _mute(row)

    def unmute(self, fingerprint: str, *, now: datetime | None = None) -> bool:
        """End its mute; says whether there was one. The next alert is investigated."""
        now = now or datetime.now(UTC)
        with Session(self._engine) as session, session.begin():
            of_alert = holding(now, MuteRow).where(MuteRow.fingerprint == fingerprint)
            rows = session.scalars(of_alert.with_for_update()).all()
            for row in rows:
                row.ended_at = now
            return bool(rows)

    def muted(self, fingerprint: str, now: datetime) -> Mute | None:
        """The mute that holds for this alert, or None."""
        with reading(self._engine) as session:
            row = session.scalar(
                holding(now, MuteRow).where(MuteRow.fingerprint == fingerprint).limit(1)
            )
            return _mute(row) if row else None

    def active(self, now: datetime, visibility: Visibility = ALL) -> list[Mute]:
        """The mutes that hold, in the order of their ends. An alert that only invisible
        investigations know is left out."""
        query = holding(now, MuteRow).order_by(MuteRow.until, MuteRow.id).limit(MAX_LISTED)
        if not visibility.is_all:
            print_ = MuteRow.fingerprint
            query = query.where(or_(print_.in_(_prints(visibility)), print_.not_in(_prints(ALL))))
        with reading(self._engine) as session:
            return [_mute(row) for row in session.scalars(query)]


def _prints(visibility: Visibility) -> CompoundSelect[str]:
    """Fingerprints of the alerts of the investigations that may be seen."""
    ids, investigation_row = visibility.ids(), InvestigationRow
    first_prints = select(investigation_row.fingerprint).where(investigation_row.id.in_(ids))
    joined = select(GroupedAlertRow.fingerprint).where(GroupedAlertRow.investigation_id.in_(ids))
    return union(first_prints, joined)


def lock_mute(
    session: Session, fingerprint: str, now: datetime, *, critical: bool = False
) -> MuteRow | None:
    """The row of the mute that holds, locked until the transaction ends; with `critical`, of one
    that covers critical alerts."""
    query = (
        holding(now, MuteRow)
        .where(MuteRow.fingerprint == fingerprint)
        # Several may hold, since one may cover critical alerts and another not.
        .order_by(MuteRow.until.desc(), MuteRow.id)
    )
    if critical:
        query = query.where(MuteRow.covers_critical.is_(True))
    return session.scalars(query.limit(1).with_for_update()).first()


def end_when_resolved(session: Session, fingerprint: str, now: datetime) -> None:
    """The alert is resolved: end the mutes that were to hold until then."""
    ending = holding(now, MuteRow).where(
        MuteRow.fingerprint == fingerprint, MuteRow.until_resolved.is_(True)
    )
    for row in session.scalars(ending.with_for_update()):
        row.ended_at = now


def holding(now: datetime | BindParameter[datetime], what: Any) -> Select[Any]:
    """A selection of `what` of the mutes that hold."""
    return select(what).where(MuteRow.until > now, MuteRow.ended_at.is_(None))


def _mute(row: MuteRow) -> Mute:
    return Mute(
        row.fingerprint,
        row.title,
        row.at,
        row.until,
        row.who,
        row.reason,
        row.alert_count,
        row.held_at,
        row.until_resolved,
        row.covers_critical,
    )


SuppressionReason = Literal["muted", "excluded", "surplus"]
SUPPRESSED_RETENTION = timedelta(days=30)


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
    old = select(SuppressedAlertRow.key).where(
        SuppressedAlertRow.last_at < now - SUPPRESSED_RETENTION
    )
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
        # Messages in which no alert was recognised: faultline.bot.store.passed_over.
        .where(SuppressedAlertRow.kind != "unread")
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
