"""What people said of answers: right or wrong, and what the cause was. From this the record of
answers is counted.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Engine, Select, func, select
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import RecordLevel, level_of
from faultline.analysis.secrets.redaction import masked
from faultline.bot.policy.people import without_mentions
from faultline.bot.store.memory import storable
from faultline.bot.store.models import InvestigationRow, LabelRow
from faultline.bot.store.sessions import reading
from faultline.bot.store.visibility import ALL, Visibility

MAX_CAUSE = 2_000
MAX_WHO = 200
COUNTED = 10_000
"""The newest labelled answers make the record."""
NO_ANSWER = "insufficient_evidence"
"""A verdict that is no answer: it can be neither right nor wrong about a cause."""


@dataclass(frozen=True)
class AnswerLabel:
    """One judgement of an answer. `cause` is empty where none was given."""

    investigation_id: str
    right: bool
    cause: str
    who: str
    at: datetime


@dataclass(frozen=True)
class Record:
    """Of `of` answers that were judged, `right` were right."""

    right: int
    of: int


class Labels:
    """All judgements that can be seen, on the tables of `faultline.bot.store`. The newest of an
    investigation holds."""

    def __init__(self, engine: Engine, visibility: Visibility = ALL) -> None:
        self._engine = engine
        self._visibility = visibility

    def visible_to(self, visibility: Visibility) -> Labels:
        """The same for somebody who sees less."""
        return Labels(self._engine, visibility)

    def write(
        self,
        investigation_id: str,
        *,
        right: bool,
        cause: str = "",
        who: str = "",
        now: datetime | None = None,
    ) -> AnswerLabel | None:
        """Keep a judgement; None when there is no such investigation. A judgement that already
        holds is not kept twice."""
        answer_label = AnswerLabel(
            investigation_id,
            right,
            # A person's words may hold a secret, or a mention that notifies others when quoted.
            storable(masked(without_mentions(cause).strip()), MAX_CAUSE),
            storable(who.strip(), MAX_WHO),
            now or datetime.now(UTC),
        )
        with Session(self._engine) as session, session.begin():
            if session.get(InvestigationRow, investigation_id) is None:
                return None
            row = session.scalar(_newest().where(LabelRow.investigation_id == investigation_id))
            if row is not None and (row.right, row.cause, row.who) == (
                right,
                answer_label.cause,
                answer_label.who,
            ):
                return _label(row)
            session.add(
                LabelRow(
                    investigation_id=investigation_id,
                    right=right,
                    cause=answer_label.cause,
                    who=answer_label.who,
                    at=answer_label.at,
                )
            )
        return answer_label

    def get(self, investigation_id: str) -> AnswerLabel | None:
        """The judgement that holds, or None."""
        return self.of([investigation_id]).get(investigation_id)

    def of(self, investigation_ids: Collection[str]) -> dict[str, AnswerLabel]:
        """The judgements that hold of these investigations."""
        query = _newest().where(
            LabelRow.investigation_id.in_(list(investigation_ids)), *self._visible()
        )
        with reading(self._engine) as session:
            return {row.investigation_id: _label(row) for row in session.scalars(query)}

    def all(self, limit: int = COUNTED) -> list[AnswerLabel]:
        """The judgements that hold, the newest first."""
        query = _newest().where(*self._visible()).order_by(LabelRow.id.desc()).limit(limit)
        with reading(self._engine) as session:
            return [_label(row) for row in session.scalars(query)]

    def count(self) -> int:
        """How many answers were judged."""
        with reading(self._engine) as session:
            return (
                session.scalar(
                    select(func.count(LabelRow.investigation_id.distinct())).where(*self._visible())
                )
                or 0
            )

    def record(self, *, but: str | None = None) -> tuple[RecordLevel, ...]:
        """How many answers were right, at each level of confidence that has judged ones; `but` one
        investigation."""
        query = (
            select(InvestigationRow.confidence, LabelRow.right)
            .join(InvestigationRow, InvestigationRow.id == LabelRow.investigation_id)
            .where(LabelRow.id.in_(newest_ids()), InvestigationRow.confidence.is_not(None))
            .where(
                InvestigationRow.verdict != NO_ANSWER,
                InvestigationRow.id != (but or ""),
                *self._visibility.where(),
            )
            .order_by(LabelRow.id.desc())
            .limit(COUNTED)
        )
        of: Counter[int] = Counter()
        right: Counter[int] = Counter()
        with reading(self._engine) as session:
            for confidence, is_right in session.execute(query):
                of[level_of(confidence or 0.0)] += 1
                right[level_of(confidence or 0.0)] += is_right
        return tuple(
            RecordLevel(level=level, right=right[level], of=of[level]) for level in sorted(of)
        )

    def record_at(self, confidence: float, *, but: str | None = None) -> Record:
        """How many answers at a similar confidence, the same tenth, were right."""
        level = level_of(confidence)
        return next(
            (Record(r.right, r.of) for r in self.record(but=but) if r.level == level), Record(0, 0)
        )

    def _visible(self) -> list[ColumnElement[bool]]:
        """The condition on rows; nothing where all are seen."""
        return (
            [LabelRow.investigation_id.in_(self._visibility.ids())]
            if not self._visibility.is_all
            else []
        )


def _newest() -> Select[LabelRow]:
    return select(LabelRow).where(LabelRow.id.in_(newest_ids()))


def newest_ids() -> Select[int]:
    """Ids of the judgements that hold."""
    # Ids grow with each judgement, so the highest is the newest.
    return select(func.max(LabelRow.id)).group_by(LabelRow.investigation_id)


def _label(row: LabelRow) -> AnswerLabel:
    cause = without_mentions(row.cause)
    return AnswerLabel(row.investigation_id, row.right, cause, row.who, row.at)
