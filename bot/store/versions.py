"""Which version the tables have, and which versions this program knows: up to the newest, and back
again."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from faultline.analysis.errors import FaultlineError
from faultline.bot.store.connect import MIGRATIONS

# Alembic takes half a second to load, so only a process that changes tables loads it.
if TYPE_CHECKING:
    from alembic.config import Config

MIGRATION_LOCK = 0x6661756C74
"""PostgreSQL advisory lock under which tables are migrated."""
VERSION_TABLE = "alembic_version"
"""Where Alembic writes down the version of the tables."""
NOTHING = "base"
"""The version of a database without tables."""


@dataclass(frozen=True)
class Version:
    """One step of the tables: its number, and what it brought."""

    number: str
    description: str


@cache
def all_versions() -> tuple[Version, ...]:
    """All that this program knows, the oldest first."""
    files = sorted((MIGRATIONS / "versions").glob("[0-9]*.py"))
    # Parse the files: importing them would load Alembic.
    return tuple(
        Version(file.name.partition("_")[0], (ast.get_docstring(ast.parse(file.read_text())) or ""))
        for file in files
    )


def current_version(connection: Connection) -> str | None:
    """The version of the tables; None where there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    # Our own name.
    exec_driver_sql = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608
    number: str | None = exec_driver_sql.scalar()
    return number


def refuse_newer(connection: Connection) -> None:
    """Raise FaultlineError for tables of a version that this program does not know: a newer release
    made them."""
    current, numbers = current_version(connection), [version.number for version in all_versions()]
    if current is not None and current not in numbers:
        raise FaultlineError(
            f"the database is newer than this program: its tables are version {current}, and "
            f"{numbers[-1]} is the newest "
            f"known here. Start the newer release, or with that release run `faultline database "
            f"downgrade {numbers[-1]}`"
        )


def upgrade(engine: Engine) -> None:
    """Bring the tables to the newest version; safe when several processes start at once. Raises
    FaultlineError."""
    with engine.begin() as connection:
        _lock_migration(connection)
        refuse_newer(connection)
        if current_version(connection) != all_versions()[-1].number:
            from alembic import command

            command.upgrade(_config(connection), "head")


def downgrade(engine: Engine, to: str) -> None:
    """Take the tables back to a version that is known, or to `base`. Raises FaultlineError.

    What the versions above it brought is dropped.
    """
    numbers = [version.number for version in all_versions()]
    if to not in (*numbers, NOTHING):
        raise FaultlineError(
            f"there is no version {to!r}; known are {NOTHING}, {', '.join(numbers)}"
        )
    from alembic import command

    with engine.begin() as connection:
        _lock_migration(connection)
        refuse_newer(connection)
        current = current_version(connection)
        if current is None or (to != NOTHING and numbers.index(to) > numbers.index(current)):
            raise FaultlineError(
                f"the tables are version {current or NOTHING}; {to} is not below it"
            )
        command.downgrade(_config(connection), to)


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def _lock_migration(connection: Connection) -> None:
    """SQLite takes its one lock when the transaction begins."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
