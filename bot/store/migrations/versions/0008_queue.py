"""Teams and priorities of what waits, and which first messages are due"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

INVESTIGATIONS = "investigations"
USUAL = sa.text("2")
PARTIAL = {
    "ix_investigations_waiting": (
        ["priority", "team", "accepted_at", "id"],
        "dispatched_at IS NULL",
    ),
    "ix_investigations_unannounced": (
        ["channel", "priority", "accepted_at"],
        "announced_at IS NULL",
    ),
}


def upgrade() -> None:
    """Make them. What was accepted before is usual, of no team, and announced by its workflow."""
    for column in _more_of_investigations():
        op.add_column(INVESTIGATIONS, column)
    op.execute("UPDATE investigations SET announced_at = accepted_at")
    op.create_index(
        "ix_investigations_status_dispatched_at",
        INVESTIGATIONS,
        ["status", "dispatched_at"],
        unique=False,
    )
    for name, (columns, condition) in PARTIAL.items():
        where = sa.text(condition)
        op.create_index(
            name, INVESTIGATIONS, columns, unique=False, sqlite_where=where, postgresql_where=where
        )


def downgrade() -> None:
    """Drop them."""
    for name in (*PARTIAL, "ix_investigations_status_dispatched_at"):
        op.drop_index(name, INVESTIGATIONS)
    for column in reversed(_more_of_investigations()):
        op.drop_column(INVESTIGATIONS, column.name)


def _more_of_investigations() -> list[sa.Column[object]]:
    return [
        sa.Column("team", sa.String(), nullable=False, server_default=""),
        sa.Column("priority", sa.SmallInteger(), nullable=False, server_default=USUAL),
        sa.Column("announced_at", sa.DateTime(timezone=True), nullable=True),
    ]
