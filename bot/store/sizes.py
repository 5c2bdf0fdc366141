"""How large the databases are: on disk, unused inside, and rows by table. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, func, inspect, select, table, text

PG_TABLES = """
SELECT c.relname, greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname IN (current_schema(), 'dbos')
"""
"""Rows as the last VACUUM or ANALYZE estimated them: counting takes long on large tables
(https://www.postgresql.org/docs/current/catalog-pg-class.html)."""

WORDS_INDEX = "remembered_search"
"""SQLite keeps a full-text index as tables."""


@dataclass(frozen=True)
class TableSize:
    """`bytes` with its indexes; None on SQLite, which would have to read the whole file."""

    name: str
    rows: int
    bytes: int | None


def database_bytes(engine: Engine) -> int:
    """The room on disk, the engine's tables and SQLite's logs included."""
    if engine.dialect.name == "sqlite":
        file = Path(engine.url.database or "")
        # `*.sqlite*` matches the engine's file and the write-ahead logs too.
        return sum(path.stat().st_size for path in file.parent.glob(f"*{file.suffix}*"))
    with engine.connect() as connection:
        requested_text = text("SELECT pg_database_size(current_database())")
        return int(connection.execute(requested_text).scalar_one())


def unused_bytes(engine: Engine) -> int:
    """Freed pages of an SQLite file, which are used again before it grows; 0 for PostgreSQL."""
    if engine.dialect.name != "sqlite":
        return 0
    with engine.execution_options(reads_only=True).connect() as connection:
        free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
        page = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    return int(free) * int(page)


def table_sizes(engine: Engine) -> list[TableSize]:
    """The tables of one database, the largest first."""
    with engine.execution_options(reads_only=True).connect() as connection:
        if engine.dialect.name != "sqlite":
            sizes = [TableSize(*row) for row in connection.execute(text(PG_TABLES)).tuples()]
            return sorted(sizes, key=lambda size: size.bytes or 0, reverse=True)
        names = [n for n in inspect(connection).get_table_names() if not n.startswith(WORDS_INDEX)]
        counts = [connection.scalar(select(func.count()).select_from(table(n))) for n in names]
    sizes = [TableSize(name, rows or 0, None) for name, rows in zip(names, counts, strict=True)]
    return sorted(sizes, key=lambda size: size.rows, reverse=True)
