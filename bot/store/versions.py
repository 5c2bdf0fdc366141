"""Which version the tables have, and which versions this program knows: up to the newest, and back
again."""

from __future__ import annotations

from dataclasses import dataclass

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from analysis.errors import FaultlineError
from bot.store.connect import MIGRATIONS

MIGRATION_LOCK = 0x6661756C74
"""PostgreSQL advisory lock under which tables are migrated."""
NOTHING = "base"
"""What no tables at all are called."""


@dataclass(frozen=True)
class Version:
    """One step of the tables: its number, and what it brought."""

    number: str
    brought: str


def known_versions() -> tuple[Version, ...]:
    """All that this program knows, the oldest first."""
    scripts = ScriptDirectory.from_config(_config())
    found = [Version(script.revision, script.doc) for script in scripts.walk_revisions()]
    return tuple(reversed(found))


def current_version(connection: Connection) -> str | None:
    """The version of the tables; None where there are none."""
    return MigrationContext.configure(connection).get_current_revision()


def refuse_newer(connection: Connection) -> None:
    """Raise FaultlineError for tables of a version that this program does not know: a newer release
    made them."""
    current, known = current_version(connection), [version.number for version in known_versions()]
    if current is not None and current not in known:
        raise FaultlineError(
            f"the database is newer than this program: its tables are version {current}, and "
            f"{known[-1]} is the newest "
            f"known here. Start the newer release, or with that release run `faultline database "
            f"downgrade {known[-1]}`"
        )


def upgrade(engine: Engine) -> None:
    """Bring the tables to the newest version; safe when several processes start at once. Raises
    FaultlineError."""
    config = _config()
    with engine.begin() as connection:
        _one_at_a_time(connection)
        refuse_newer(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def downgrade(engine: Engine, to: str) -> None:
    """Take the tables back to a version that is known, or to `base`. Raises FaultlineError.

    What the versions above it brought is dropped.
    """
    known = [version.number for version in known_versions()]
    if to not in (*known, NOTHING):
        raise FaultlineError(f"there is no version {to!r}; known are {NOTHING}, {', '.join(known)}")
    config = _config()
    with engine.begin() as connection:
        _one_at_a_time(connection)
        refuse_newer(connection)
        current = current_version(connection)
        if current is None or (to != NOTHING and known.index(to) > known.index(current)):
            raise FaultlineError(
                f"the tables are version {current or NOTHING}; {to} is not below it"
            )
        config.attributes["connection"] = connection
        command.downgrade(config, to)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def _one_at_a_time(connection: Connection) -> None:
    """SQLite takes its one lock when the transaction begins."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
