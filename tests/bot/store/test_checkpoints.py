"""What SQLite has written ahead is moved beside the commits."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import text

from faultline.bot.store.connections import CHECKPOINT_PAGES, WORTH_BYTES, Checkpoints, connect


def moved(file: Path) -> bool:
    """Whether all that was written ahead is in the database's file: a copy of that has it."""
    copy = file.with_name("copy.sqlite")
    copy.write_bytes(file.read_bytes())
    with sqlite3.connect(copy) as read:
        found = read.execute("SELECT name FROM sqlite_master").fetchall()
        return bool(found) and read.execute("SELECT count(*) FROM t").fetchone()[0] == 3_000


def test_it_is_moved_where_it_is_worth_it_and_once(tmp_path: Path) -> None:
    file = tmp_path / "x.sqlite"
    engine = connect(f"sqlite:///{file}")
    checkpoints = Checkpoints(engine)
    checkpoints.turn()
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (n TEXT)"))
        for _ in range(3_000):
            connection.execute(text("INSERT INTO t VALUES (:n)"), {"n": "x" * 1_000})
    assert WORTH_BYTES < (tmp_path / "x.sqlite-wal").stat().st_size < CHECKPOINT_PAGES * 4_096
    assert not moved(file)
    with engine.execution_options(reads_only=True).connect() as reader:
        # Somebody who reads keeps nothing waiting.
        reader.execute(text("SELECT 1"))
        checkpoints.turn()
    assert moved(file)
    engine.dispose()


def test_on_postgresql_it_never_looks(postgres_url: str) -> None:
    engine = connect(postgres_url)
    checkpoints = Checkpoints(engine)
    assert checkpoints.every_s is None
    assert checkpoints.turn() is False
    engine.dispose()
