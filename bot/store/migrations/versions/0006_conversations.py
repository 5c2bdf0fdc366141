"""Questions asked of an investigation, and their answers"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "questions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("surface", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("thread", sa.String(), nullable=False),
        sa.Column("ts", sa.String(), nullable=False),
        sa.Column("about_channel", sa.String(), nullable=True),
        sa.Column("investigation_id", sa.String(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answer", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(
            ["investigation_id"],
            ["investigations.id"],
            name=op.f("fk_questions_investigation_id_investigations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_questions")),
    )
    op.create_index(
        "ix_questions_thread", "questions", ["channel", "thread", "asked_at"], unique=False
    )
    op.create_index("ix_questions_status", "questions", ["status", "asked_at"], unique=False)

    op.create_table(
        "question_posts",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("attempted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ref", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["question_id"],
            ["questions.id"],
            name=op.f("fk_question_posts_question_id_questions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_question_posts")),
    )
    op.create_index(
        op.f("ix_question_posts_question_id"), "question_posts", ["question_id"], unique=False
    )

    op.create_table(
        "quiet_threads",
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("thread", sa.String(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("channel", "thread", name=op.f("pk_quiet_threads")),
    )

    op.create_table(
        "further_investigations",
        sa.Column("investigation_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=False),
        sa.Column("window_start", sa.DateTime(timezone=True), nullable=True),
        sa.Column("window_end", sa.DateTime(timezone=True), nullable=True),
        sa.Column("services", sa.JSON(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["investigation_id"],
            ["investigations.id"],
            name=op.f("fk_further_investigations_investigation_id_investigations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("investigation_id", name=op.f("pk_further_investigations")),
        sa.UniqueConstraint("key", name=op.f("uq_further_investigations_key")),
    )
    op.create_index(
        op.f("ix_further_investigations_parent_id"),
        "further_investigations",
        ["parent_id"],
        unique=False,
    )
    op.create_index(
        "ix_investigations_slack_thread",
        "investigations",
        ["slack_channel", "slack_thread"],
        unique=False,
    )
    op.create_index(op.f("ix_posts_ref"), "posts", ["ref"], unique=False)


def downgrade() -> None:
    """Undo."""
    op.drop_index(op.f("ix_posts_ref"), "posts")
    op.drop_index("ix_investigations_slack_thread", "investigations")
    op.drop_index(op.f("ix_further_investigations_parent_id"), "further_investigations")

    op.drop_table("further_investigations")

    op.drop_table("quiet_threads")
    op.drop_index(op.f("ix_question_posts_question_id"), "question_posts")

    op.drop_table("question_posts")
    op.drop_index("ix_questions_status", "questions")
    op.drop_index("ix_questions_thread", "questions")

    op.drop_table("questions")
