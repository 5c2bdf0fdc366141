"""Machines of training jobs that were investigated"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "fleet_hosts",
        sa.Column("investigation_id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("fault", sa.String(), nullable=False),
        sa.Column("part", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["investigation_id"],
            ["investigations.id"],
            name=op.f("fk_fleet_hosts_investigation_id_investigations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("investigation_id", "host", name=op.f("pk_fleet_hosts")),
    )
    op.create_index(op.f("ix_fleet_hosts_host"), "fleet_hosts", ["host"])
    op.create_index(op.f("ix_fleet_hosts_at"), "fleet_hosts", ["at"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("fleet_hosts")
