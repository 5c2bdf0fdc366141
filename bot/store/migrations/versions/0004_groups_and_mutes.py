"""Groups of related alerts, what was muted, and alerts that were not investigated"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

INVESTIGATIONS = "investigations"
CHANNEL_INDEX = "ix_investigations_channel_accepted_at"


def upgrade() -> None:
    """Make them."""
    for column in _more_of_investigations():
        op.add_column(INVESTIGATIONS, column)
    op.create_index(CHANNEL_INDEX, INVESTIGATIONS, ["channel", "accepted_at"], unique=False)
    _grouped_alerts()
    op.create_table(
        "alert_keys",
        _investigation_id(),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        _of_an_investigation("alert_keys"),
        sa.PrimaryKeyConstraint(
            "investigation_id", "fingerprint", "key", name=op.f("pk_alert_keys")
        ),
    )
    op.create_index(op.f("ix_alert_keys_fingerprint"), "alert_keys", ["fingerprint"], unique=False)
    op.create_index("ix_alert_keys_key_at", "alert_keys", ["key", "at"], unique=False)
    _mutes()
    op.create_table(
        "held_alerts",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("alert", sa.JSON(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_held_alerts")),
    )
    op.create_index(op.f("ix_held_alerts_last_at"), "held_alerts", ["last_at"], unique=False)


def downgrade() -> None:
    """Drop them."""
    for index, table in (
        ("ix_held_alerts_last_at", "held_alerts"),
        ("ix_mutes_until", "mutes"),
        ("ix_mutes_fingerprint", "mutes"),
        ("ix_alert_keys_key_at", "alert_keys"),
        ("ix_alert_keys_fingerprint", "alert_keys"),
        ("uq_grouped_alerts_once", "grouped_alerts"),
        ("ix_grouped_alerts_fingerprint", "grouped_alerts"),
    ):
        op.drop_index(index, table)
    for table in ("held_alerts", "mutes", "alert_keys", "grouped_alerts"):
        op.drop_table(table)
    op.drop_index(CHANNEL_INDEX, INVESTIGATIONS)
    for column in reversed(_more_of_investigations()):
        op.drop_column(INVESTIGATIONS, column.name)


def _more_of_investigations() -> list[sa.Column[object]]:
    no, zero = sa.false(), sa.text("0")
    return [
        sa.Column("automatic", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column("channel", sa.String(), nullable=False, server_default=""),
        sa.Column("quiet_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("digested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("members", sa.Integer(), nullable=False, server_default=zero),
        sa.Column("surplus", sa.Integer(), nullable=False, server_default=zero),
        sa.Column("changes", sa.Integer(), nullable=False, server_default=zero),
        sa.Column("told", sa.Integer(), nullable=False, server_default=zero),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("wants_run", sa.Boolean(), nullable=False, server_default=no),
        sa.Column("runs", sa.Integer(), nullable=False, server_default=zero),
    ]


def _grouped_alerts() -> None:
    op.create_table(
        "grouped_alerts",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        _investigation_id(),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("open_fingerprint", sa.String(), nullable=True),
        sa.Column("alert", sa.JSON(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        _of_an_investigation("grouped_alerts"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grouped_alerts")),
        sa.UniqueConstraint("open_fingerprint", name=op.f("uq_grouped_alerts_open_fingerprint")),
    )
    op.create_index(
        op.f("ix_grouped_alerts_fingerprint"), "grouped_alerts", ["fingerprint"], unique=False
    )
    op.create_index(
        "uq_grouped_alerts_once", "grouped_alerts", ["investigation_id", "fingerprint"], unique=True
    )


def _mutes() -> None:
    op.create_table(
        "mutes",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("until_resolved", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("held", sa.Integer(), nullable=False),
        sa.Column("held_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mutes")),
    )
    for column in ("fingerprint", "until"):
        op.create_index(op.f(f"ix_mutes_{column}"), "mutes", [column], unique=False)


def _investigation_id() -> sa.Column[str]:
    return sa.Column("investigation_id", sa.String(), nullable=False)


def _of_an_investigation(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["investigation_id"],
        ["investigations.id"],
        name=op.f(f"fk_{table}_investigation_id_investigations"),
        ondelete="CASCADE",
    )
