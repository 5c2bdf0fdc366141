"""Where things lie: the addresses of the databases and the case store that the settings imply."""

from __future__ import annotations

from datetime import timedelta

from bot.case_store import CaseStore
from bot.settings import Settings
from bot.store.connect import connect, migrate
from bot.store.store import Store


def store_url(settings: Settings) -> str:
    """The bot's own tables."""
    return _database(settings) or f"sqlite:///{_file(settings, 'faultline.sqlite')}"


def engine_url(settings: Settings) -> str:
    """The engine's tables: a file of their own, or a schema of their own on PostgreSQL."""
    return _database(settings) or f"sqlite:///{_file(settings, 'engine.sqlite')}"


def open_store(settings: Settings, *, migrated: bool = False) -> Store:
    """The store, with its tables up to date; `migrated` when another process has seen to that."""
    settings.store.directory.mkdir(parents=True, exist_ok=True)
    engine = connect(store_url(settings))
    if not migrated:
        migrate(engine)
    return Store(engine, join=timedelta(hours=settings.investigation.join_hours))


def open_cases(settings: Settings) -> CaseStore:
    """The case store."""
    endpoint = settings.traces.endpoint_url
    return CaseStore(settings.store.cases or settings.store.directory / "cases", endpoint_url=endpoint)


def _database(settings: Settings) -> str | None:
    return settings.store.database.get_secret_value() if settings.store.database else None


def _file(settings: Settings, name: str) -> str:
    return str(settings.store.directory.absolute() / name)
