"""Indexes for the list of investigations: its order, and what it is filtered by"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# PostgreSQL takes JSON whose strings it cannot give as text (\u0000): such a field is null, and
# nothing fails.
FIELD = (
    "CREATE FUNCTION alert_field(alert json, name text) RETURNS text LANGUAGE plpgsql IMMUTABLE "
    "STRICT AS"
    " 'BEGIN RETURN alert ->> name; EXCEPTION WHEN data_exception THEN RETURN NULL; END'"
)
# Expressions written as faultline.bot.store.listing writes them. On SQLite one index holds all that
# the list is filtered by, so that a filter that few investigations pass reads the index and not
# every alert.
SQLITE = (
    "CREATE INDEX ix_investigations_listed ON investigations (accepted_at, id, status, verdict, "
    "confidence,"
    " fingerprint, json_extract(alert, '$.service'), json_extract(alert, '$.source'))",
    "CREATE INDEX ix_investigations_service ON investigations (json_extract(alert, '$.service'), "
    "accepted_at, id)",
    "CREATE INDEX ix_investigations_source ON investigations (json_extract(alert, '$.source'), "
    "accepted_at, id)",
)
POSTGRESQL = (
    FIELD,
    "CREATE INDEX ix_investigations_listed ON investigations (accepted_at, id, status, verdict, "
    "confidence,"
    " fingerprint)",
    "CREATE INDEX ix_investigations_service ON investigations (alert_field(alert, 'service'), "
    "accepted_at, id)",
    "CREATE INDEX ix_investigations_source ON investigations (alert_field(alert, 'source'), "
    "accepted_at, id)",
)
NAMES = ("ix_investigations_source", "ix_investigations_service", "ix_investigations_listed")


def upgrade() -> None:
    """Make them."""
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)


def downgrade() -> None:
    """Drop them."""
    for name in NAMES:
        op.execute(f"DROP INDEX {name}")
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION alert_field(json, text)")
