"""Where things lie: the addresses of the databases and the case store that the settings imply."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.bot.policy.admission import Policy
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.connect import connect, migrate
from faultline.bot.store.store import Store


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
