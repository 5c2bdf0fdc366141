"""Giving the pages that retention freed back to the disk, on SQLite. PostgreSQL's autovacuum frees
rows for new ones by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import cast

from sqlalchemy import Engine

FREE_SHARE = 0.1
"""This share of all pages stays free for what comes next."""
PAGES_AT_ONCE = 500
"""2 MiB in each transaction, while which alerts wait."""
INCREMENTAL = 2
"""https://www.sqlite.org/pragma.html#pragma_auto_vacuum"""


def give_back(engine: Engine, stop: Callable[[], bool] = lambda: False) -> int:
    """Cut the file in small steps; how many bytes it is shorter. A file that an older release made
    keeps its pages and uses them again."""
    if engine.dialect.name != "sqlite":
        return 0
    pooled = engine.raw_connection()
    try:
        connection = cast(sqlite3.Connection, pooled.driver_connection)
        before = free = _pragma(connection, "freelist_count")
        if _pragma(connection, "auto_vacuum") != INCREMENTAL:
            return 0
        reserve = int(FREE_SHARE * _pragma(connection, "page_count"))
        while free > reserve and not stop():
            pages = min(PAGES_AT_ONCE, free - reserve)
            # `execute` would end after the first page: it steps once where no columns come.
            connection.executescript(f"PRAGMA incremental_vacuum({pages})")
            left = _pragma(connection, "freelist_count")
            # Without progress this would never end.
            if left >= free:
                break
            free = left
        return (before - free) * _pragma(connection, "page_size")
    finally:
        pooled.close()


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
