"""The databases and the case store of an installation: where the settings say they lie, which
version their tables have, and calls that are abandoned when the database hangs."""

from __future__ import annotations

import ast
import contextlib
import os
import queue
import socket
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.bot.policy.admission import Policy
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.connections import PATIENT, connect
from faultline.bot.store.store import Store

if TYPE_CHECKING:
    from alembic.config import Config


def store_url(settings: Settings) -> str:
    """The bot's own tables."""
    return _database(settings) or f"sqlite:///{_file(settings, 'faultline.sqlite')}"


def engine_url(settings: Settings) -> str:
    """The engine's tables: a separate file, or a separate schema on PostgreSQL."""
    return _database(settings) or f"sqlite:///{_file(settings, 'engine.sqlite')}"


def spool_directory(settings: Settings) -> Path:
    """Where alerts wait that the database has not taken."""
    return (settings.spool.directory or settings.store.directory / "spool").absolute()


def open_store(settings: Settings, *, migrated: bool = False) -> Store:
    """The store, with its tables up to date; `migrated` when another process has seen to that."""
    try:
        settings.store.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable("store.directory", settings.store.directory, error) from error
    engine = connect(store_url(settings))
    if not migrated:
        try:
            migrate(engine)
        except SQLAlchemyError as error:
            raise FaultlineError(f"the database does not answer ({first_line(error)})") from error
    return Store(engine, policy=Policy.of(settings))


def open_cases(settings: Settings) -> CaseStore:
    """The case store."""
    endpoint = settings.traces.endpoint_url
    location = settings.store.cases or settings.store.directory / "cases"
    try:
        return CaseStore(location, endpoint_url=endpoint)
    except OSError as error:
        raise _unusable("store.cases", location, error) from error


def first_line(error: SQLAlchemyError) -> str:
    """What the driver said, on one line; its messages name host and user, never the password."""
    orig = str(getattr(error, "orig", None) or type(error).__name__)
    return " ".join(orig.split("\n", 1)[0].split())


def _database(settings: Settings) -> str | None:
    if settings.store.database is None:
        return None
    address = settings.store.database.get_secret_value()
    try:
        make_url(address)
    except (ArgumentError, ValueError):
        # `from None`: the parser's error may quote the address, with its password.
        raise SettingsError(
            "store.database", "is not an address like postgresql://user@host:5432/name"
        ) from None
    return address


def _unusable(key: str, place: Path | str, error: OSError) -> SettingsError:
    return SettingsError(key, f"{place} cannot be used ({error.strerror or error})")


def _file(settings: Settings, name: str) -> str:
    return str(settings.store.directory.absolute() / name)


MIGRATIONS = Path(__file__).parent / "migrations"
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


def migrate(engine: Engine) -> None:
    """Bring the tables to the newest version; safe when several processes start at once.

    Raises FaultlineError where a newer release made them.
    """
    if engine.dialect.name == "sqlite":
        upgrade(engine)
        return
    patient = connect(engine.url.render_as_string(hide_password=False), PATIENT)
    try:
        upgrade(patient)
    finally:
        patient.dispose()


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


T = TypeVar("T")

MAX_HANGING = 8
"""Threads left behind at once; each may hold a connection of the database."""
CONNECT_TIMEOUT_S = 5
ENDING_S = 0.05
"""What a thread needs to end once its function has returned."""


class StoreHangsError(FaultlineError):
    """The database gave no answer in time."""


class AbandonableStore:
    """A store with separate connections, used by one thread at a time."""

    def __init__(self, open_: Callable[[], Store], *, within_s: float) -> None:
        """`open_` makes a store with a new engine; it must not ask the database."""
        self._open = open_
        self._within_s = within_s
        self._store: Store | None = None
        self._connections: list[Any] = []
        self._hanging: list[threading.Thread] = []
        _stores.add(self)

    def hanging(self) -> int:
        """Threads that were left behind and have not ended."""
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        return len(self._hanging)

    def call(self, function: Callable[[Store], T]) -> T:
        """What the function gives or raises. Raises StoreHangsError after the deadline; the call
        may still succeed."""
        if self.hanging() >= MAX_HANGING:
            raise StoreHangsError(f"{MAX_HANGING} calls of the database hang")
        store = self._store = self._store or self._opened()
        connections = self._connections
        ended: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

        def run() -> None:
            try:
                result = function(store)
            except BaseException as error:  # noqa: BLE001  handed to the caller
                failure = error
                ended.put(lambda: _raise(failure))
            else:
                ended.put(lambda: result)
            if self._store is not store:
                _close(store, connections)

        thread = threading.Thread(target=run, name="store writes", daemon=True)
        thread.start()
        try:
            outcome = ended.get(timeout=self._within_s)
        except queue.Empty:
            self._hanging.append(thread)
            self._abandon()
            # One that ended just before this did not see that it was left behind.
            thread.join(ENDING_S)
            if not thread.is_alive():
                _close(store, connections)
            raise StoreHangsError(f"no answer within {self._within_s:g} s") from None
        return outcome()

    def close(self) -> None:
        """Close its connections."""
        if self._store is not None:
            self._store.engine.dispose()
            self._store = None

    def _opened(self) -> Store:
        store = self._open()
        # A list of this engine's own: the next engine's connections are not to be cut.
        connections: list[Any] = []
        self._connections = connections
        _track(store.engine, connections)
        return store

    def _abandon(self) -> None:
        self._store = None
        for connection in self._connections:
            # End the wait of a thread that waits for the server's answer. SQLite's ends by itself,
            # with the wait for its lock.
            with contextlib.suppress(Exception):
                duplicate = socket.socket(fileno=os.dup(connection.fileno()))
                with duplicate:
                    duplicate.shutdown(socket.SHUT_RDWR)


_stores: weakref.WeakSet[AbandonableStore] = weakref.WeakSet()


def left_behind() -> int:
    """Threads of this process that were left behind and have not ended."""
    return sum(store.hanging() for store in list(_stores))


def _track(engine: Engine, connections: list[Any]) -> None:
    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connections.append(connection)

    @event.listens_for(engine, "close")
    def _closed(connection: Any, _record: Any) -> None:
        connections[:] = [candidate for candidate in connections if candidate is not connection]


def _close(store: Store, connections: list[Any]) -> None:
    """Also those that came back to a pool which was disposed of before."""
    store.engine.dispose()
    for connection in list(connections):
        with contextlib.suppress(Exception):
            connection.close()


def _raise(error: BaseException) -> Any:
    raise error


def another_store(store: Store) -> Store:
    """The same store over separate connections. An attempt to connect ends within
    `CONNECT_TIMEOUT_S`."""
    url = store.engine.url
    if url.get_backend_name() == "postgresql" and "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(CONNECT_TIMEOUT_S)})
    url = url.set(drivername=url.get_backend_name())
    return store.over(connect(url.render_as_string(hide_password=False)))


def answers(store: Store) -> None:
    """Raises SQLAlchemyError where the database does not answer."""
    with store.engine.execution_options(reads_only=True).connect() as connection:
        connection.execute(text("SELECT 1"))
