"""Who may see the pages, and who looked at them"""

from __future__ import annotations

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""


def downgrade() -> None:
    """Drop them."""
