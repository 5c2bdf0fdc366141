"""What people asked for, what Slack says of channels, and mutes that cover critical alerts"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables and the column."""
    op.create_table(
        "person_acts",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("act", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_person_acts")),
    )
    op.create_index("ix_person_acts_who_act_at", "person_acts", ["who", "act", "at"])
    op.create_index(op.f("ix_person_acts_at"), "person_acts", ["at"])
    op.create_table(
        "slack_channels",
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("members", sa.JSON(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("channel", name=op.f("pk_slack_channels")),
    )
    with op.batch_alter_table("mutes") as mutes:
        # A mute that was made before roles keeps what it silenced.
        mutes.add_column(
            sa.Column("covers_critical", sa.Boolean(), nullable=False, server_default=sa.true())
        )


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("mutes") as mutes:
        mutes.drop_column("covers_critical")
    op.drop_table("slack_channels")
    op.drop_table("person_acts")
