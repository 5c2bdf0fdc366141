"""Runs migrations on the connection that `faultline.bot.store.databases.migrate` hands over."""

from __future__ import annotations

import warnings
from typing import Any

from alembic import context

from faultline.bot.store import people_tables  # noqa: F401  importing them registers the tables
from faultline.bot.store.tables import Base

LISTED = ("ix_investigations_listed", "ix_investigations_service", "ix_investigations_source")
DIALECT_SPECIFIC = ("remembered_search", "ix_remembered_search", *LISTED)
"""What each database has in its own way: the full-text index, as tables and as an index; indexes on
fields of JSON."""


def _is_described(name: str | None, _kind: str, _parents: Any) -> bool:
    """Whether the models describe what is so named."""
    return not (name or "").startswith(DIALECT_SPECIFIC)


connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    render_as_batch=True,
    include_name=_is_described,
)
with context.begin_transaction(), warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", message="Skipped unsupported reflection of expression-based index"
    )
    context.run_migrations()
