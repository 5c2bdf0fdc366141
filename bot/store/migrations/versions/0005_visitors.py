"""Who may see the pages, and who looked at them"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "visitors",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_visitors")),
        sa.UniqueConstraint("issuer", "subject", name="uq_visitors_issuer_subject"),
    )

    op.create_table(
        "sessions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("visitor_id", sa.Integer(), nullable=False),
        sa.Column("proof", sa.String(), nullable=False),
        sa.Column("provider_session", sa.String(), nullable=True),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("belongs_to", sa.JSON(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["visitor_id"],
            ["visitors.id"],
            name=op.f("fk_sessions_visitor_id_visitors"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    for column in ("expires_at", "provider_session", "visitor_id"):
        op.create_index(op.f(f"ix_sessions_{column}"), "sessions", [column], unique=False)

    op.create_table(
        "visits",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("investigation_id", sa.String(), nullable=True),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_visits")),
    )
    for column in ("at", "investigation_id", "who"):
        op.create_index(op.f(f"ix_visits_{column}"), "visits", [column], unique=False)


def downgrade() -> None:
    """Drop them."""
    for column in ("who", "investigation_id", "at"):
        op.drop_index(op.f(f"ix_visits_{column}"), "visits")

    op.drop_table("visits")
    for column in ("visitor_id", "provider_session", "expires_at"):
        op.drop_index(op.f(f"ix_sessions_{column}"), "sessions")

    op.drop_table("sessions")
    op.drop_table("visitors")
