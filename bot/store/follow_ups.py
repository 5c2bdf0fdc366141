"""Follow-up investigations: started from another one, each exactly once, with another window or
more services.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Engine, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Scope, Window
from faultline.bot.store.conversation_rows import FollowUpRow
from faultline.bot.store.memory import storable
from faultline.bot.store.models import InvestigationRow
from faultline.bot.store.reply_addresses import address_columns, answered_at
from faultline.bot.store.sessions import reading
from faultline.bot.store.store import ReplyTo, StoredInvestigation, new_investigation_id

MAX_SERVICES = 20
GENERATIONS = 50
"""A chain of follow-ups is followed this far back."""
MAX_QUESTION = 2_000


@dataclass(frozen=True)
class FollowUpScope:
    """What a follow-up investigates instead of its alert's scope; empty repeats that scope."""

    window: Window | None = None
    services: tuple[str, ...] = ()


class FollowUps:
    """All follow-ups, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def start(
        self,
        parent: StoredInvestigation,
        scope: FollowUpScope,
        *,
        key: str,
        question: str,
        who: str,
        reply_to: ReplyTo,
        now: datetime | None = None,
    ) -> tuple[str, bool]:
        """Start one from `parent`; (its id, whether it is new). The same `key` again starts
        nothing.

        It joins no open alert and no later alert joins it: its fingerprint is its own.
        """
        now = now or datetime.now(UTC)
        # Of two workers that start it at once, one fails, and finds the other's row in a retry.
        for attempt in (1, 2):
            try:
                with Session(self._engine, expire_on_commit=False) as session, session.begin():
                    row = session.scalar(select(FollowUpRow).where(FollowUpRow.key == key))
                    if row is not None:
                        return row.investigation_id, False
                    fresh = _investigation(parent, key, question, reply_to, now)
                    session.add(fresh)
                    # The follow-up's row refers to this one.
                    session.flush()
                    session.add(_follow_up(fresh.id, parent.id, scope, key, who))
                return fresh.id, True
            except IntegrityError:  # another worker started it at the same moment
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def has_key(self, key: str) -> bool:
        """Whether one was started under this key."""
        with reading(self._engine) as session:
            return session.scalar(select(FollowUpRow.key).where(FollowUpRow.key == key)) is not None

    def scope(self, investigation_id: str) -> FollowUpScope | None:
        """What it looks at; None for an investigation that was not started from another one."""
        with reading(self._engine) as session:
            row = session.get(FollowUpRow, investigation_id)
            if row is None:
                return None
            window = (
                Window(start=row.window_start, end=row.window_end)
                if row.window_start and row.window_end
                else None
            )
            return FollowUpScope(window, tuple(row.services))

    def parent(self, investigation_id: str) -> str | None:
        """The investigation that it was started from."""
        with reading(self._engine) as session:
            return session.scalar(
                select(FollowUpRow.parent_id).where(
                    FollowUpRow.investigation_id == investigation_id
                )
            )

    def first(self, investigation_id: str) -> str:
        """The first investigation of its chain of follow-ups; itself, when it is in none."""
        for _ in range(GENERATIONS):
            parent = self.parent(investigation_id)
            if parent is None:
                break
            investigation_id = parent
        return investigation_id

    def started_from(self, parent_id: str) -> Sequence[str]:
        """The investigations that were started from this one, the oldest first."""
        query = select(FollowUpRow.investigation_id).where(FollowUpRow.parent_id == parent_id)
        with reading(self._engine) as session:
            return session.scalars(query.order_by(FollowUpRow.investigation_id)).all()

    def count_since(self, channel: str, thread: str, since: datetime) -> int:
        """How many this thread of Slack has asked for since then."""
        row = InvestigationRow
        return self._count(since, row.slack_channel == channel, row.slack_thread == thread)

    def count_at(self, target: str, address: str, since: datetime) -> int:
        """How many are answered at this address of another reply target since then."""
        return self._count(since, answered_at(target, address))

    def _count(self, since: datetime, *where: ColumnElement[bool]) -> int:
        query = (
            select(func.count())
            .select_from(FollowUpRow)
            .join(InvestigationRow, InvestigationRow.id == FollowUpRow.investigation_id)
            .where(InvestigationRow.accepted_at >= since, *where)
        )
        with reading(self._engine) as session:
            return session.scalar(query) or 0


def follow_up_scope(scope: Scope, follow_up: FollowUpScope | None) -> Scope:
    """The scope of a follow-up: its window, against one of the same length before it, and its
    services added."""
    if follow_up is None:
        return scope
    changed: dict[str, object] = {}
    if follow_up.services:
        changed["services"] = tuple(dict.fromkeys((*scope.services, *follow_up.services)))
    if follow_up.window is not None:
        window = follow_up.window
        first = scope.baseline[0] if scope.baseline else None
        # A short window still gets a baseline as long as the alert's own.
        length = max(window.end - window.start, first.end - first.start if first else timedelta(0))
        baseline = Window(start=window.start - length, end=window.start)
        changed |= {
            "incident": window,
            "baseline": (baseline,),
            "baseline_logs": None,
            "baseline_spans": None,
        }
    return scope.model_copy(update=changed)


def _investigation(
    parent: StoredInvestigation, key: str, question: str, reply_to: ReplyTo, now: datetime
) -> InvestigationRow:
    hexdigest = hashlib.sha256(f"further\x00{key}".encode("utf-8", "replace")).hexdigest()[:16]
    return InvestigationRow(
        id=new_investigation_id(now),
        fingerprint=hexdigest,
        open_fingerprint=None,
        alert=parent.alert.model_dump(mode="json"),
        question=storable(masked(question), MAX_QUESTION) or None,
        # A follow-up amends the incident's note when somebody asks for that, not by itself.
        **address_columns(replace(reply_to, pagerduty_incident=None)),
        accepted_at=now,
        automatic=False,
        team=parent.team,
    )


def _follow_up(
    investigation_id: str, parent_id: str, scope: FollowUpScope, key: str, who: str
) -> FollowUpRow:
    window = scope.window
    return FollowUpRow(
        investigation_id=investigation_id,
        key=key,
        parent_id=parent_id,
        window_start=window.start if window else None,
        window_end=window.end if window else None,
        services=[storable(s, 200) for s in scope.services[:MAX_SERVICES]],
        who=storable(who, 200),
    )
