"""Stores for tests: each process migrates one database, and every test gets a copy of it."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from faultline.bot.store.connections import connect
from faultline.bot.store.databases import migrate


def store_engine(url: str) -> Engine:
    """The engine of an empty store with all its tables, in an SQLite file or a database of
    `postgres_url`."""
    file = make_url(url).database
    if url.startswith("sqlite") and file and not Path(file).exists():
        shutil.copyfile(_migrated_file(), file)
    return connect(url)


def make_tables(state: Path) -> None:
    """Give a bot that will keep its state there the tables that it would make at its start."""
    state.mkdir()
    shutil.copyfile(_migrated_file(), state / "faultline.sqlite")
    shutil.copyfile(_engine_file(), state / "engine.sqlite")


@cache
def _engine_file() -> Path:
    # Late: the engine takes long to load, and only whole stories need its tables.
    from faultline.bot.queue.engine_database import migrate_engine

    file = Path(tempfile.mkdtemp(prefix="faultline-engine-")) / "empty.sqlite"
    migrate_engine(f"sqlite:///{file}")
    return file


@cache
def _migrated_file() -> Path:
    file = Path(tempfile.mkdtemp(prefix="faultline-store-")) / "empty.sqlite"
    bring_up_to_date(f"sqlite:///{file}")
    return file


def bring_up_to_date(url: str) -> None:
    """Make the tables in an empty database, so that others can be made from it."""
    engine = connect(url)
    migrate(engine)
    engine.dispose()
