"""Groups of related alerts, and what was muted"""

from __future__ import annotations

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""


def downgrade() -> None:
    """Drop them."""
