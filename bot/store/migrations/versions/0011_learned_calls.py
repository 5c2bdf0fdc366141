"""Calls between services that investigations learned"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from faultline.bot.store.tables import UtcDateTime

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TABLE = "learned_calls"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        TABLE,
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("caller", sa.String(), nullable=False),
        sa.Column("callee", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("last_seen", UtcDateTime(), nullable=False),
        sa.Column("investigation_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_learned_calls")),
    )
    for column in ("last_seen", "investigation_id"):
        op.create_index(op.f(f"ix_learned_calls_{column}"), TABLE, [column], unique=False)


def downgrade() -> None:
    """Drop it."""
    for column in ("last_seen", "investigation_id"):
        op.drop_index(op.f(f"ix_learned_calls_{column}"), table_name=TABLE)
    op.drop_table(TABLE)
