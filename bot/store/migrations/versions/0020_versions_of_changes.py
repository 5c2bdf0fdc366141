"""Old and new version of a reported change"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

CHANGES = "reported_changes"


def upgrade() -> None:
    """Make the columns. Changes that were reported before have neither."""
    for name in ("before", "after"):
        op.add_column(CHANGES, sa.Column(name, sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop them."""
    op.drop_column(CHANGES, "after")
    op.drop_column(CHANGES, "before")
