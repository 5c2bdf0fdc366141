"""What a look reads: the databases as they are, without making, migrating or changing anything in
them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from faultline.analysis.errors import FaultlineError
from faultline.bot.operating.engine_rows import EngineRows
from faultline.bot.operating.executors import Executors, living_by_database, living_by_files
from faultline.bot.queue.engine_database import system_engine
from faultline.bot.settings import Settings
from faultline.bot.store.connections import connect, reading
from faultline.bot.store.databases import (
    all_versions,
    current_version,
    engine_url,
    first_line,
    refuse_newer,
    store_url,
)

EXECUTORS = "executors"
"""The folder of `store.directory` with the workers' lock files."""


@dataclass(frozen=True)
class Inspection:
    """An installation that is looked at. `rows` is None where the engine's tables cannot be read,
    and `no_rows` why."""

    settings: Settings
    store: Engine
    rows: EngineRows | None
    no_rows: str
    version: str
    now: datetime

    @property
    def embedded(self) -> bool:
        """Whether the databases are files of this machine."""
        return self.store.dialect.name == "sqlite"

    def read(self) -> Session:
        """A session that only reads."""
        return reading(self.store)

    def executors(self) -> Executors:
        """The workers that are alive."""
        if self.embedded:
            return living_by_files(self.settings.store.directory / EXECUTORS)
        with self.store.connect() as connection:
            return living_by_database(connection)


@contextmanager
def inspected(settings: Settings, now: datetime | None = None) -> Iterator[Inspection]:
    """Open what can be opened. Raises FaultlineError where nothing can be looked at."""
    url = store_url(settings)
    file = make_url(url).database or ""
    # Check first: connecting would create the file.
    if url.startswith("sqlite") and not Path(file).exists():
        raise FaultlineError(f"no installation here: {file} does not exist (store.directory)")
    store, engine = connect(url), None
    try:
        # The version of the tables. Raises FaultlineError for one that this program cannot read.
        newest = all_versions()[-1].number
        with store.execution_options(reads_only=True).connect() as connection:
            refuse_newer(connection)
            version = current_version(connection)
        if version is None:
            raise FaultlineError("the database is empty: the bot has not been started with it yet")
        if version != newest:
            raise FaultlineError(
                f"the tables are version {version}, and this program reads {newest}: look with the "
                f"release that runs, or "
                "`faultline database upgrade`"
            )
        engine, rows, no_rows = _engine_rows(settings)
        yield Inspection(settings, store, rows, no_rows, version, now or datetime.now(UTC))
    except SQLAlchemyError as error:
        raise FaultlineError(f"the database does not answer ({first_line(error)})") from error
    finally:
        store.dispose()
        if engine is not None:
            engine.dispose()


def _engine_rows(settings: Settings) -> tuple[Engine | None, EngineRows | None, str]:
    url = engine_url(settings)
    file = make_url(url).database or ""
    if url.startswith("sqlite") and not Path(file).exists():
        return None, None, f"{file} does not exist"
    engine = system_engine(url)
    rows = EngineRows(engine)
    try:
        if not inspect(engine).has_table("workflow_status", schema=rows.schema):
            return engine, None, "its tables do not exist"
    except SQLAlchemyError as error:
        return engine, None, first_line(error)
    return engine, rows, ""
