"""Which investigations a message outside is about, by the message's id or by its thread.

Synchronous; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Engine, or_, select

from faultline.bot.store.models import InvestigationRow, PostRow
from faultline.bot.store.reply_addresses import answered_at
from faultline.bot.store.sessions import reading

LOOKBACK = timedelta(days=30)
"""An answer without its own thread is only looked for among posts that are not older."""


def investigation_posted_as(engine: Engine, target: str, name: str) -> str | None:
    """The investigation whose message at this target has that id: its ref begins with it."""
    query = select(PostRow.investigation_id).where(*_posted_as(target, name)).limit(1)
    with reading(engine) as session:
        return session.scalar(query)


def investigations_in(
    engine: Engine, target: str, address: str, root: str, limit: int = 20
) -> Sequence[str]:
    """The investigations of a thread, the newest first: the one whose message begins it, and those
    whose answers go to its address. `root` is "" where no message begins it."""
    here: ColumnElement[bool] = (
        InvestigationRow.accepted_at >= datetime.now(UTC) - LOOKBACK
    ) & answered_at(target, address)
    if root:
        posted = select(PostRow.investigation_id).where(*_posted_as(target, root))
        here = or_(InvestigationRow.id.in_(posted), here)
    query = (
        select(InvestigationRow.id)
        .where(here)
        .order_by(InvestigationRow.accepted_at.desc(), InvestigationRow.id.desc())
        .limit(limit)
    )
    with reading(engine) as session:
        return session.scalars(query).all()


def _posted_as(target: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return (
        # With the blank, so that an id is not taken for the beginning of a longer one.
        PostRow.ref.startswith(f"{name} ", autoescape=True),
        PostRow.key.endswith(f":{target}", autoescape=True),
    )
