"""Questions in the store: taken once, answered in the order of their thread, posted once.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Literal

from sqlalchemy import Engine, Select, bindparam, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from faultline.analysis.secrets.redaction import masked
from faultline.bot.store.connections import reading, storable
from faultline.bot.store.people_tables import QuestionPostRow, QuestionRow, QuietThreadRow
from faultline.bot.store.store import PostClaim
from faultline.bot.store.tables import InvestigationRow, PostRow
from faultline.connectors.shared.rows.named_ids import SEPARATOR

QuestionStatus = Literal["asked", "answered", "withdrawn", "given_up"]
MAX_ID = 200
MAX_TEXT = 2_000
STALE = timedelta(hours=1)
"""A question without an answer for this long no longer delays later ones of its thread."""


@dataclass(frozen=True)
class NewQuestion:
    """A question to be stored."""

    id: str
    event_id: str
    kind: str
    surface: str
    text: str
    who: str
    channel: str
    thread: str
    ts: str
    about_channel: str | None = None
    investigation_id: str | None = None


@dataclass(frozen=True)
class Question:
    """One stored question. `answer` is what was, or is to be, posted."""

    id: str
    kind: str
    surface: str
    text: str
    who: str
    channel: str
    thread: str
    ts: str
    about_channel: str | None
    investigation_id: str | None
    status: QuestionStatus
    requested_at: datetime
    answered_at: datetime | None
    answer: dict[str, Any] | None


@cache
def _undispatched() -> Select[str]:
    """Built once, as it is asked for all the time."""
    earlier = aliased(QuestionRow)
    before_it = (
        select(earlier.id)
        .where(
            earlier.channel == QuestionRow.channel,
            earlier.thread == QuestionRow.thread,
            earlier.status == "asked",
            earlier.kind != "trace",
            earlier.asked_at >= bindparam("since"),
            # The id breaks ties, so that of two questions of one moment one goes first.
            or_(
                earlier.asked_at < QuestionRow.asked_at,
                (earlier.asked_at == QuestionRow.asked_at) & (earlier.id < QuestionRow.id),
            ),
        )
        .exists()
    )
    return (
        select(QuestionRow.id)
        .where(QuestionRow.status == "asked", QuestionRow.dispatched_at.is_(None))
        .where(or_(QuestionRow.kind == "trace", ~before_it))
        .order_by(QuestionRow.asked_at)
        .limit(bindparam("most"))
    )


class Conversations:
    """All questions, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def thread_of(self, channel: str, thread: str) -> str | None:
        """The newest investigation that is answered in this thread, or None: then the thread is
        none of ours."""
        return next(iter(self.in_thread(channel, thread, 1)), None)

    def has_trace(self, channel: str, thread: str) -> bool:
        """Whether the trace doctor answered in this thread."""
        query = select(QuestionRow.id).where(
            QuestionRow.channel == channel,
            QuestionRow.thread == thread,
            QuestionRow.kind == "trace",
            QuestionRow.status == "answered",
        )
        with self._read() as session:
            return session.scalar(query.limit(1)) is not None

    def take(self, new: NewQuestion, *, now: datetime | None = None) -> bool:
        """Keep a question; whether it is new. The second of two events about one message changes
        nothing."""
        now = now or datetime.now(UTC)
        try:
            with self._write() as session:
                if session.get(QuestionRow, new.id[:MAX_ID]) is not None:
                    return False
                # Retention may have deleted the investigation, and the column refers to its row.
                about = new.investigation_id
                is_stored = about is not None and session.get(InvestigationRow, about) is not None
                session.add(
                    QuestionRow(
                        id=new.id[:MAX_ID],
                        event_id=storable(new.event_id, MAX_ID),
                        kind=new.kind,
                        surface=new.surface,
                        text=storable(masked(new.text), MAX_TEXT),
                        who=storable(new.who, MAX_ID),
                        channel=new.channel,
                        thread=new.thread,
                        ts=new.ts,
                        about_channel=new.about_channel,
                        investigation_id=about if is_stored else None,
                        asked_at=now,
                    )
                )
        except IntegrityError:  # another process took the same message at the same moment
            return False
        return True

    def edit(self, question_id: str, text: str) -> bool:
        """The message was edited before it was answered; whether that changed anything."""
        return self._change(question_id, text=storable(masked(text), MAX_TEXT))

    def withdraw(self, question_id: str) -> bool:
        """The message was deleted before it was answered: then it is not answered."""
        return self._change(question_id, status="withdrawn")

    def count_questions(self, channel: str, thread: str, since: datetime) -> int:
        """How many questions this thread has asked since then."""
        query = select(func.count()).where(
            QuestionRow.channel == channel,
            QuestionRow.thread == thread,
            QuestionRow.asked_at >= since,
        )
        with self._read() as session:
            return session.scalar(query) or 0

    def is_talking(self, channel: str, thread: str, who: str, since: datetime) -> bool:
        """Whether this person has asked us something in this thread since then."""
        query = select(QuestionRow.id).where(
            QuestionRow.channel == channel,
            QuestionRow.thread == thread,
            QuestionRow.who == who,
            QuestionRow.asked_at >= since,
        )
        with self._read() as session:
            return session.scalar(query.limit(1)) is not None

    def undispatched(self, limit: int, *, now: datetime | None = None) -> Sequence[str]:
        """Questions for the engine: of each thread the oldest, and none before its predecessor is
        done.

        A trace takes minutes, so it waits for nobody and nobody waits for it.
        """
        since = (now or datetime.now(UTC)) - STALE
        with self._read() as session:
            return session.scalars(_undispatched(), {"since": since, "most": limit}).all()

    def mark_dispatched(self, ids: Sequence[str]) -> None:
        """Remember that the engine has them."""
        with self._write() as session:
            session.execute(
                update(QuestionRow)
                .where(QuestionRow.id.in_(ids))
                .values(dispatched_at=datetime.now(UTC))
            )

    def get(self, question_id: str) -> Question | None:
        """One question, or None."""
        with self._read() as session:
            row = session.get(QuestionRow, question_id)
            return _question(row) if row else None

    def earlier(self, question: Question, limit: int = 10) -> list[Question]:
        """The answered questions of the same thread before this one, the newest first."""
        query = (
            select(QuestionRow)
            .where(QuestionRow.channel == question.channel, QuestionRow.thread == question.thread)
            .where(QuestionRow.status == "answered", QuestionRow.asked_at <= question.requested_at)
            .where(QuestionRow.id != question.id)
            .order_by(QuestionRow.asked_at.desc())
            .limit(limit)
        )
        with self._read() as session:
            return [_question(row) for row in session.scalars(query)]

    def keep_answer(
        self, question_id: str, answer: dict[str, Any], investigation_id: str | None
    ) -> dict[str, Any]:
        """Keep the words of the answer; of two workers the first one's words stand. Returns those
        that stand."""
        with self._write() as session:
            row = session.get_one(QuestionRow, question_id, with_for_update=True)
            if row.answer is None:
                row.answer = answer
                row.investigation_id = investigation_id
            return row.answer

    def finish(self, question_id: str, status: QuestionStatus) -> None:
        """It was answered or abandoned."""
        with self._write() as session:
            row = session.get_one(QuestionRow, question_id)
            if row.status == "asked":
                row.status = status
                row.answered_at = datetime.now(UTC)

    def waiting(self) -> int:
        """How many questions wait for their answer."""
        with self._read() as session:
            return session.scalar(select(func.count()).where(QuestionRow.status == "asked")) or 0

    def silence(self, channel: str, thread: str, who: str, *, quiet: bool) -> None:
        """From now on speak in this thread only when mentioned; or listen again."""
        with self._write() as session:
            row = session.get(QuietThreadRow, (channel, thread))
            if quiet and row is None:
                now = datetime.now(UTC)
                session.add(
                    QuietThreadRow(
                        channel=channel, thread=thread, who=storable(who, MAX_ID), at=now
                    )
                )
            elif not quiet and row is not None:
                session.delete(row)

    def is_quiet(self, channel: str, thread: str) -> bool:
        """Whether somebody asked for silence there."""
        with self._read() as session:
            return session.get(QuietThreadRow, (channel, thread)) is not None

    def claim_post(self, key: str, question_id: str, *, owner: str, lease: timedelta) -> PostClaim:
        """Claim the right to post under `key`, as `faultline.bot.store.store.Store.claim_post` does
        for investigations."""
        now = datetime.now(UTC)
        with self._write() as session:
            # Locked: of two workers that claim at once, the second sees the first one's claim.
            row = session.get(QuestionPostRow, key, with_for_update=True)
            if row is None:
                session.add(
                    QuestionPostRow(key=key, question_id=question_id, owner=owner, attempted_at=now)
                )
                return PostClaim(mine=True)
            before = row.attempted_at
            if row.ref is not None:
                return PostClaim(mine=False, ref=row.ref, attempted_before=before)
            if row.owner != owner and abs(now - before) < lease:
                # `abs`: a clock that was set back must not extend the lease.
                return PostClaim(mine=False, attempted_before=before)
            row.owner, row.attempted_at = owner, now
            return PostClaim(mine=True, attempted_before=before)

    def record_post(self, key: str, ref: str) -> None:
        """Slack has it, under `ref`."""
        with self._write() as session:
            session.get_one(QuestionPostRow, key).ref = ref

    def release_post(self, key: str, *, owner: str) -> None:
        """Forget the owner's attempt, which certainly posted nothing."""
        row = QuestionPostRow
        with self._write() as session:
            session.execute(
                delete(row).where(row.key == key, row.owner == owner, row.ref.is_(None))
            )

    def in_channel(self, channel: str, limit: int) -> Sequence[str]:
        """The newest investigations that are answered in this channel, the newest first."""
        posted = select(PostRow.investigation_id).where(
            PostRow.ref.startswith(f"{channel}/", autoescape=True)
        )
        query = (
            select(InvestigationRow.id)
            .where(or_(InvestigationRow.slack_channel == channel, InvestigationRow.id.in_(posted)))
            .order_by(InvestigationRow.accepted_at.desc(), InvestigationRow.id.desc())
            .limit(limit)
        )
        with self._read() as session:
            return session.scalars(query).all()

    def in_workspace(self, workspace: str, target: str, limit: int) -> Sequence[str]:
        """The newest investigations that came from this workspace or were posted there by its
        reply target, the newest first."""
        # The key of a post is `investigation:target`.
        key = InvestigationRow.id.concat(f":{target}")
        has_post = select(PostRow.key).where(PostRow.key == key).exists()
        prefix = f"{workspace}{SEPARATOR}"
        came = InvestigationRow.slack_channel.startswith(prefix, autoescape=True)
        query = (
            select(InvestigationRow.id)
            .where(or_(came, has_post))
            .order_by(InvestigationRow.accepted_at.desc(), InvestigationRow.id.desc())
            .limit(limit)
        )
        with self._read() as session:
            return session.scalars(query).all()

    def in_thread(self, channel: str, thread: str, limit: int = 20) -> Sequence[str]:
        """The investigations that are answered in this thread, the newest first."""
        # A post's reference is `channel/ts`, and a thread is named by the ts of its first message.
        posted = select(PostRow.investigation_id).where(PostRow.ref == f"{channel}/{thread}")
        here = (InvestigationRow.slack_channel == channel) & (
            InvestigationRow.slack_thread == thread
        )
        query = (
            select(InvestigationRow.id)
            .where(or_(here, InvestigationRow.id.in_(posted)))
            .order_by(InvestigationRow.accepted_at.desc(), InvestigationRow.id.desc())
            .limit(limit)
        )
        with self._read() as session:
            return session.scalars(query).all()

    def _change(self, question_id: str, **values: str) -> bool:
        """Only while nobody has begun to word the answer."""
        with self._write() as session:
            row = session.get(QuestionRow, question_id[:MAX_ID], with_for_update=True)
            if row is None or row.status != "asked" or row.answer is not None:
                return False
            for name, value in values.items():
                setattr(row, name, value)
            return True

    @contextmanager
    def _write(self) -> Iterator[Session]:
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    def _read(self) -> Session:
        return reading(self.engine)


def _question(row: QuestionRow) -> Question:
    return Question(
        id=row.id,
        kind=row.kind,
        surface=row.surface,
        text=row.text,
        who=row.who,
        channel=row.channel,
        thread=row.thread,
        ts=row.ts,
        about_channel=row.about_channel,
        investigation_id=row.investigation_id,
        status=row.status,  # type: ignore[arg-type]
        requested_at=row.asked_at,
        answered_at=row.answered_at,
        answer=row.answer,
    )
