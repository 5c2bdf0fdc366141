"""Changes that are reported to the bot"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from faultline.bot.store.tables import UtcDateTime

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLE = "reported_changes"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        TABLE,
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.Column("service", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("diff", sa.Text(), nullable=False),
        sa.Column("place", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reported_changes")),
    )
    op.create_index(op.f("ix_reported_changes_at"), TABLE, ["at"], unique=False)


def downgrade() -> None:
    """Drop it."""
    op.drop_index(op.f("ix_reported_changes_at"), table_name=TABLE)
    op.drop_table(TABLE)
