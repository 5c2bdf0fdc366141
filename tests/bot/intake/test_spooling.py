"""Alerts while the database is away, silent, locked or full: each is acknowledged within about a
second, and is in the database once, soon after it takes writes again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faultline.bot.intake import spooling
from faultline.bot.intake.accepting import NotAccepted, store_accept, take
from faultline.bot.intake.moving import LONGEST_PAUSE_S, MAX_TOGETHER, IntakeHealth, SpoolMover
from faultline.bot.intake.spool import REFUSED, SUFFIX, Spool, SpoolError
from faultline.bot.intake.spool_records import TakenAlert
from faultline.bot.intake.spooling import STORE_WITHIN_S, SpoolingAccept
from faultline.bot.operating.telemetry.readiness import Readiness
from faultline.bot.policy.values import Accepted, Arrival, Delivery
from faultline.bot.settings import Settings
from faultline.bot.store.connections import connect
from faultline.bot.store.databases import another_store
from faultline.bot.store.store import Store
from tests.black_hole import BlackHole
from tests.bot.intake.conftest import Senders, pagerduty_event, serving
from tests.bot.intake.test_spool import alert

ABOUT_A_SECOND = 1.8
RETURN_S = 20.0


class Intake:
    """What a web process takes alerts with."""

    def __init__(
        self, store: Store, directory: Path, within_s: float = STORE_WITHIN_S, **more: Any
    ) -> None:
        self.store = store
        self.spool = Spool(directory, **more)
        self.health = IntakeHealth(self.spool)
        self.mover = SpoolMover(self.health, partial(another_store, store))
        self.readiness = Readiness(store, self.health)
        writer = store_accept(store, self.health.written)
        self.accept = SpoolingAccept(writer, self.spool, within_s=within_s)

    async def take_all(
        self, arrivals: Sequence[Arrival], within_s: float = 20.0
    ) -> list[Accepted | BaseException]:
        taking = [take(self.accept, one, within_s=within_s) for one in arrivals]
        return await asyncio.gather(*taking, return_exceptions=True)

    def outcomes(self, *arrivals: Arrival) -> list[str]:
        found = asyncio.run(self.take_all(arrivals))
        return [one.outcome if isinstance(one, Accepted) else repr(one) for one in found]


def arrival(name: str, number: int = 0, **more: Any) -> Arrival:
    return alert(name, number=number, **more).arrival


def eventually_stored(intake: Intake, count: int, within_s: float = RETURN_S) -> None:
    deadline = time.monotonic() + within_s
    while intake.store.count() < count or not intake.spool.is_empty():
        assert time.monotonic() < deadline, intake.spool.figures()
        time.sleep(0.05)
    assert intake.store.count() == count
    assert list(intake.spool.directory.glob(f"*{SUFFIX}")) == []


@contextmanager
def moving(intake: Intake) -> Iterator[None]:
    intake.mover.start()
    try:
        yield
    finally:
        intake.mover.stop()


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Another process holds SQLite's lock."""
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(store.engine.url.database)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def test_a_database_that_works_is_asked_alone(store: Store, tmp_path: Path) -> None:
    intake = Intake(store, tmp_path / "spool", within_s=20)
    assert intake.outcomes(arrival("a"), arrival("b")) == ["started", "started"]
    assert not intake.spool.directory.exists()
    assert intake.health.silent_s() < 5


def test_a_locked_database_costs_no_alert_and_about_a_second(
    sqlite_store: Store, tmp_path: Path
) -> None:
    intake = Intake(sqlite_store, tmp_path / "spool")
    with moving(intake):
        with locked(sqlite_store):
            began = time.monotonic()
            assert intake.outcomes(*(arrival(f"a{n}") for n in range(20))) == ["spooled"] * 20
            assert time.monotonic() - began < ABOUT_A_SECOND
            # Those that come later wait for nobody.
            began = time.monotonic()
            assert intake.outcomes(arrival("later")) == ["spooled"]
            assert time.monotonic() - began < 0.5
        eventually_stored(intake, 21)
    assert intake.outcomes(arrival("a0")) == ["duplicate"]


def test_others_can_write_between_the_batches_that_are_moved(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = Intake(store, tmp_path / "spool")
    intake.spool.append([alert(f"a{n}") for n in range(MAX_TOGETHER + 1)])
    pauses: list[float] = []
    monkeypatch.setattr(intake.mover.stopping, "wait", pauses.append)
    began = time.monotonic()
    assert intake.mover.turn()
    took_s = time.monotonic() - began
    assert not intake.mover.turn()
    (pause,) = pauses
    if store.engine.dialect.name == "sqlite":
        assert 0 < pause <= min(took_s, LONGEST_PAUSE_S)
    else:
        assert pause == 0
    assert store.count() == MAX_TOGETHER + 1


def test_what_senders_send_again_meanwhile_is_one_investigation(
    sqlite_store: Store, tmp_path: Path
) -> None:
    intake = Intake(sqlite_store, tmp_path / "spool")
    with moving(intake):
        with locked(sqlite_store):
            for _ in range(4):
                assert intake.outcomes(arrival("same")) == ["spooled"]
            assert intake.outcomes(arrival("same", 1)) == ["spooled"]
        eventually_stored(intake, 1)
    (only,) = sqlite_store.latest()
    assert only.repeats == 1, "a repeat joins, and a second delivery of one does not"


def test_alerts_and_their_ends_are_moved_in_their_order(
    sqlite_store: Store, tmp_path: Path
) -> None:
    intake = Intake(sqlite_store, tmp_path / "spool")
    with moving(intake):
        with locked(sqlite_store):
            intake.outcomes(arrival("a"))
            intake.outcomes(arrival("a", 1, status="resolved", severity="info"))
            intake.outcomes(arrival("b", severity="critical"))
        eventually_stored(intake, 2)
    ends = {one.alert.title: one.resolved_at is not None for one in sqlite_store.latest()}
    assert ends == {"a": True, "b": False}


def test_an_alert_is_of_the_time_at_which_it_was_taken(sqlite_store: Store, tmp_path: Path) -> None:
    intake = Intake(sqlite_store, tmp_path / "spool")
    with locked(sqlite_store):
        intake.outcomes(arrival("a"))
        taken = datetime.now(UTC)
        time.sleep(1)
    with moving(intake):
        eventually_stored(intake, 1)
    (only,) = sqlite_store.latest()
    assert only.accepted_at <= taken


def test_an_alert_that_cannot_be_stored_is_refused_and_spooled_by_nobody(
    store: Store, tmp_path: Path
) -> None:
    intake = Intake(store, tmp_path / "spool", within_s=20)
    assert "NotStorable" in intake.outcomes(arrival("bad \ud800"))[0]
    assert intake.spool.is_empty()


def test_an_alert_in_the_spool_that_cannot_be_stored_holds_up_no_other(
    sqlite_store: Store, tmp_path: Path
) -> None:
    intake = Intake(sqlite_store, tmp_path / "spool")
    with locked(sqlite_store):
        # SQLite takes no such text for an id; PostgreSQL refuses others.
        bad = replace(arrival("bad"), delivery=Delivery("pagerduty", "\ud800"))
        assert intake.outcomes(arrival("a"), bad, arrival("c")) == ["spooled"] * 3
        assert "NotAccepted" in intake.outcomes(arrival("title \ud800"))[0]
    with moving(intake):
        eventually_stored(intake, 2)
    assert intake.spool.figures().refused == 1
    assert (intake.spool.directory / REFUSED).stat().st_mode & 0o777 == 0o600


def test_with_a_full_spool_senders_are_told_to_come_back(
    sqlite_store: Store, tmp_path: Path
) -> None:
    intake = Intake(sqlite_store, tmp_path / "spool", max_alerts=2)
    with locked(sqlite_store):
        assert intake.outcomes(arrival("a"), arrival("b")) == ["spooled"] * 2
        assert "the spool is full" in intake.outcomes(arrival("c"))[0]


def test_a_full_database_costs_no_alert(sqlite_store: Store, tmp_path: Path) -> None:
    intake = Intake(sqlite_store, tmp_path / "spool")
    with sqlite_store.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    # The limit belongs to a connection: it stands for a disk that takes nothing more.
    limited = connect(str(sqlite_store.engine.url))
    from sqlalchemy import event

    full = True

    @event.listens_for(limited, "begin")
    def _limit(connection: Any) -> None:
        most = pages if full else 1_000_000
        connection.connection.dbapi_connection.execute(f"PRAGMA max_page_count = {most}")

    intake = Intake(sqlite_store.over(limited), tmp_path / "spool")
    big = [arrival(f"a{n}", summary="x" * 20_000) for n in range(3)]
    assert intake.outcomes(*big) == ["spooled"] * 3
    full = False
    with moving(intake):
        eventually_stored(intake, 3)
    limited.dispose()


class HangingSpool(Spool):
    """A spool on a disk that hangs until it is released."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.batches: list[int] = []
        self.hanging, self.released = threading.Event(), threading.Event()

    def append(self, alerts: Sequence[TakenAlert]) -> list[SpoolError | None]:
        self.batches.append(len(alerts))
        self.hanging.set()
        assert self.released.wait(60)
        return super().append(alerts)


def test_while_the_disk_hangs_a_bounded_number_of_alerts_waits_and_is_kept_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "MAX_TOGETHER", 3)
    spool = HangingSpool(tmp_path / "spool")
    appender = spooling._Appender(spool)

    async def outage() -> list[str]:
        first = asyncio.create_task(appender.append(alert("first")))
        assert await asyncio.to_thread(spool.hanging.wait, 60)
        more = [asyncio.create_task(appender.append(alert(str(n), number=n))) for n in range(5)]
        refused = [task for task in more[3:] if await _is_refused(task)]
        spool.released.set()
        await asyncio.gather(first, *more[:3])
        return [str(task.exception()) for task in refused]

    assert asyncio.run(outage()) == ["3 alerts are already waiting for the spool"] * 2
    assert spool.batches == [1, 3]


async def _is_refused(task: asyncio.Task[None]) -> bool:
    await asyncio.wait([task])
    return isinstance(task.exception(), NotAccepted)


@pytest.fixture
def black_hole(postgres_url: str) -> Iterator[BlackHole]:
    found = BlackHole(postgres_url)
    yield found
    found.close()


def test_a_silent_database_costs_no_alert_and_about_a_second(
    black_hole: BlackHole, tmp_path: Path
) -> None:
    engine = connect(black_hole.url)
    intake = Intake(Store(engine), tmp_path / "spool")
    assert intake.outcomes(arrival("before")) in (["started"], ["spooled"])
    with moving(intake):
        black_hole.fall_silent()
        for n in range(5):
            began = time.monotonic()
            assert intake.outcomes(arrival(f"a{n}")) == ["spooled"]
            assert time.monotonic() - began < ABOUT_A_SECOND
        time.sleep(10)
        assert intake.mover.hanging() <= 1, "a connection that hangs is cut"
        black_hole.pass_again()
        deadline = time.monotonic() + RETURN_S
        while not intake.spool.is_empty():
            assert time.monotonic() < deadline, intake.spool.figures()
            time.sleep(0.05)
    intake.store = another_store(intake.store)
    assert intake.store.count() == 6
    intake.store.engine.dispose()


def test_health_writes_and_says_what_waits(black_hole: BlackHole, tmp_path: Path) -> None:
    engine = connect(black_hole.url)
    intake = Intake(Store(engine), tmp_path / "spool")
    intake.mover = SpoolMover(
        intake.health, partial(another_store, intake.store), probe_every_s=0.2, every_s=0.2
    )
    with moving(intake):
        time.sleep(1)
        assert intake.health.silent_s() < 0.9, "it writes while nothing comes"
        assert asyncio.run(intake.readiness.problem()) is None
        black_hole.fall_silent()
        assert intake.outcomes(arrival("a")) == ["spooled"]
        time.sleep(10.5)
        problem = asyncio.run(intake.readiness.problem())
        assert "oldest alert that is not stored" in str(problem)
        assert asyncio.run(intake.readiness.problem_for_alerts()) is None, "the spool takes them"
        assert asyncio.run(intake.readiness.hung()) is None
        black_hole.pass_again()
    engine.dispose()


def test_a_restart_is_asked_for_once_in_an_outage(sqlite_store: Store, tmp_path: Path) -> None:
    now = [0.0]
    spool = Spool(tmp_path / "spool")
    spool.append([alert("a")])
    health = IntakeHealth(spool, clock=lambda: now[0])
    readiness = Readiness(sqlite_store, health)
    assert asyncio.run(readiness.hung()) is None, "it has just begun"
    now[0] = 61.0
    for _ in range(2):
        assert "nothing could be written for 61 s" in str(asyncio.run(readiness.hung()))
    again = IntakeHealth(spool, clock=lambda: now[0])
    now[0] += 1_000
    assert again.hung() is None, "another restart would not help"
    assert IntakeHealth(spool, survives_restart=False, clock=lambda: now[0]).hung() is None
    again.written()
    again.end_outage()
    now[0] += 61
    assert again.hung() is not None, "this is another outage"


def test_a_process_killed_between_spool_and_database_loses_and_doubles_nothing(
    sqlite_store: Store, tmp_path: Path
) -> None:
    intake = Intake(sqlite_store, tmp_path / "spool")
    with locked(sqlite_store):
        intake.outcomes(*(arrival(f"a{n}") for n in range(130)))
    # Moved in part, and not written down: so it is after a kill.
    batch = [one.taken.arrival for one in intake.spool.next(50)]
    sqlite_store.accept_all(batch)
    intake.spool.close()
    after = Intake(sqlite_store, tmp_path / "spool")
    with moving(after):
        eventually_stored(after, 130)


def test_over_http_it_is_202_and_says_so(
    sqlite_store: Store, settings: Settings, tmp_path: Path
) -> None:
    intake = Intake(sqlite_store, tmp_path / "spool")
    with moving(intake), serving(settings, intake.accept) as base:
        bot = Senders(base, sqlite_store)
        with locked(sqlite_store):
            answer = bot.pagerduty(pagerduty_event())
            assert (answer.status_code, answer.json()["outcome"]) == (202, "spooled")
            assert bot.pagerduty(pagerduty_event()).status_code == 202
        eventually_stored(intake, 1)
        assert bot.pagerduty(pagerduty_event()).json()["outcome"] == "duplicate"
        bot.client.close()
