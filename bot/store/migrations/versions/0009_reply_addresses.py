"""Addresses at reply targets of other packages"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

INVESTIGATIONS = "investigations"


def upgrade() -> None:
    """Make the column. What was accepted before has only the addresses in its columns."""
    op.add_column(INVESTIGATIONS, sa.Column("reply_addresses", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Drop it."""
    op.drop_column(INVESTIGATIONS, "reply_addresses")
