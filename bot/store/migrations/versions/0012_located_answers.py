"""What an answer blames, and whether it says why, beside its headline"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

INVESTIGATIONS = "investigations"


def upgrade() -> None:
    """Make the columns. Of answers given before, the list knows neither."""
    op.add_column(INVESTIGATIONS, sa.Column("culprit", sa.Text(), nullable=True))
    op.add_column(INVESTIGATIONS, sa.Column("explained", sa.Boolean(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    op.drop_column(INVESTIGATIONS, "explained")
    op.drop_column(INVESTIGATIONS, "culprit")
