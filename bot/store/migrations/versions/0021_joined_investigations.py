"""The investigation that another one became a part of"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

INVESTIGATIONS = "investigations"


def upgrade() -> None:
    """Make the column. Investigations that ended before joined none."""
    op.add_column(INVESTIGATIONS, sa.Column("joined_id", sa.String(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column(INVESTIGATIONS, "joined_id")
