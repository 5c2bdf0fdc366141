"""`faultline database`: which version the tables have, up to the newest, and back for a release
that is rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.bot.operating.executors import living_by_database, living_by_files
from faultline.bot.operating.inspection import EXECUTORS
from faultline.bot.queue.engine_database import migrate_engine
from faultline.bot.settings import Settings
from faultline.bot.store.connections import PATIENT, connect
from faultline.bot.store.databases import (
    NOTHING,
    all_versions,
    current_version,
    downgrade,
    engine_url,
    first_line,
    store_url,
    upgrade,
)


def print_versions(settings: Settings) -> None:
    """Every version that is known, and the one that the tables have."""
    with (
        _opened(settings) as engine,
        engine.execution_options(reads_only=True).connect() as connection,
    ):
        current = current_version(connection)
    versions = all_versions()
    lines = [
        f"{'->' if v.number == current else '  '} {v.number}  {v.description}" for v in versions
    ]
    if current is None:
        lines.insert(0, f"-> {NOTHING}  no tables")
    elif current not in [v.number for v in versions]:
        lines.append(f"-> {current}  of a newer release than this")
    Console(highlight=False, soft_wrap=True).print("\n".join(lines), markup=False)


def bring_up(settings: Settings) -> None:
    """Bring the tables, and the engine's, to what this program needs; `faultline serve` does so by
    itself."""
    settings.store.directory.mkdir(parents=True, exist_ok=True)
    with _opened(settings) as engine:
        upgrade(engine)
    migrate_engine(engine_url(settings))
    print_versions(settings)


def take_back(settings: Settings, to: str, *, sure: bool) -> None:
    """Take the tables back to an older version. Raises FaultlineError while a worker is alive."""
    with _opened(settings) as engine:
        # A living worker would go on writing to columns that are gone.
        living = living_workers(settings, engine)
        if living:
            raise FaultlineError(
                f"{living} of the bot's workers are alive: stop every `faultline serve` and "
                f"`worker` first"
            )
        versions = all_versions()
        numbers = [v.number for v in versions]
        above = [v for v in versions if to == NOTHING or (to in numbers and v.number > to)]
        if not sure and above:
            lost = "; ".join(f"{v.number}: {v.description}" for v in above)
            raise FaultlineError(
                f"this drops what these versions brought ({lost}). Back up first, then use --yes"
            )
        downgrade(engine, to)
    print_versions(settings)


def living_workers(settings: Settings, engine: Engine) -> int:
    """How many workers are alive, whatever the version of the tables."""
    if engine.dialect.name == "sqlite":
        return living_by_files(settings.store.directory / EXECUTORS).count
    with engine.connect() as connection:
        return living_by_database(connection).count


@contextmanager
def _opened(settings: Settings) -> Iterator[Engine]:
    engine = connect(store_url(settings), PATIENT)
    try:
        yield engine
    except SQLAlchemyError as error:
        raise FaultlineError(f"the database does not answer ({first_line(error)})") from error
    finally:
        engine.dispose()
