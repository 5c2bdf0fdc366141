"""Questions asked of an investigation, and their answers"""

from __future__ import annotations

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""


def downgrade() -> None:
    """Drop them."""
