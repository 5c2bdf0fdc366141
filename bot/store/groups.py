"""Which investigation an alert belongs to, in the tables: found by the keys of open alerts, joined
in one row.

Runs inside the transaction that accepts the alert.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, select, tuple_
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.relation import (
    SERVICE_KEY,
    Relation,
    Traits,
    keys_of,
    relate,
    sought_keys,
)
from faultline.bot.store.messages import reply_to_of
from faultline.bot.store.tables import AlertKeyRow, GroupedAlertRow, InvestigationRow

MAX_CANDIDATES = 24
"""Open alerts that an alert is compared with, the newest first."""
MAX_GROUP = 200
"""Alerts that join one investigation; the next of the same storm starts another, and that takes as
many."""
MAX_RUNS = 2
"""How often an investigation is run again because alerts brought services that it had not looked
at. More would have the answer change for as long as the storm lasts."""
TICK = timedelta(microseconds=1)

GroupMatch = tuple[Relation, InvestigationRow]


class Groups:
    """The groups as the alerts of one transaction find and change them.

    What the transaction has read or written once is remembered, so that a storm costs few
    statements: related alerts are accepted one after the other
    (`faultline.bot.store.admission_state`).
    """

    def __init__(
        self, session: Session, policy: Policy, now: datetime, alerts: Sequence[Alert]
    ) -> None:
        """`alerts` are those of the transaction."""
        self._session = session
        self._policy = policy
        self._now = now
        self._alerts = alerts
        self._prints = {alert.fingerprint for alert in alerts}
        self._newest: dict[str, tuple[InvestigationRow, Traits]] = {}
        """Of services the alert that came last."""
        self._is_newest_read = False
        self._locked: set[str] = set()
        self._open_services: dict[str, set[str]] = {}
        """Services of each investigation's open alerts."""
        self._keys: set[str] = set()
        """Under which something was noted."""
        self._noted = timedelta(0)

    def note(self, row: InvestigationRow, traits: Traits) -> None:
        """Remember what an open alert of the investigation is about."""
        if self._policy.groups == "off":
            return
        if traits.fingerprint in self._keyed:
            deletion = delete(AlertKeyRow).where(
                AlertKeyRow.investigation_id == row.id,
                AlertKeyRow.fingerprint == traits.fingerprint,
            )
            self._session.execute(deletion)
        keys = keys_of(traits, self._policy.topology)
        self._keys.update(keys)
        self._noted += TICK  # so that of two alerts of one transaction too the last one is known
        columns = {
            "investigation_id": row.id,
            "fingerprint": traits.fingerprint,
            "at": self._now + self._noted,
        }
        self._session.add_all(AlertKeyRow(key=key, **columns) for key in keys)
        self._keyed.add(traits.fingerprint)
        if traits.service:
            self._newest[traits.service] = (row, traits)
            if row.id in self._open_services:
                self._open_services[row.id].add(traits.service)

    def forget(self, fingerprint: str) -> None:
        """The alert is open no longer: nothing joins because of it."""
        if fingerprint not in self._keyed:
            return
        self._session.execute(delete(AlertKeyRow).where(AlertKeyRow.fingerprint == fingerprint))
        self._keyed.discard(fingerprint)
        self._newest = {
            k: newest for k, newest in self._newest.items() if newest[1].fingerprint != fingerprint
        }
        # Another open alert may be about the same service, so the services are read again.
        self._open_services.clear()

    def related(
        self,
        traits: Traits,
        team: str = "",
        workspaces: frozenset[str] = frozenset(),
        *,
        may_take: Callable[[InvestigationRow], bool] | None = None,
    ) -> GroupMatch | None:
        """The investigation with the alert that is most surely related to this one, and why; None
        when there is none.

        Of equally sure ones the alert that came last decides. Where teams see their own alone, an
        alert of `team` joins none of another; nor does one that is `workspaces` in other
        workspaces. `may_take` says which investigations may take one that is open already.
        """
        last = self._last(traits, team, workspaces) if may_take is None else None
        if last is not None:
            return last
        sought = sought_keys(traits, self._policy.topology)
        service_keys = tuple(key for key in sought if key == f"{SERVICE_KEY}{traits.service}")
        remaining_keys = tuple(key for key in sought if key not in service_keys)
        for keys in filter(
            None, (service_keys, remaining_keys)
        ):  # most of a storm is about a service that it has reached already
            match = self._surest(keys, traits, team, workspaces, may_take)
            if match is not None:
                return match
        return None

    def join(self, match: GroupMatch, alert: Alert, traits: Traits) -> None:
        """Put the alert into the investigation; ask for another run where it brings a service that
        is not looked at."""
        relation, row = match
        self._lock([row])
        # Before its first run the scope is not fixed, so nothing has to be run again.
        if row.started_at and row.runs < MAX_RUNS and not row.wants_run:
            scoped_services = self._policy.in_scope(self._services(row))
            row.wants_run = traits.service is not None and traits.service not in scoped_services
        member = self._members.get((row.id, alert.fingerprint))
        if member is None:
            member = GroupedAlertRow(
                investigation_id=row.id, fingerprint=alert.fingerprint, at=self._now, repeats=0
            )
            self._session.add(member)
            self._members[row.id, alert.fingerprint] = member
            row.members += 1
        else:  # it was resolved, and fires again
            member.repeats += 1
        member.alert = alert.model_dump(mode="json")
        member.why = relation.why
        member.open_fingerprint = alert.fingerprint
        member.resolved_at = None
        row.revision += 1
        self.note(row, traits)

    def sweep(self) -> None:
        """Delete what is too old to join, once at the end of a transaction."""
        if not self._keys:
            return
        of = (AlertKeyRow.investigation_id, AlertKeyRow.fingerprint, AlertKeyRow.key)
        too_old = AlertKeyRow.at < self._now - self._policy.longest
        # Skip rows that another host is deleting, instead of waiting for them.
        free = select(*of).where(AlertKeyRow.key.in_(self._keys), too_old)
        free = free.with_for_update(skip_locked=True)
        self._session.execute(delete(AlertKeyRow).where(tuple_(*of).in_(free)))

    def _last(self, traits: Traits, team: str, workspaces: frozenset[str]) -> GroupMatch | None:
        """The alert of the same service that came right before: none is newer or more related."""
        self._read_newest()
        row, old = self._newest.get(traits.service or "", (None, None))
        if row is None or old is None or old.fingerprint == traits.fingerprint:
            return None
        if row.members >= MAX_GROUP or (self._policy.apart and row.team != team):
            return None
        if not row.automatic or row.accepted_at < self._now - self._policy.longest:
            return None
        if not self._same_workspaces(row, workspaces):
            return None
        relation = relate(traits, old, self._policy.topology, self._policy.window)
        return (relation, row) if relation is not None and relation.rank == 0 else None

    def _read_newest(self) -> None:
        """Read the newest open alerts of the services of these alerts at once, and lock their
        investigations."""
        if self._is_newest_read:
            return
        self._is_newest_read = True
        services = {self._policy.service(alert) for alert in self._alerts} - {None}
        keys = {f"{SERVICE_KEY}{service}" for service in services}
        if not keys:
            return
        rows = self._session.execute(_newest_under(keys, self._policy, self._now)).all()
        self._lock({row.id: row for _, row, _ in rows}.values())
        for fingerprint, row, joined in rows:
            alert = joined or (row.alert if row.fingerprint == fingerprint else None)
            if alert is None:
                continue
            traits = self._policy.traits(Alert.model_validate(alert))
            if traits.service:
                self._newest.setdefault(traits.service, (row, traits))

    def _surest(
        self,
        keys: Sequence[str],
        traits: Traits,
        team: str,
        workspaces: frozenset[str],
        may_take: Callable[[InvestigationRow], bool] | None,
    ) -> GroupMatch | None:
        policy = self._policy
        candidates: list[tuple[tuple[int, float, str], GroupMatch]] = []
        under = _under(keys, traits, policy, self._now)
        if policy.apart:
            under = under.where(InvestigationRow.team == team)
        for row, fingerprint, at in self._session.execute(under):
            if not self._same_workspaces(row, workspaces):
                continue
            if may_take is not None and not may_take(row):
                continue
            alert = _alert(self._session, row, fingerprint)
            relation = None
            if alert is not None:
                blamed = policy.topology.name(row.culprit)
                old = replace(policy.traits(alert), blamed=blamed)
                relation = relate(traits, old, policy.topology, policy.window)
            if relation is not None:
                # Of equal ranks the latest alert wins, then the id: the same choice in every run.
                candidates.append(((relation.rank, -at.timestamp(), row.id), (relation, row)))
                if relation.rank == 0:
                    break
        return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else None

    def _same_workspaces(self, row: InvestigationRow, workspaces: frozenset[str]) -> bool:
        """Whether the investigation is posted to the same workspaces."""
        if not self._policy.several_workspaces:
            return True
        return (
            self._policy.workspaces_of(Alert.model_validate(row.alert), reply_to_of(row))
            == workspaces
        )

    def _lock(self, rows: Iterable[InvestigationRow]) -> None:
        """Others than those who accept alerts change the rows too: the workers."""
        ids = {row.id for row in rows} - self._locked
        if not ids:
            return
        self._session.flush()  # what is not written yet would be undone
        query = select(InvestigationRow).where(InvestigationRow.id.in_(ids))
        query = query.order_by(InvestigationRow.id).with_for_update()
        self._session.scalars(query, execution_options={"populate_existing": True}).all()
        self._locked |= ids

    def _services(self, row: InvestigationRow) -> frozenset[str]:
        """The services of its alerts that are open, and of its first."""
        if row.id not in self._open_services:
            of_open = (
                AlertKeyRow.investigation_id == row.id,
                AlertKeyRow.key.startswith(SERVICE_KEY),
            )
            keys = self._session.scalars(select(AlertKeyRow.key).where(*of_open).distinct())
            self._open_services[row.id] = {key.removeprefix(SERVICE_KEY) for key in keys}
        services = frozenset(self._open_services[row.id])
        first = self._policy.topology.name(row.alert.get("service"))
        return services | {first} if first else services

    @cached_property
    def _keyed(self) -> set[str]:
        """Fingerprints under which there are keys."""
        query = (
            select(AlertKeyRow.fingerprint)
            .where(AlertKeyRow.fingerprint.in_(self._prints))
            .distinct()
        )
        return set(self._session.scalars(query))

    @cached_property
    def _members(self) -> dict[tuple[str, str], GroupedAlertRow]:
        """Of these alerts, those that joined something before."""
        query = select(GroupedAlertRow).where(GroupedAlertRow.fingerprint.in_(self._prints))
        return {
            (row.investigation_id, row.fingerprint): row for row in self._session.scalars(query)
        }


def _alert(session: Session, row: InvestigationRow, fingerprint: str) -> Alert | None:
    query = select(GroupedAlertRow.alert).where(
        GroupedAlertRow.investigation_id == row.id, GroupedAlertRow.fingerprint == fingerprint
    )
    alert = session.scalar(query)
    if (
        alert is None and row.fingerprint == fingerprint
    ):  # else it was resolved, and has joined its own investigation
        alert = row.alert
    return Alert.model_validate(alert) if alert else None


def _newest_under(
    keys: Collection[str], policy: Policy, now: datetime
) -> Select[str, InvestigationRow, dict[str, Any] | None]:
    """The newest open alert under each key, with the investigation that it is in."""
    newest = select(AlertKeyRow.key, func.max(AlertKeyRow.at).label("at"))
    newest = newest.where(AlertKeyRow.key.in_(keys), *_near(policy, now)).group_by(AlertKeyRow.key)
    last = newest.subquery()
    joined = (GroupedAlertRow.investigation_id == AlertKeyRow.investigation_id) & (
        GroupedAlertRow.fingerprint == AlertKeyRow.fingerprint
    )
    return (
        select(AlertKeyRow.fingerprint, InvestigationRow, GroupedAlertRow.alert)
        .join(last, (AlertKeyRow.key == last.c.key) & (AlertKeyRow.at == last.c.at))
        .join(InvestigationRow, InvestigationRow.id == AlertKeyRow.investigation_id)
        .outerjoin(GroupedAlertRow, joined)
        .order_by(AlertKeyRow.investigation_id, AlertKeyRow.fingerprint)
    )


def _near(policy: Policy, now: datetime) -> Sequence[ColumnElement[bool]]:
    return (AlertKeyRow.at >= now - policy.window, AlertKeyRow.at <= now + policy.window)


def _under(
    keys: Sequence[str], traits: Traits, policy: Policy, now: datetime
) -> Select[InvestigationRow, str, datetime]:
    """Open alerts under the keys whose investigations still take some, the newest first."""
    return (
        select(InvestigationRow, AlertKeyRow.fingerprint, AlertKeyRow.at)
        .join(InvestigationRow, InvestigationRow.id == AlertKeyRow.investigation_id)
        .where(AlertKeyRow.key.in_(keys), *_near(policy, now))
        .where(AlertKeyRow.fingerprint != traits.fingerprint, InvestigationRow.automatic)
        .where(
            InvestigationRow.accepted_at >= now - policy.longest,
            InvestigationRow.members < MAX_GROUP,
        )
        .order_by(AlertKeyRow.at.desc(), AlertKeyRow.investigation_id, AlertKeyRow.fingerprint)
        .limit(MAX_CANDIDATES)
    )
