"""When things last happened"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from faultline.bot.store.tables import UtcDateTime

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLE = "last_times"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        TABLE,
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_last_times")),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table(TABLE)
