"""Runs migrations on the connection that `bot.store.connect.migrate` hands over."""

from __future__ import annotations

from typing import Any

from alembic import context

from bot.store import conversation_rows, storm_tables, visitor_tables
from bot.store.models import Base

DESCRIBED_BESIDE = (conversation_rows, storm_tables, visitor_tables)
"""Modules whose tables stand in files of their own: importing them makes them known."""

OWN_WAY = ("remembered_search", "ix_remembered_search")
"""The full-text index, which each database has in its own way: SQLite as tables, PostgreSQL as an index."""


def _is_described(name: str | None, _kind: str, _parents: Any) -> bool:
    """Whether the models describe what is so named."""
    return not (name or "").startswith(OWN_WAY)


connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=Base.metadata, render_as_batch=True, include_name=_is_described
)
with context.begin_transaction():
    context.run_migrations()
