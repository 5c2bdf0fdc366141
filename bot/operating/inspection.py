"""A look at an installation: the databases as they are, without making, migrating or changing
anything in them; which workers are alive; and what was found, with what to do about it.

Workers are known by the locks that die with them (flock on a file per worker on SQLite, advisory
locks on PostgreSQL: `faultline.bot.queue.executor_locks`). On PostgreSQL also by their signs of
life: a server may keep the session, and so the lock, of a host that is gone.
"""

from __future__ import annotations

import fcntl
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text
from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from faultline.analysis.errors import FaultlineError
from faultline.analysis.wording.phrases import plain
from faultline.bot.operating.engine_rows import EngineRows
from faultline.bot.queue.engine_database import system_engine
from faultline.bot.queue.executor_locks import LOCK_SPACE, LOST_AFTER_S
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

State = Literal["ok", "note", "wrong"]
"""`note`: worth knowing, and nothing is broken by it."""
LONGEST = 400
MARKS: dict[State, tuple[str, str]] = {
    "ok": ("ok   ", "green"),
    "note": ("note ", "yellow"),
    "wrong": ("WRONG", "bold red"),
}


@dataclass(frozen=True)
class CheckResult:
    """One thing that was looked at. `todo` is empty where there is nothing to do."""

    state: State
    about: str
    what: str
    todo: str = ""


def print_findings(findings: Sequence[CheckResult]) -> None:
    """One line each, and what to do below it; the last line counts."""
    console = Console(highlight=False, soft_wrap=True)
    width = max((len(f.about) for f in findings), default=0)
    for finding in findings:
        mark, style = MARKS[finding.state]
        # `Text` prints brackets as they are, while a string would be read as markup.
        console.print(
            Text.assemble(
                (mark, style), f"  {finding.about:<{width}}  {plain(finding.what, LONGEST)}"
            )
        )
        if finding.todo:
            console.print(Text(f"{'':<{width + 9}}-> {plain(finding.todo, LONGEST)}"))
    wrong = [finding.about for finding in findings if finding.state == "wrong"]
    phrase = (
        f"{len(wrong)} wrong: {', '.join(dict.fromkeys(wrong))}" if wrong else "nothing is wrong"
    )
    console.print(Text(phrase))


def as_json(findings: Sequence[CheckResult]) -> str:
    """The same for programs."""
    return json.dumps(
        {"findings": [asdict(finding) for finding in findings]}, indent=2, ensure_ascii=False
    )


def when(at: datetime) -> str:
    """A moment, to the second, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def lasting(time: timedelta) -> str:
    """A length of time in the two units that tell it."""
    seconds = max(0.0, time.total_seconds())
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


EXECUTOR_LOCKS = (
    "SELECT l.objid::bigint AS lock, host(a.client_addr) AS host FROM pg_locks l"
    " JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = :space"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Locks of two keys: the first is `classid`, the second `objid`
(https://www.postgresql.org/docs/current/view-pg-locks.html)."""
SILENT = (
    "SELECT id, host, role, extract(epoch FROM clock_timestamp() - beat_at)::float AS silent_s"
    " FROM executors WHERE beat_at < clock_timestamp() - make_interval(secs => :silent)"
)


@dataclass(frozen=True)
class LostWorker:
    """A worker without a sign of life for more than `LOST_AFTER_S`. `declared`: another worker has
    declared it lost, to take its work over."""

    name: str
    host: str
    silent: timedelta
    declared: bool

    @property
    def who(self) -> str:
        """In words."""
        return f"worker {self.host}/{self.name}"

    @property
    def summary(self) -> str:
        """What is wrong with it, in words."""
        return f"{self.who} has not answered for {lasting(self.silent)}"


@dataclass(frozen=True)
class Executors:
    """The living. `names` where their names can be read; `locks` where only their locks' numbers
    can."""

    names: frozenset[str] = frozenset()
    locks: frozenset[int] = frozenset()
    hosts: frozenset[str] = frozenset()
    """Addresses that they reach the database from; empty where that is a socket file."""
    lost: Mapping[str, LostWorker] = field(default_factory=dict)
    """By name; processes that died long ago are among them."""

    @property
    def count(self) -> int:
        """How many."""
        return len(self.names) + len(self.locks)

    def lives(self, name: str) -> bool:
        """Whether this one does."""
        return name in self.names or lock_number(name) in self.locks

    def why_dead(self, name: str) -> str:
        """In words, of one that does not live."""
        lost = self.lost.get(name)
        return lost.summary if lost else f"worker {name} died"


def living_by_files(directory: Path) -> Executors:
    """Of workers that share a directory of lock files."""
    files = sorted(directory.glob("*.lock")) if directory.is_dir() else []
    return Executors(names=frozenset(file.stem for file in files if _is_locked(file)))


def living_by_database(connection: Connection) -> Executors:
    """Of workers on one PostgreSQL."""
    lost = _lost(connection)
    # A lost worker's session, and so its lock, may outlive its host.
    not_theirs = {lock_number(name) for name in lost}
    lock_rows = connection.execute(text(EXECUTOR_LOCKS), {"space": LOCK_SPACE}).all()
    rows = [row for row in lock_rows if int(row.lock) not in not_theirs]
    return Executors(
        locks=frozenset(int(row.lock) for row in rows),
        hosts=frozenset(row.host for row in rows if row.host),
        lost=lost,
    )


def _lost(connection: Connection) -> dict[str, LostWorker]:
    if not inspect(connection).has_table("executors"):  # tables of an earlier version
        return {}
    rows = connection.execute(text(SILENT), {"silent": LOST_AFTER_S})
    return {
        row.id: LostWorker(row.id, row.host, timedelta(seconds=row.silent_s), row.role == "lost")
        for row in rows
    }


def lock_number(executor: str) -> int:
    """The second key of its advisory lock, as PostgreSQL lists it: without a sign."""
    return (zlib.crc32(executor.encode()) - 2**31) & 0xFFFFFFFF


def _is_locked(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            # A shared lock, so that two looks at once do not take each other for a worker.
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it went while we looked
        return False
    return False


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
