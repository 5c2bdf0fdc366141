"""First tables"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "deliveries",
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("investigation_id", sa.String(), nullable=True),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("source", "delivery_id", name=op.f("pk_deliveries")),
    )
    op.create_index(op.f("ix_deliveries_received_at"), "deliveries", ["received_at"], unique=False)

    op.create_table(
        "investigations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("open_fingerprint", sa.String(), nullable=True),
        sa.Column("alert", sa.JSON(), nullable=False),
        sa.Column("question", sa.Text(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("slack_channel", sa.String(), nullable=True),
        sa.Column("slack_thread", sa.String(), nullable=True),
        sa.Column("pagerduty_incident", sa.String(), nullable=True),
        sa.Column("accepted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("verdict", sa.String(), nullable=True),
        sa.Column("confidence", sa.Float(), nullable=True),
        sa.Column("headline", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_investigations")),
        sa.UniqueConstraint("open_fingerprint", name=op.f("uq_investigations_open_fingerprint")),
    )
    op.create_index(
        op.f("ix_investigations_accepted_at"), "investigations", ["accepted_at"], unique=False
    )
    op.create_index(
        op.f("ix_investigations_fingerprint"), "investigations", ["fingerprint"], unique=False
    )
    op.create_index(op.f("ix_investigations_status"), "investigations", ["status"], unique=False)

    op.create_table(
        "posts",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("investigation_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("attempted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("posted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ref", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["investigation_id"],
            ["investigations.id"],
            name=op.f("fk_posts_investigation_id_investigations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_posts")),
    )
    op.create_index(op.f("ix_posts_investigation_id"), "posts", ["investigation_id"], unique=False)

    op.create_table(
        "progress",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("investigation_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stage", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["investigation_id"],
            ["investigations.id"],
            name=op.f("fk_progress_investigation_id_investigations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_progress")),
        sa.UniqueConstraint("key", name=op.f("uq_progress_key")),
    )
    op.create_index(
        "ix_progress_investigation_id_id", "progress", ["investigation_id", "id"], unique=False
    )


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_progress_investigation_id_id", "progress")

    op.drop_table("progress")
    op.drop_index(op.f("ix_posts_investigation_id"), "posts")

    op.drop_table("posts")
    op.drop_index(op.f("ix_investigations_status"), "investigations")
    op.drop_index(op.f("ix_investigations_fingerprint"), "investigations")
    op.drop_index(op.f("ix_investigations_accepted_at"), "investigations")

    op.drop_table("investigations")
    op.drop_index(op.f("ix_deliveries_received_at"), "deliveries")

    op.drop_table("deliveries")
