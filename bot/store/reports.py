"""Reports over many investigations: the hand-over between shifts, judged answers for the accuracy
page, and the bot's health as its store shows it, with when something last happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, and_, delete, func, or_, select
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import EarlierCause, EarlierInvestigation
from faultline.bot.policy.people import without_mentions
from faultline.bot.policy.words import words_of
from faultline.bot.store.connections import reading
from faultline.bot.store.listing import COUNTED, Labels, newest_ids, raw_alert_field, text_of
from faultline.bot.store.people_tables import LabelRow
from faultline.bot.store.tables import (
    GroupedAlertRow,
    InvestigationRow,
    LastTimeRow,
    PostRow,
    ProgressRow,
    RememberedRow,
)
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


@dataclass(frozen=True)
class JudgedAnswer:
    """An answer, and what somebody said of it. `cause` is in the judge's words, or empty."""

    id: str
    at: datetime
    """When its alert was accepted."""
    title: str
    service: str
    source: str
    verdict: str
    confidence: float
    headline: str
    right: bool
    cause: str
    judged_at: datetime


def judged_answers(
    engine: Engine, limit: int = COUNTED, *, visibility: Visibility = ALL
) -> list[JudgedAnswer]:
    """The newest judged answers that can be seen; of each the judgement that holds."""
    row, label = InvestigationRow, LabelRow
    alert = [raw_alert_field(engine, name) for name in ("title", "service", "source")]
    query = (
        select(row.id, row.accepted_at, *alert, row.verdict, row.confidence, row.headline)
        .add_columns(label.right, label.cause, label.at)
        .join(label, label.investigation_id == row.id)
        .where(label.id.in_(newest_ids()), *visibility.where())
        .order_by(row.accepted_at.desc(), row.id.desc())
        .limit(limit)
    )
    with reading(engine) as session:
        return [_judged(*row) for row in session.execute(query)]


def _judged(
    id_: str,
    at: datetime,
    title: Any,
    service: Any,
    source: Any,
    verdict: str | None,
    confidence: float | None,
    headline: str | None,
    right: bool,
    cause: str,
    judged_at: datetime,
) -> JudgedAnswer:
    return JudgedAnswer(
        id_,
        at,
        text_of(title),
        text_of(service),
        text_of(source),
        verdict or "",
        confidence or 0.0,
        headline or "",
        right,
        without_mentions(cause),
        judged_at,
    )


RECENT = 200
"""Investigations whose times are summed up."""
READ_LINES = 4_000
"""Newest lines of progress that are searched for what connectors said."""
COLLECTED = "collect "
REPLIED = "reply "
MAX_NAMES = 100


@dataclass(frozen=True)
class LatestProgress:
    """The newest line about a connector, or about a reply target; `ok` where nothing was
    missing."""

    name: str
    at: datetime
    text: str
    ok: bool
    requests: int
    """How often it was asked among the lines that were read."""
    failed: int
    last_ok: datetime | None


@dataclass(frozen=True)
class Condition:
    """What the store shows."""

    counts: dict[str, int]
    waiting_since: datetime | None
    """When the oldest alert that no worker has begun with was accepted."""
    last_sign: datetime | None
    """When a worker last wrote a line of progress."""
    answer_s: tuple[float, ...]
    """Seconds from alert to answer of recent investigations, sorted."""
    connectors: tuple[LatestProgress, ...]
    places: tuple[LatestProgress, ...]


def read_condition(engine: Engine, visibility: Visibility = ALL) -> Condition:
    """Read it in one transaction, of investigations that can be seen."""
    row = InvestigationRow
    with reading(engine) as session:
        by_status = select(row.status, func.count()).where(*visibility.where()).group_by(row.status)
        counts = {status: count for status, count in session.execute(by_status).all()}  # noqa: C416
        waiting = session.scalar(
            select(func.min(row.accepted_at)).where(row.status == "accepted", *visibility.where())
        )
        times = session.execute(
            select(row.accepted_at, row.finished_at)
            .where(row.status == "done", row.finished_at.is_not(None), *visibility.where())
            .order_by(row.accepted_at.desc())
            .limit(RECENT)
        ).all()
        progress = select(ProgressRow.at, ProgressRow.stage, ProgressRow.text)
        # The subquery costs time that nobody needs where everything can be seen.
        if not visibility.is_all:
            progress = progress.where(ProgressRow.investigation_id.in_(visibility.ids()))
        newest = progress.order_by(ProgressRow.id.desc()).limit(READ_LINES)
        lines = [(at, stage, text) for at, stage, text in session.execute(newest).all()]
    return Condition(
        counts=counts,
        waiting_since=waiting,
        last_sign=lines[0][0] if lines else None,
        answer_s=tuple(sorted((end - begin) / timedelta(seconds=1) for begin, end in times if end)),
        connectors=_latest(lines, COLLECTED, lambda text: " missing: " not in text),
        places=_latest(lines, REPLIED, lambda text: text.startswith("answered in ")),
    )


def _latest(
    lines: Sequence[tuple[datetime, str, str]], prefix: str, well: Callable[[str], bool]
) -> tuple[LatestProgress, ...]:
    """By name, of lines that come newest first."""
    of: dict[str, list[tuple[datetime, str, bool]]] = defaultdict(list)
    for at, stage, text in lines:
        if stage.startswith(prefix) and (stage in of or len(of) < MAX_NAMES):
            of[stage].append((at, text, well(text)))
    return tuple(_summed_up(stage.removeprefix(prefix), of[stage]) for stage in sorted(of))


def _summed_up(name: str, lines: Sequence[tuple[datetime, str, bool]]) -> LatestProgress:
    """Of all lines of one name, the newest first."""
    at, text, ok = lines[0]
    when_ok = [at for at, _, ok in lines if ok]
    return LatestProgress(
        name=name,
        at=at,
        text=text.removeprefix(f"{name}: "),
        ok=ok,
        requests=len(lines),
        failed=len(lines) - len(when_ok),
        last_ok=when_ok[0] if when_ok else None,
    )


WRITES = "writes "
"""Before the name of a web process: when it last wrote only to see whether that works."""
WATCHDOG = "watchdog "
"""Before the name of a web process: when it last received the alert that always fires."""
HANGING = "hanging "
"""Before the name of a web process: when calls of the database last hung in it."""
LAST_TIME_RETENTION = timedelta(days=30)


def note_times(engine: Engine, times: dict[str, datetime]) -> None:
    """Remember when these last happened, and forget what did not happen for long."""
    with Session(engine) as session, session.begin():
        for name, at in times.items():
            session.merge(LastTimeRow(name=name, at=at))
        oldest = max(times.values()) - LAST_TIME_RETENTION
        session.execute(delete(LastTimeRow).where(LastTimeRow.at < oldest))


def last_time(engine: Engine, prefix: str) -> datetime | None:
    """When the last of those whose names begin like this happened."""
    query = select(LastTimeRow.at).where(LastTimeRow.name.startswith(prefix))
    newest = query.order_by(LastTimeRow.at.desc()).limit(1)
    with reading(engine) as session:
        return session.scalar(newest)
