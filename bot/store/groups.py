"""Which investigation an alert belongs to, in the tables: found by the keys of open alerts, joined in one row.

Runs inside the transaction that accepts the alert.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session

from analysis.vocabulary import Alert
from bot.store.models import InvestigationRow
from bot.store.storm_tables import AlertKeyRow, GroupedAlertRow
from bot.storms.policy import Policy
from bot.storms.relation import SERVICE_KEY, Relation, keys_of, relate, sought_keys
from bot.storms.traits import Traits

MAX_CANDIDATES = 24
"""Open alerts that an alert is compared with, the newest first."""
MAX_GROUP = 200
"""Alerts that join one investigation; the next of the same storm starts another, and that takes as many."""
MAX_RUNS = 2
"""How often an investigation is run again because alerts brought services that it had not looked at. More would have
the answer change for as long as the storm lasts."""

Found = tuple[Relation, InvestigationRow]


def note_keys(session: Session, row: InvestigationRow, traits: Traits, policy: Policy, now: datetime) -> None:
    """Remember what an open alert of the investigation is about."""
    if policy.groups == "off":
        return
    held = delete(AlertKeyRow).where(
        AlertKeyRow.investigation_id == row.id, AlertKeyRow.fingerprint == traits.fingerprint
    )
    session.execute(held)
    keys = keys_of(traits, policy.topology)
    outdated = delete(AlertKeyRow).where(AlertKeyRow.key.in_(keys), AlertKeyRow.at < now - policy.longest)
    session.execute(outdated)
    known = {"investigation_id": row.id, "fingerprint": traits.fingerprint, "at": now}
    session.add_all(AlertKeyRow(key=key, **known) for key in keys)


def forget_keys(session: Session, fingerprint: str) -> None:
    """The alert is open no longer: nothing joins because of it."""
    session.execute(delete(AlertKeyRow).where(AlertKeyRow.fingerprint == fingerprint))


def related_investigation(
    session: Session, traits: Traits, policy: Policy, now: datetime, team: str = ""
) -> Found | None:
    """The investigation with the alert that is most surely related to this one, and why; None when there is none.

    Of equally sure ones the alert that came last decides. Where teams see their own alone, an alert of `team` joins
    none of another.
    """
    sought = sought_keys(traits, policy.topology)
    own = tuple(key for key in sought if key == f"{SERVICE_KEY}{traits.service}")
    others = tuple(key for key in sought if key not in own)
    for keys in filter(None, (own, others)):  # most of a storm is about a service that it has reached already
        best = _best(session, keys, traits, policy, now, team)
        if best is not None:
            return best
    return None


def _best(
    session: Session, keys: Sequence[str], traits: Traits, policy: Policy, now: datetime, team: str
) -> Found | None:
    found: list[tuple[tuple[int, float, str], Found]] = []
    under = _under(keys, traits, policy, now)
    for row, fingerprint, at in session.execute(under.where(InvestigationRow.team == team) if policy.apart else under):
        alert = _alert(session, row, fingerprint)
        relation = relate(traits, policy.traits(alert), policy.topology, policy.window) if alert else None
        if relation is not None:
            found.append(((relation.rank, -at.timestamp(), row.id), (relation, row)))
            if relation.rank == 0:
                break
    return min(found, key=lambda one: one[0])[1] if found else None


def join(session: Session, found: Found, alert: Alert, policy: Policy, now: datetime) -> None:
    """Put the alert into the investigation; ask for another run where it brings a service that is not looked at."""
    relation, row = found
    session.refresh(row, with_for_update=True)
    traits = policy.traits(alert)
    if row.started_at and row.runs < MAX_RUNS and not row.wants_run:
        known = policy.in_scope(_services(session, row, policy))
        row.wants_run = traits.service is not None and traits.service not in known
    query = select(GroupedAlertRow).where(
        GroupedAlertRow.investigation_id == row.id, GroupedAlertRow.fingerprint == alert.fingerprint
    )
    member = session.scalar(query)
    if member is None:
        member = GroupedAlertRow(investigation_id=row.id, fingerprint=alert.fingerprint, at=now, repeats=0)
        session.add(member)
        row.members += 1
    else:  # it was resolved, and fires again
        member.repeats += 1
    member.alert = alert.model_dump(mode="json")
    member.why = relation.why
    member.open_fingerprint = alert.fingerprint
    member.resolved_at = None
    row.changes += 1
    note_keys(session, row, traits, policy, now)


def _alert(session: Session, row: InvestigationRow, fingerprint: str) -> Alert | None:
    if row.fingerprint == fingerprint:
        return Alert.model_validate(row.alert)
    query = select(GroupedAlertRow.alert).where(
        GroupedAlertRow.investigation_id == row.id, GroupedAlertRow.fingerprint == fingerprint
    )
    found = session.scalar(query)
    return Alert.model_validate(found) if found else None


def _services(session: Session, row: InvestigationRow, policy: Policy) -> frozenset[str]:
    """The services of its alerts that are open, and of its first."""
    of_open = AlertKeyRow.investigation_id == row.id, AlertKeyRow.key.startswith(SERVICE_KEY)
    keys = session.scalars(select(AlertKeyRow.key).where(*of_open).distinct())
    services = frozenset(key.removeprefix(SERVICE_KEY) for key in keys)
    first = policy.topology.name(row.alert.get("service"))
    return services | {first} if first else services


def _under(
    keys: Sequence[str], traits: Traits, policy: Policy, now: datetime
) -> Select[InvestigationRow, str, datetime]:
    """Open alerts under the keys whose investigations still take some, the newest first."""
    return (
        select(InvestigationRow, AlertKeyRow.fingerprint, AlertKeyRow.at)
        .join(InvestigationRow, InvestigationRow.id == AlertKeyRow.investigation_id)
        .where(AlertKeyRow.key.in_(keys), AlertKeyRow.at >= now - policy.window, AlertKeyRow.at <= now + policy.window)
        .where(AlertKeyRow.fingerprint != traits.fingerprint, InvestigationRow.automatic)
        .where(InvestigationRow.accepted_at >= now - policy.longest, InvestigationRow.members < MAX_GROUP)
        .order_by(AlertKeyRow.at.desc(), AlertKeyRow.investigation_id, AlertKeyRow.fingerprint)
        .limit(MAX_CANDIDATES)
    )
