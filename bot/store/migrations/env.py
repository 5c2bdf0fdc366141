"""Runs migrations on the connection that `bot.store.connect.migrate` hands over."""

from __future__ import annotations

from alembic import context

from bot.store.models import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
