"""Restarting work: investigations that did not end, and answers that were not posted. After a
restore, or for one by its name.

Nothing is posted twice. Before work begins again, its posts are marked as ones that somebody may
have made and the store forgot: `faultline.bot.answer.targets.posting` then looks for each at the
vendor first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, or_, select
from sqlalchemy.orm import Session

from faultline.analysis.errors import FaultlineError
from faultline.bot.operating.engine_rows import EngineRows
from faultline.bot.operating.inspection import Inspection
from faultline.bot.policy.reply_targets import ReplyTargetDeclaration, configured_targets
from faultline.bot.policy.values import ENDED
from faultline.bot.settings import Settings
from faultline.bot.store.connections import reading
from faultline.bot.store.people_tables import QuestionPostRow, QuestionRow
from faultline.bot.store.store import forgotten_key
from faultline.bot.store.tables import InvestigationRow, PostRow

OWNER = "requeued"
ANSWER, FILE = "answer", "file"
"""Names in the keys of a question's posts: `faultline.bot.conversation.slack_posts`."""
NOTIFIED_FOR = timedelta(days=1)
"""A reply target that is down is tried again for most of a day
(`faultline.bot.investigation.workflow`). What ended earlier was answered or abandoned."""
LONG_AGO = timedelta(hours=1)
"""When the attempts were that nobody remembers: long enough for all of them to have arrived."""


@dataclass(frozen=True)
class Requeued:
    """Investigations that start again, answers to post again, and questions to answer again."""

    begun: tuple[str, ...]
    reposts: tuple[str, ...]
    questions: tuple[str, ...]


def requeue_by_name(inspection: Inspection, name: str) -> Requeued:
    """One investigation. Raises FaultlineError while a worker that is alive has it."""
    if inspection.rows is None:
        raise FaultlineError(f"the engine's tables cannot be read: {inspection.no_rows}")
    living = inspection.executors()
    with inspection.read() as session:
        if session.get(InvestigationRow, name) is None:
            raise FaultlineError(f"no investigation {name!r}")
    for workflow in inspection.rows.of(name):
        if workflow.status == "PENDING" and workflow.executor and living.lives(workflow.executor):
            raise FaultlineError(
                f"{workflow.executor} works on {name} ({workflow.id}); stop that worker first"
            )
    return _requeue(inspection.store, inspection.rows, inspection.settings, [name], inspection.now)


def requeue_all(
    store: Engine, rows: EngineRows, settings: Settings, *, since: datetime | None = None
) -> Requeued:
    """Everything that did not end, or ended within a day before `since` (of the newest answer, if
    not given).

    No worker may be alive.
    """
    row = InvestigationRow
    # Count from the newest answer, because a restored backup may be old.
    with reading(store) as session:
        newest = since or session.scalar(
            select(row.finished_at).order_by(row.finished_at.desc().nulls_last()).limit(1)
        )
        recent = row.finished_at > newest - NOTIFIED_FOR if newest else row.finished_at.is_not(None)
        query = select(row.id).where(or_(row.status.not_in(ENDED), recent)).order_by(row.id)
        names = list(session.scalars(query))
    rows.delete([w.id for w in rows.active()])
    return _requeue(store, rows, settings, names, datetime.now(UTC), questions=True)


def _requeue(
    store: Engine,
    rows: EngineRows,
    settings: Settings,
    names: Sequence[str],
    now: datetime,
    *,
    questions: bool = False,
) -> Requeued:
    begun, reposts, ids = [], [], []
    targets = configured_targets(settings)
    for name in names:
        with Session(store) as session, session.begin():
            row = session.get_one(InvestigationRow, name, with_for_update=True)
            # From now on every post of it is looked for at the vendor before it is made.
            key = forgotten_key(row.id)
            if session.get(PostRow, key) is None:
                session.add(
                    PostRow(
                        key=key, investigation_id=row.id, owner=OWNER, attempted_at=now - LONG_AGO
                    )
                )
            if row.status not in ENDED:
                # its runs' rows go: the engine would take a second workflow of the same name for
                # the first
                rows.delete([w.id for w in rows.of(name)])
                row.dispatched_at, row.status = None, "accepted"
                begun.append(name)
            elif _lacks_a_post(session, row, targets):
                # A newer revision makes a worker edit the messages, and post the missing ones.
                row.revision += 1
                reposts.append(name)
    if questions:
        with Session(store) as session, session.begin():
            for question in session.scalars(
                select(QuestionRow).where(QuestionRow.status == "asked")
            ).all():
                rows.delete([w.id for w in rows.of(f"question:{question.id}")])
                _ask_again(session, question, now)
                ids.append(question.id)
    return Requeued(tuple(begun), tuple(reposts), tuple(ids))


def _lacks_a_post(
    session: Session, row: InvestigationRow, targets: Sequence[ReplyTargetDeclaration[Any]]
) -> bool:
    """Whether a reply target has no recorded post of it."""
    posts = [session.get(PostRow, target.post_key(row.id)) for target in targets]
    return any(post is None or post.ref is None for post in posts)


def _ask_again(session: Session, question: QuestionRow, now: datetime) -> None:
    question.dispatched_at = None
    for key in (f"{question.id}:{ANSWER}", f"{question.id}:{FILE}"):
        if session.get(QuestionPostRow, key) is None:
            at = now - LONG_AGO
            session.add(
                QuestionPostRow(key=key, question_id=question.id, owner=OWNER, attempted_at=at)
            )
