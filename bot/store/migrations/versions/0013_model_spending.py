"""What the language model took, by day and channel"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TABLE = "model_spending"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        TABLE,
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("day", "channel", name=op.f("pk_model_spending")),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table(TABLE)
