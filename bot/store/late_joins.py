"""Investigations of one incident that nobody could know to be so when their alerts came: who calls
whom, and what is to blame, is known once the evidence is analysed.

The one whose analysis ends without an answer yet becomes a part of the other: its alerts join, its
messages point there, and it names no cause itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import Engine, Select, delete, or_, select, update
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.relation import BY_CALL, SERVICE_KEY, may_share_incident, relate
from faultline.bot.policy.values import Arrival
from faultline.bot.store.admitting import JOIN_FOR
from faultline.bot.store.connections import reading
from faultline.bot.store.groups import MAX_GROUP, MAX_RUNS, GroupMatch, Groups
from faultline.bot.store.learned_policy import PolicyWithCalls
from faultline.bot.store.messages import adopt_addresses, reply_to_of
from faultline.bot.store.tables import AlertKeyRow, GroupedAlertRow, InvestigationRow

MOST_COMPARED = 50
"""Open answers of the last hours, the newest first, that a new one is compared with."""


@dataclass(frozen=True)
class LateJoin:
    """The investigation that another became a part of, and why."""

    investigation_id: str
    title: str
    why: str


@dataclass(frozen=True)
class EarlierAnswer:
    """What an answer about a related alert blames, while that alert is still open."""

    title: str
    at: datetime
    culprit: str
    is_tied: bool
    """Whether a name, a call or the cause ties the two, and not only place and time."""


class LateJoins:
    """On the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, policy: PolicyWithCalls) -> None:
        self._engine = engine
        self._policy = policy

    def join(
        self, investigation_id: str, blamed: str | None, suspects: Sequence[str] = ()
    ) -> LateJoin | None:
        """Make the investigation a part of a related one that has answered, or that began before
        it; None where there is none. `blamed` is what its answer will name as the cause, which
        others know from now on, and `suspects` are services that the alerting one may call, where
        it has no reason for its alert.

        A second call says the same again.
        """
        # Its own evidence may have told of the call a moment ago.
        self._policy.forget()
        policy = self._policy_of(investigation_id)
        with Session(self._engine) as session, session.begin():
            row = session.get_one(InvestigationRow, investigation_id)
            if row.joined_id is not None:
                return repeated_join(session, row)
            match = match_of(session, policy, row, blamed, suspects)
            if match is None:
                if row.finished_at is None:
                    # Now: of two that are analysed at once, one has to see the other's.
                    row.culprit = blamed
                    self.note_blame(session, row)
                return None
            target = match[1]
            # In one order, or two that join each other would wait forever.
            ids = sorted((row.id, target.id))
            query = select(InvestigationRow).where(InvestigationRow.id.in_(ids))
            query = query.order_by(InvestigationRow.id).with_for_update()
            session.scalars(query, execution_options={"populate_existing": True}).all()
            if not may_join(row, target):
                return None
            move_alerts(session, policy, row, match)
            has_looked = target.finished_at is not None or target.culprit is not None
            named = policy.topology.name(target.culprit)
            if has_looked and blamed is not None and named != policy.topology.name(blamed):
                # What this one saw would be lost: the other looks once more, with both alerts.
                target.wants_run = target.wants_run or target.runs < MAX_RUNS
            return LateJoin(target.id, Alert.model_validate(target.alert).title, match[0].why)

    def answers_beside(self, investigation_id: str, blamed: str | None) -> Sequence[EarlierAnswer]:
        """What answers to alerts that are still open name as the cause, where it is another: of
        related ones that are too far apart to join, and of those that began about then in the same
        place; those of related ones first, then the newest."""
        policy = self._policy_of(investigation_id)
        with reading(self._engine) as session:
            row = session.get_one(InvestigationRow, investigation_id)
            alert = Alert.model_validate(row.alert)
            traits = replace(policy.traits(alert), blamed=policy.topology.name(blamed))
            answers = []
            for other in session.scalars(open_answers_beside(row)):
                if policy.apart and other.team != row.team:
                    continue
                other_alert = Alert.model_validate(other.alert)
                workspaces = policy.workspaces_of(other_alert, reply_to_of(other))
                if workspaces != policy.workspaces_of(alert, reply_to_of(row)):
                    continue
                other_traits = replace(
                    policy.traits(other_alert), blamed=policy.topology.name(other.culprit)
                )
                relation = relate(traits, other_traits, policy.topology, JOIN_FOR)
                # Over hours, like words and a common machine prove nothing.
                is_tied = relation is not None and relation.rank <= BY_CALL
                if not is_tied and not may_share_incident(traits, other_traits, policy.window):
                    continue
                if other_traits.blamed != traits.blamed:
                    at = other.finished_at or other.accepted_at
                    culprit = other.culprit or ""
                    answers.append(EarlierAnswer(other_alert.title, at, culprit, is_tied))
            return sorted(answers, key=lambda answer: not answer.is_tied)

    def note_blame(self, session: Session, row: InvestigationRow) -> None:
        """Let alerts about what the answer blames be found to belong to it."""
        if row.culprit is None or row.open_fingerprint is None or not row.automatic:
            return
        key = f"{SERVICE_KEY}{self._policy.configured.topology.name(row.culprit)}"
        at = session.scalars(
            select(AlertKeyRow.at).where(
                AlertKeyRow.investigation_id == row.id, AlertKeyRow.fingerprint == row.fingerprint
            )
        ).all()
        identity = {"investigation_id": row.id, "fingerprint": row.fingerprint, "key": key}
        if at and session.get(AlertKeyRow, identity) is None:
            session.add(AlertKeyRow(**identity, at=max(at)))

    def _policy_of(self, investigation_id: str) -> Policy:
        """The policy at the place of its alert. It reads the learned calls, for which SQLite has no
        room while somebody writes."""
        with reading(self._engine) as session:
            row = session.get_one(InvestigationRow, investigation_id)
            alert = Alert.model_validate(row.alert)
            arrival, accepted_at = Arrival(alert, None, reply_to_of(row)), row.accepted_at
        return self._policy.at([arrival], accepted_at)


def match_of(
    session: Session,
    policy: Policy,
    row: InvestigationRow,
    blamed: str | None,
    suspects: Sequence[str],
) -> GroupMatch | None:
    """The investigation that it may join, and why."""
    if policy.groups != "on" or not is_joinable(row):
        return None
    alert = Alert.model_validate(row.alert)
    name = policy.topology.name
    suspect_names = frozenset(filter(None, map(name, suspects)))
    traits = replace(policy.traits(alert), blamed=name(blamed), suspects=suspect_names)
    groups = Groups(session, policy, row.accepted_at, [alert])
    workspaces = policy.workspaces_of(alert, reply_to_of(row))
    return groups.related(
        traits, row.team, workspaces, may_take=lambda target: may_join(row, target)
    )


def move_alerts(session: Session, policy: Policy, row: InvestigationRow, match: GroupMatch) -> None:
    """Put its alert, and those that joined it, into the other investigation."""
    relation, target = match
    alert = Alert.model_validate(row.alert)
    row.open_fingerprint = None
    row.joined_id = target.id
    # Freed before another row takes it: the database refuses one open alert in two places.
    session.flush()
    groups = Groups(session, policy, row.accepted_at, [alert])
    groups.join(match, alert, policy.traits(alert))
    session.flush()
    # Alerts that joined the one are the other's now.
    of_target = GroupedAlertRow.investigation_id == target.id
    there = set(session.scalars(select(GroupedAlertRow.fingerprint).where(of_target)))
    members = select(GroupedAlertRow).where(GroupedAlertRow.investigation_id == row.id)
    for member in session.scalars(members).all():
        if member.fingerprint in there:
            session.delete(member)
            continue
        member.investigation_id = target.id
        target.members += 1
    keys = (AlertKeyRow.investigation_id == row.id, AlertKeyRow.fingerprint != row.fingerprint)
    session.execute(update(AlertKeyRow).where(*keys).values(investigation_id=target.id))
    session.execute(delete(AlertKeyRow).where(AlertKeyRow.investigation_id == row.id))
    adopt_addresses(target, reply_to_of(row))
    target.priority = min(target.priority, row.priority)
    row.status = "joined"
    row.wants_run = False
    title = Alert.model_validate(target.alert).title
    row.headline = f"Part of the incident “{title}”: {relation.why}"
    row.notified_revision = row.revision
    row.finished_at = datetime.now(UTC)


def is_joinable(row: InvestigationRow) -> bool:
    """Whether it has not answered, and its alert is open."""
    return row.automatic and row.finished_at is None and row.open_fingerprint is not None


def may_join(row: InvestigationRow, target: InvestigationRow) -> bool:
    """Whether the one may become a part of the other."""
    if target.id == row.id or not is_joinable(row) or target.status in ("joined", "failed"):
        return False
    is_earlier = (target.accepted_at, target.id) < (row.accepted_at, row.id)
    takes_more = target.members + row.members < MAX_GROUP
    return takes_more and (target.finished_at is not None or is_earlier)


def repeated_join(session: Session, row: InvestigationRow) -> LateJoin:
    """What it joined before."""
    target = session.get_one(InvestigationRow, row.joined_id)
    member = select(GroupedAlertRow.why).where(
        GroupedAlertRow.investigation_id == target.id,
        GroupedAlertRow.fingerprint == row.fingerprint,
    )
    title = Alert.model_validate(target.alert).title
    return LateJoin(target.id, title, session.scalar(member) or "")


def open_answers_beside(row: InvestigationRow) -> Select[InvestigationRow]:
    """Answers of the hours before it whose alerts are open, or were when its own came."""
    since = row.accepted_at - JOIN_FOR
    other = InvestigationRow
    return (
        select(other)
        .where(other.id != row.id, other.automatic, other.status.in_(("running", "done")))
        .where(other.culprit.is_not(None), other.accepted_at >= since)
        .where(or_(other.resolved_at.is_(None), other.resolved_at >= row.accepted_at))
        .order_by(other.accepted_at.desc(), other.id)
        .limit(MOST_COMPARED)
    )
