"""Fixtures of those who operate."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy.engine import make_url

from faultline.bot.operating.inspection import Inspection
from faultline.bot.queue.engine_database import migrate_engine, system_engine
from faultline.bot.settings import Settings
from faultline.bot.store.databases import engine_url, open_cases, store_url
from faultline.bot.store.store import Store
from tests.bot.operating.installation import LIVING, Installation, only_living
from tests.conftest import new_database
from tests.databases import store_engine


@cache
def _empty_engine() -> Path:
    file = Path(tempfile.mkdtemp(prefix="faultline-engine-")) / "empty.sqlite"
    migrate_engine(f"sqlite:///{file}")
    return file


@pytest.fixture(autouse=True)
def volume(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The disk as the doctor sees it, whatever the machine's own is: half empty until a test says
    otherwise."""
    of = SimpleNamespace(free=50 * 2**30, total=100 * 2**30, files=1_000_000, files_free=500_000)
    monkeypatch.setattr(
        "faultline.bot.operating.installation_checks.shutil.disk_usage",
        lambda _: SimpleNamespace(free=of.free, total=of.total),
    )
    monkeypatch.setattr(
        "faultline.bot.operating.installation_checks.os.statvfs",
        lambda _: SimpleNamespace(f_files=of.files, f_favail=of.files_free),
    )
    return of


@pytest.fixture(scope="session")
def installed_postgres(postgres_server: str, migrated_postgres: str) -> Iterator[str]:
    """The name of a database with the tables of the store and of the engine."""
    with new_database(postgres_server, migrated_postgres) as url:
        migrate_engine(url)
        yield make_url(url).database or ""


@pytest.fixture
def postgres_url(postgres_server: str, installed_postgres: str) -> Iterator[str]:
    """A separate database with those tables."""
    with new_database(postgres_server, installed_postgres) as url:
        yield url


@pytest.fixture
def installation(database_url: str, tmp_path: Path) -> Iterator[Installation]:
    """Empty, on each database."""
    with _installed(database_url, tmp_path / "state") as installation:
        yield installation


@pytest.fixture
def on_postgres(postgres_url: str, tmp_path: Path) -> Iterator[Installation]:
    """Empty, on PostgreSQL alone."""
    with _installed(postgres_url, tmp_path / "state") as installation:
        yield installation


@contextmanager
def _installed(url: str, state: Path) -> Iterator[Installation]:
    state.mkdir()
    given: dict[str, object] = {"directory": state}
    if url.startswith("postgresql"):
        given["database"] = url
    settings = Settings.model_validate({"store": given, "slack": {"channel": "C1"}})
    store = store_engine(store_url(settings))
    if url.startswith("sqlite"):
        shutil.copyfile(_empty_engine(), state / "engine.sqlite")
    engine = system_engine(engine_url(settings))
    yield Installation(settings, Store(store), engine, open_cases(settings))
    store.dispose()
    engine.dispose()


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if one worker were alive, under the name LIVING."""
    monkeypatch.setattr(Inspection, "executors", lambda _look: only_living(LIVING))
