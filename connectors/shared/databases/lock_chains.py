"""Chains of locks in a database: from what each session waits for to the sessions at the head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.wording.amounts import SECONDS, amount
from faultline.analysis.wording.phrases import counted

LEAST_WAIT_S = 1.0
"""Shorter waits are usual: PostgreSQL looks for deadlocks, and logs a wait, after so long
(`deadlock_timeout`)."""


@dataclass(frozen=True)
class DatabaseSession:
    """One connection, times in seconds until now. Texts of clients are cut and masked."""

    id: str
    who: str
    """Application and user: "reports, user etl"."""
    doing: str
    """Its state: "idle in transaction"."""
    statement: str = ""
    open_s: float | None = None
    """How long its transaction has been open."""
    waits_for: tuple[str, ...] = ()
    """The ids of those that hold what it waits for."""
    waited_s: float | None = None
    lock: str = ""
    """What it waits for, such as a table."""


@dataclass(frozen=True)
class LockHolder:
    """A session that waits for nobody and for which others wait, directly or not."""

    id: str
    session: DatabaseSession | None
    """None where the server does not list it: a prepared transaction, a connection that just
    ended."""
    waiting: tuple[DatabaseSession, ...]

    @property
    def longest_wait_s(self) -> float:
        """Of those that wait."""
        return max((waiter.waited_s or 0.0 for waiter in self.waiting), default=0.0)

    def summary(self) -> str:
        """For humans: how many wait for which session, how long, on what, and what it does."""
        locks = sorted({waiter.lock for waiter in self.waiting if waiter.lock})
        text = (
            f"{counted(len(self.waiting), 'session')} up to {amount(self.longest_wait_s, SECONDS)}"
        )
        text += f" for {self._who()}"
        if locks:
            text += f", on {locks[0]}"
        if self.session is not None and self.session.statement:
            text += f"; its statement: {self.session.statement}"
        return text

    def _who(self) -> str:
        if self.session is None:
            return self.id
        session = self.session
        since = f" for {amount(session.open_s, SECONDS)}" if session.open_s is not None else ""
        return (
            f"session {session.id} "
            f"({', '.join(part for part in (session.who, session.doing) if part)}{since})"
        )


def lock_holders(sessions: Iterable[DatabaseSession]) -> list[LockHolder]:
    """The heads of all chains of waits of a second or more, the one that most wait for first.

    Sessions that wait for one another are their own head: the one that has waited longest.
    """
    by_id = {session.id: session for session in sessions}
    waiting: dict[str, dict[str, DatabaseSession]] = {}
    for session in by_id.values():
        if session.waits_for and (session.waited_s or 0.0) >= LEAST_WAIT_S:
            for head in _heads(session, by_id):
                if head != session.id:
                    waiting.setdefault(head, {})[session.id] = session
    holders = [LockHolder(i, by_id.get(i), tuple(w.values())) for i, w in waiting.items()]
    return sorted(
        holders, key=lambda holder: (-len(holder.waiting), -holder.longest_wait_s, holder.id)
    )


def _heads(start: DatabaseSession, by_id: Mapping[str, DatabaseSession]) -> Sequence[str]:
    """Where the ways from this session end."""
    # Remember visited sessions: deadlocked ones wait in a circle.
    sessions_by_blocker = {start.id: start}
    heads, ahead = set(), [start]
    while ahead:
        for blocker in ahead.pop().waits_for:
            # The end of a way waits for nobody, or the server does not list it.
            session = by_id.get(blocker)
            if session is None or not session.waits_for:
                heads.add(blocker)
            elif blocker not in sessions_by_blocker:
                sessions_by_blocker[blocker] = session
                ahead.append(session)
    if heads:
        return sorted(heads)
    # No end was found, so all wait in a circle; take the same head in every run.
    return [
        max(
            sessions_by_blocker.values(), key=lambda session: (session.waited_s or 0.0, session.id)
        ).id
    ]
