"""What was investigated lately and which alerts are open, for the hand-over between shifts.

Synchronous; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, and_, or_, select
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import EarlierCause, EarlierInvestigation
from faultline.bot.policy.words import words_of
from faultline.bot.store.labels import Labels
from faultline.bot.store.listing import raw_alert_field, text_of
from faultline.bot.store.models import InvestigationRow, PostRow, RememberedRow
from faultline.bot.store.sessions import reading
from faultline.bot.store.storm_tables import GroupedAlertRow
from faultline.bot.store.visibility import ALL, Visibility

MOST_READ = 2_000
"""The newest that are looked at."""
OPEN_FOR = timedelta(days=30)
"""An alert that is open for longer is forgotten rather than open: some sources never say that one
is over."""
AT_ONCE = 500
"""Values of one statement: SQLite takes 32,766."""


@dataclass(frozen=True)
class HandoverIncident:
    """An alert that was investigated without anybody asking, and the result."""

    id: str
    at: datetime
    """When it was accepted."""
    title: str
    service: str
    words: tuple[str, ...]
    """Equal for alerts of the same words on the same service, whatever else differs."""
    prints: frozenset[str]
    """Fingerprints of the alert and of those that joined it."""
    team: str
    status: str
    verdict: str | None
    headline: str
    resolved_at: datetime | None
    open: int
    """How many alerts of it are open: its own, and those that joined it."""
    joined: int
    cause: EarlierCause | None
    """The first one of its answer."""
    judged: bool | None
    """What people said of the answer: right or wrong."""


@dataclass(frozen=True)
class Place:
    """Whose an investigation is, and where it was or is to be answered: `refs` are its posts."""

    id: str
    team: str
    slack_channel: str | None
    refs: tuple[str, ...]


def handover_incidents(
    engine: Engine, since: datetime, before: datetime, *, visibility: Visibility = ALL
) -> list[HandoverIncident]:
    """Those accepted in [since, before) and those with an open alert, the newest first."""
    row, member = InvestigationRow, GroupedAlertRow
    open_member = select(member.investigation_id).where(member.open_fingerprint.is_not(None))
    is_open = or_(row.open_fingerprint.is_not(None), row.id.in_(open_member))
    lately = row.accepted_at >= since
    query = (
        select(row, *(raw_alert_field(engine, name) for name in ("title", "service", "signal")))
        .where(row.automatic.is_(True), row.accepted_at < before, *visibility.where())
        .where(or_(lately, and_(is_open, row.accepted_at >= before - OPEN_FOR)))
        .order_by(row.accepted_at.desc(), row.id.desc())
        .limit(MOST_READ)
    )
    with reading(engine) as session:
        rows = [tuple(columns) for columns in session.execute(query)]
        ids = [columns[0].id for columns in rows]
        causes, members = _causes(session, ids), _members(session, ids)
        labels, judged = Labels(engine), dict[str, bool]()
        for batch in _batches(ids):
            judged |= {id_: label.right for id_, label in labels.of(batch).items()}
        return [
            _incident(
                columns,
                causes.get(columns[0].id),
                members[columns[0].id],
                judged.get(columns[0].id),
            )
            for columns in rows
        ]


def places(engine: Engine, investigation_ids: Collection[str]) -> list[Place]:
    """Where these are answered, in no order."""
    row, refs = InvestigationRow, defaultdict[str, list[str]](list)
    located = []
    with reading(engine) as session:
        for batch in _batches(sorted(investigation_ids)):
            posts = select(PostRow.investigation_id, PostRow.ref)
            for id_, ref in session.execute(posts.where(PostRow.investigation_id.in_(batch))):
                # A post that is claimed and not yet made has no reference.
                refs[id_].append(ref or "")
            query = select(row.id, row.team, row.slack_channel).where(row.id.in_(batch))
            for id_, team, channel in session.execute(query):
                located.append(Place(id_, team, channel, tuple(refs[id_])))
    return located


def _incident(
    columns: Sequence[Any], cause: EarlierCause | None, members: _Members, judged: bool | None
) -> HandoverIncident:
    row: InvestigationRow = columns[0]
    title, service, signal = (text_of(value) for value in columns[1:])
    return HandoverIncident(
        id=row.id,
        at=row.accepted_at,
        title=title,
        service=service,
        # A title may hold no words; then it counts as it is.
        words=(service, *(words_of(title, signal) or (title,))),
        prints=frozenset({row.fingerprint, *members.prints}),
        team=row.team,
        status=row.status,
        verdict=row.verdict if row.status == "done" else None,
        headline=row.headline or "",
        resolved_at=row.resolved_at,
        open=(row.open_fingerprint is not None) + members.open,
        joined=row.members,
        cause=cause,
        judged=judged,
    )


@dataclass(frozen=True)
class _Members:
    prints: frozenset[str] = frozenset()
    open: int = 0


def _members(session: Session, ids: Sequence[str]) -> defaultdict[str, _Members]:
    member, members = GroupedAlertRow, defaultdict[str, _Members](_Members)
    for batch in _batches(ids):
        query = select(member.investigation_id, member.fingerprint, member.open_fingerprint)
        for id_, print_, open_ in session.execute(query.where(member.investigation_id.in_(batch))):
            had = members[id_]
            members[id_] = _Members(had.prints | {print_}, had.open + (open_ is not None))
    return members


def _causes(session: Session, ids: Sequence[str]) -> dict[str, EarlierCause]:
    row, causes_by_id = RememberedRow, {}
    for batch in _batches(ids):
        query = select(row.investigation_id, row.content).where(row.investigation_id.in_(batch))
        for id_, content in session.execute(query):
            causes = EarlierInvestigation.model_validate(content).causes
            if causes:
                causes_by_id[id_] = causes[0]
    return causes_by_id


def _batches(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    for start in range(0, len(ids), AT_ONCE):
        yield ids[start : start + AT_ONCE]
