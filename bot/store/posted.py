"""Which investigation a message outside is about, by the message's id.

Synchronous; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from sqlalchemy import Engine, select

from bot.store.models import PostRow
from bot.store.sessions import reading


def investigation_posted_as(engine: Engine, target: str, name: str) -> str | None:
    """The investigation whose message at this target has that id: its ref begins with it."""
    query = (
        select(PostRow.investigation_id)
        .where(PostRow.ref.startswith(f"{name} ", autoescape=True))
        .where(PostRow.key.endswith(f":{target}", autoescape=True))
        .limit(1)
    )
    with reading(engine) as session:
        return session.scalar(query)
