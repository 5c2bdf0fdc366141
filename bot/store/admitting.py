"""The way of one alert into the store, inside one transaction: known, muted, excluded, related, too
many, or new.

In this order: a delivery seen before, or older than its alert's end; a resolution; a mute; a repeat
of an open alert; a rule; an incident that is investigated already; the channel's rate. What a
person asks for passes all but the first.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import HOUR, Policy
from faultline.bot.policy.priority import URGENT, priority_of
from faultline.bot.policy.values import Accepted, Arrival
from faultline.bot.store.admission_state import AdmissionState, is_on_request, remember, repeat_of
from faultline.bot.store.messages import address_columns, adopt_addresses
from faultline.bot.store.suppressed_alerts import count_suppressed, end_when_resolved, lock_mute
from faultline.bot.store.tables import DeliveryRow, GroupedAlertRow, InvestigationRow, ProgressRow

GROUPS_STAGE = "groups"
JOIN_FOR = timedelta(hours=12)
"""How long a repeat of an open alert joins its investigation: three times the interval at which
Alertmanager repeats an alert by default (https://prometheus.io/docs/alerting/latest/configuration/,
`repeat_interval`)."""


def new_investigation_id(now: datetime) -> str:
    """A sortable id people can read out: date, time, six hex digits."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


class Admission:
    """Decides on alerts by the policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def admit_all(
        self, session: Session, arrivals: Sequence[Arrival], now: datetime
    ) -> list[Accepted]:
        """Take alerts in their order, each once."""
        state = AdmissionState(session, arrivals, self._policy, now)
        accepted = [self._admit(session, state, arrival, now) for arrival in arrivals]
        state.groups.sweep()
        return accepted

    def _admit(
        self, session: Session, state: AdmissionState, arrival: Arrival, now: datetime
    ) -> Accepted:
        delivery = arrival.delivery
        if delivery is not None:
            observed_delivery = state.delivery(delivery.source, delivery.id)
            if observed_delivery is not None:
                return Accepted("duplicate", observed_delivery.investigation_id)
            if (admit := repeat_of(state, arrival, now)) is not None:
                return admit
        accepted = self._route(session, state, arrival, now)
        # Later alerts of the batch look in the database: this one may have opened or closed it.
        state.open.add(arrival.alert.fingerprint)
        if delivery is not None:
            state.keep(
                DeliveryRow(
                    source=delivery.source,
                    delivery_id=delivery.id,
                    investigation_id=accepted.investigation_id,
                    received_at=now,
                )
            )
            remember(state, arrival, accepted, now)
        return accepted

    def _route(
        self, session: Session, state: AdmissionState, arrival: Arrival, now: datetime
    ) -> Accepted:
        if arrival.alert.status == "resolved":
            return self._resolved(session, state, arrival.alert, now)
        if is_on_request(arrival):
            return self._open(session, state, arrival, now) or self._start(
                session, state, arrival, now
            )
        route = self._muted(session, state, arrival, now) or self._open(
            session, state, arrival, now
        )
        if route is not None:
            return route
        channel = self._policy.channel(arrival)
        return (
            self._excluded(session, arrival.alert, channel, now)
            or self._related(state, arrival, now)
            or self._rate_limited(session, arrival.alert, channel, now)
            or self._start(session, state, arrival, now)
        )

    def _resolved(
        self, session: Session, state: AdmissionState, alert: Alert, now: datetime
    ) -> Accepted:
        state.groups.forget(alert.fingerprint)
        if alert.fingerprint in state.muted:
            end_when_resolved(session, alert.fingerprint, now)
        row, member = _open_alert(session, state, alert.fingerprint)
        if row is not None:
            row.open_fingerprint = None
            row.resolved_at = now
            return Accepted("resolved", row.id)
        if member is not None:
            member.open_fingerprint = None
            member.resolved_at = now
            # A new revision makes a worker edit the messages.
            _locked(session, state, member.investigation_id).revision += 1
        return Accepted("resolved", member.investigation_id if member else None)

    def _muted(
        self, session: Session, state: AdmissionState, arrival: Arrival, now: datetime
    ) -> Accepted | None:
        alert = arrival.alert
        if alert.fingerprint not in state.muted:
            return None
        critical = arrival_priority(arrival) == URGENT
        mute = lock_mute(session, alert.fingerprint, now, critical=critical)
        # It may have ended by now, or does not cover the alert while that is critical.
        if mute is None:
            return None
        mute.alert_count += 1
        mute.held_at = now
        why = f"muted until {mute.until:%Y-%m-%d %H:%M} UTC" + (
            f" by {mute.who}" if mute.who else ""
        )
        channel = self._policy.channel(arrival)
        count_suppressed(session, f"muted:{mute.id}", "muted", alert, channel, why, now)
        return Accepted("muted", None)

    def _open(
        self, session: Session, state: AdmissionState, arrival: Arrival, now: datetime
    ) -> Accepted | None:
        """A repeat of an alert that is open."""
        row, member = _open_alert(session, state, arrival.alert.fingerprint)
        if row is not None and now - row.accepted_at <= JOIN_FOR:
            row.repeats += 1
            _more_urgent(row, arrival)
            self._break_through(row, arrival.alert, now)
            return Accepted("joined", row.id)
        if member is not None and now - member.at <= JOIN_FOR:
            member.repeats += 1
            of = _locked(session, state, member.investigation_id)
            _more_urgent(of, arrival)
            self._break_through(of, arrival.alert, now)
            return Accepted("joined", of.id)
        # Too old to join: close it, so that this alert can open another.
        for open_row in (row, member):
            if open_row is not None:
                open_row.open_fingerprint = None
        if row is not None or member is not None:
            state.groups.forget(arrival.alert.fingerprint)
            # The database refuses a second open row of the alert, so the closing is written first.
            session.flush()
        return None

    def _excluded(
        self, session: Session, alert: Alert, channel: str, now: datetime
    ) -> Accepted | None:
        rule = self._policy.blocking_rule(alert, channel)
        if rule is None:
            return None
        count_suppressed(
            session,
            f"excluded:{alert.fingerprint}:{channel}",
            "excluded",
            alert,
            channel,
            rule,
            now,
        )
        return Accepted("excluded", None)

    def _related(self, state: AdmissionState, arrival: Arrival, now: datetime) -> Accepted | None:
        if self._policy.groups != "on":
            return None
        team = self._policy.team(arrival.alert, self._policy.channel(arrival))
        traits = self._policy.traits(arrival.alert)
        workspaces = self._policy.workspaces_of(arrival.alert, arrival.reply_to)
        match = state.groups.related(traits, team, workspaces)
        if match is None:
            return None
        state.groups.join(match, arrival.alert, traits)
        row = match[1]
        adopt_addresses(row, arrival.reply_to)
        _more_urgent(row, arrival)
        self._break_through(row, arrival.alert, now)
        return Accepted("grouped", row.id)

    def _rate_limited(
        self, session: Session, alert: Alert, channel: str, now: datetime
    ) -> Accepted | None:
        """Over the channel's rate: counted, and said by the last investigation that the channel
        got."""
        limit = self._policy.per_hour(channel)
        if limit is None:
            return None
        of_hour = (
            InvestigationRow.channel == channel,
            InvestigationRow.automatic,
            InvestigationRow.accepted_at > now - HOUR,
        )
        if (
            session.scalar(select(func.count()).select_from(InvestigationRow).where(*of_hour)) or 0
        ) < limit:
            return None
        newest = select(InvestigationRow).where(*of_hour)
        newest = newest.order_by(
            InvestigationRow.accepted_at.desc(), InvestigationRow.id.desc()
        ).limit(1)
        # Skip a row that another host is changing, unless there is no other.
        free = session.scalars(newest.with_for_update(skip_locked=True)).first()
        row = free or session.scalars(newest.with_for_update()).one()
        why = f"rate of this channel: {limit} an hour"
        # A repeat does not change the number that the messages give.
        if count_suppressed(
            session, f"surplus:{row.id}:{alert.fingerprint}", "surplus", alert, channel, why, now
        ):
            row.surplus += 1
            row.revision += 1
        return Accepted("surplus", None)

    def _start(
        self, session: Session, state: AdmissionState, arrival: Arrival, now: datetime
    ) -> Accepted:
        alert, reply_to, policy = arrival.alert, arrival.reply_to, self._policy
        channel = policy.channel(arrival)
        fresh = InvestigationRow(
            id=new_investigation_id(now),
            fingerprint=alert.fingerprint,
            open_fingerprint=alert.fingerprint,
            alert=alert.model_dump(mode="json"),
            question=arrival.question,
            **address_columns(reply_to),
            accepted_at=now,
            automatic=not is_on_request(arrival),
            channel=channel,
            quiet_until=None if is_on_request(arrival) else policy.quiet_until(alert, channel, now),
            team=policy.team(alert, channel),
            priority=arrival_priority(arrival),
        )
        if not is_on_request(arrival) and policy.groups != "off":
            traits = policy.traits(alert)
            like = None
            # In shadow mode nothing joins: a line of progress says what would have.
            if policy.groups == "shadow":
                workspaces = policy.workspaces_of(alert, reply_to)
                like = state.groups.related(traits, fresh.team, workspaces)
            session.add(fresh)
            # The keys refer to the row, so it is written first.
            session.flush()
            state.groups.note(fresh, traits)
            if like is not None:
                text = f"would have joined {like[1].id}: {like[0].why}"
                key = f"{fresh.id}:{GROUPS_STAGE}"
                session.add(
                    ProgressRow(
                        investigation_id=fresh.id, key=key, at=now, stage=GROUPS_STAGE, text=text
                    )
                )
        else:
            session.add(fresh)
        return Accepted("started", fresh.id)

    def _break_through(self, row: InvestigationRow, alert: Alert, now: datetime) -> None:
        """An alert that may be announced now ends the silence about its investigation."""
        if row.quiet_until is None or self._policy.quiet_until(alert, row.channel, now) is not None:
            return
        if row.digested_at is None:
            row.quiet_until = None
            row.revision += 1


def _more_urgent(row: InvestigationRow, arrival: Arrival) -> None:
    """An investigation is as urgent as the most urgent of its alerts."""
    row.priority = min(row.priority, arrival_priority(arrival))


def arrival_priority(arrival: Arrival) -> int:
    """How urgent it is, as in `faultline.bot.policy.priority`."""
    return priority_of(
        arrival.alert, on_request=is_on_request(arrival), source_words=arrival.priority_words
    )


def _open_alert(
    session: Session, state: AdmissionState, fingerprint: str
) -> tuple[InvestigationRow | None, GroupedAlertRow | None]:
    """Where the open alert is: as the first of an investigation, or as one that joined."""
    if fingerprint not in state.open:
        return None, None
    row, member = state.first.get(fingerprint), state.joined.get(fingerprint)
    if row is not None and row.open_fingerprint == fingerprint:
        return row, None
    if member is not None and member.open_fingerprint == fingerprint:
        return None, member
    # Opened, or closed and opened again, by this transaction.
    first = (
        select(InvestigationRow)
        .where(InvestigationRow.open_fingerprint == fingerprint)
        .with_for_update()
    )
    row = session.scalar(first)
    if row is not None:
        return row, None
    joined = (
        select(GroupedAlertRow)
        .where(GroupedAlertRow.open_fingerprint == fingerprint)
        .with_for_update()
    )
    return None, session.scalar(joined)


def _locked(session: Session, state: AdmissionState, investigation_id: str) -> InvestigationRow:
    """The row as it stands, with what this transaction changed: reading it again would undo what is
    not written yet."""
    row = state.locked.get(investigation_id)
    if row is not None:
        return row
    session.flush()
    return session.get_one(InvestigationRow, investigation_id, with_for_update=True)
