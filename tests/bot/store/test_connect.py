"""SQLite's one lock for writing: looked for often, given up with the usual error."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from faultline.bot.store import connections as connecting
from faultline.bot.store.connections import connect


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.sqlite"


@pytest.fixture
def engine(file: Path) -> Iterator[Engine]:
    made = connect(f"sqlite:///{file}")
    with made.begin() as connection:
        connection.execute(text("CREATE TABLE t (n INTEGER)"))
    yield made
    made.dispose()


def busy_timeout(engine: Engine) -> int:
    with engine.execution_options(reads_only=True).connect() as connection:
        return int(connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one())


def test_a_lock_that_is_not_released_ends_as_sqlalchemys_error(
    engine: Engine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(connecting, "LOCK_WITHIN_S", 0.1)
    with pytest.raises(OperationalError, match="locked"), engine.begin():
        pass
    other.execute("ROLLBACK")
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))
    other.close()


def test_a_lock_that_is_released_is_taken_and_the_usual_wait_holds_again(
    engine: Engine, file: Path
) -> None:
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.2, other.execute, ["COMMIT"]).start()
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))
    assert busy_timeout(engine) == 30_000
    other.close()
