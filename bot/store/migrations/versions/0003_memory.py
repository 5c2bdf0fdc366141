"""Memory: investigations that can be found again, by full text too, and what people said of their
answers"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# https://sqlite.org/fts5.html#external_content_tables; its ascii tokenizer splits at blanks alone,
# as `words` holds no other character below 128 that is no letter or digit.
SQLITE_SEARCH = (
    "CREATE VIRTUAL TABLE remembered_search USING fts5("
    "words, content='remembered', content_rowid='id', tokenize='ascii')",
    "CREATE TRIGGER remembered_added AFTER INSERT ON remembered BEGIN"
    " INSERT INTO remembered_search(rowid, words) VALUES (new.id, new.words); END",
    "CREATE TRIGGER remembered_gone AFTER DELETE ON remembered BEGIN"
    " INSERT INTO remembered_search(remembered_search, rowid, words) VALUES ('delete', old.id, "
    "old.words); END",
    "CREATE TRIGGER remembered_changed AFTER UPDATE ON remembered BEGIN"
    " INSERT INTO remembered_search(remembered_search, rowid, words) VALUES ('delete', old.id, "
    "old.words);"
    " INSERT INTO remembered_search(rowid, words) VALUES (new.id, new.words); END",
)
# https://www.postgresql.org/docs/current/textsearch-tables.html; the words are split already, so no
# parser or dictionary, which depend on the server's locale, comes into it.
POSTGRESQL_SEARCH = (
    "CREATE INDEX ix_remembered_search ON remembered USING gin "
    "(array_to_tsvector(string_to_array(words, ' ')))",
)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "remembered",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("investigation_id", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("alike", sa.String(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["investigation_id"],
            ["investigations.id"],
            name=op.f("fk_remembered_investigation_id_investigations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_remembered")),
        sa.UniqueConstraint("investigation_id", name=op.f("uq_remembered_investigation_id")),
    )
    for column in ("at", "fingerprint", "alike"):
        op.create_index(op.f(f"ix_remembered_{column}"), "remembered", [column], unique=False)
    for statement in SQLITE_SEARCH if op.get_bind().dialect.name == "sqlite" else POSTGRESQL_SEARCH:
        op.execute(statement)

    op.create_table(
        "remembered_services",
        sa.Column("investigation_id", sa.String(), nullable=False),
        sa.Column("service", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["investigation_id"],
            ["remembered.investigation_id"],
            name=op.f("fk_remembered_services_investigation_id_remembered"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("investigation_id", "service", name=op.f("pk_remembered_services")),
    )
    op.create_index(
        op.f("ix_remembered_services_service"), "remembered_services", ["service"], unique=False
    )

    op.create_table(
        "labels",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("investigation_id", sa.String(), nullable=False),
        sa.Column("is_right", sa.Boolean(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["investigation_id"],
            ["investigations.id"],
            name=op.f("fk_labels_investigation_id_investigations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_labels")),
    )
    op.create_index(
        op.f("ix_labels_investigation_id"), "labels", ["investigation_id"], unique=False
    )


def downgrade() -> None:
    """Undo."""
    op.drop_index(op.f("ix_labels_investigation_id"), "labels")

    op.drop_table("labels")
    op.drop_index(op.f("ix_remembered_services_service"), "remembered_services")

    op.drop_table("remembered_services")
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE remembered_search")
    else:
        op.execute("DROP INDEX ix_remembered_search")
    for column in ("alike", "fingerprint", "at"):
        op.drop_index(op.f(f"ix_remembered_{column}"), "remembered")

    op.drop_table("remembered")
