"""Checks of deploys and of watched services"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "deploy_checks",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("team", sa.String(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("leased_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("looks_done", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deploy_checks")),
    )
    op.create_index(op.f("ix_deploy_checks_asked_at"), "deploy_checks", ["asked_at"])
    op.create_index(op.f("ix_deploy_checks_due_at"), "deploy_checks", ["due_at"])
    op.create_table(
        "watches",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("leased_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worse_in_a_row", sa.Integer(), nullable=False),
        sa.Column("alerted", sa.Boolean(), nullable=False),
        sa.Column("looked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_watches")),
    )
    op.create_index(op.f("ix_watches_due_at"), "watches", ["due_at"])


def downgrade() -> None:
    """Drop them."""
    op.drop_table("watches")
    op.drop_table("deploy_checks")
