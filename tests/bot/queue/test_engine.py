"""The engine: a dead worker's work is taken over, a living one's never."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.posting import post_once
from faultline.bot.queue.engine_database import migrate_engine, system_engine
from faultline.bot.queue.executor_locks import AdvisoryLocks, ExecutorLocks, FileLocks
from faultline.bot.store.store import ReplyTo, Store
from tests.black_hole import black_hole
from tests.bot.answer.targets.answers import accepted
from tests.bot.queue.engine_workers import hold, work, write_on
from tests.databases import store_engine
from tests.forked import ForkedProcess


def test_a_lock_is_free_only_after_its_holder_died(database_url: str, tmp_path: Path) -> None:
    engine = system_engine(database_url)
    locks: ExecutorLocks = (
        FileLocks(tmp_path) if database_url.startswith("sqlite") else AdvisoryLocks(engine)
    )
    holder = ForkedProcess(hold, database_url, tmp_path)
    with locks.take_if_dead("worker-a") as dead:
        assert not dead
    holder.kill()
    time.sleep(0.3)
    with locks.take_if_dead("worker-a") as dead:
        assert dead
    engine.dispose()


def steps_done(directory: Path) -> list[str]:
    file = directory / "done.txt"
    return file.read_text().splitlines() if file.exists() else []


def wait_for_step(directory: Path, number: int) -> list[str]:
    deadline = time.monotonic() + 30
    while True:
        done = steps_done(directory)
        if any(line.endswith(f" {number}") for line in done):
            return done
        assert time.monotonic() < deadline, done
        time.sleep(0.05)


def test_the_next_worker_goes_on_where_a_killed_one_was(database_url: str, tmp_path: Path) -> None:
    migrate_engine(database_url)
    killed = ForkedProcess(work, database_url, tmp_path, ("first", "first"))
    wait_for_step(tmp_path, 2)
    killed.kill()
    survivor = ForkedProcess(work, database_url, tmp_path, ())
    done = wait_for_step(tmp_path, 4)
    time.sleep(1.0)
    survivor.kill()
    numbers = [int(line.split()[1]) for line in done]
    assert numbers in ([0, 1, 2, 3, 4], [0, 1, 2, 2, 3, 4]), (
        "only the step that was interrupted may run twice"
    )


def test_a_living_worker_keeps_its_work_when_another_joins(
    postgres_url: str, tmp_path: Path
) -> None:
    migrate_engine(postgres_url)
    first = ForkedProcess(work, postgres_url, tmp_path, ("only",))
    wait_for_step(tmp_path, 0)
    second = ForkedProcess(work, postgres_url, tmp_path, ())
    wait_for_step(tmp_path, 4)
    time.sleep(2.5)
    assert steps_done(tmp_path) == [f"only {n}" for n in range(5)]
    first.kill()
    second.kill()


def test_a_worker_whose_host_is_lost_is_dead_though_the_server_keeps_its_session(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.bot.queue.executor_locks.LOST_AFTER_S", 0.3)
    with black_hole(postgres_url) as hole:
        lost_engine, engine = system_engine(hole.url), system_engine(postgres_url)
        lost, peer = AdvisoryLocks(lost_engine), AdvisoryLocks(engine)
        lost.hold("worker-lost")
        assert lost.beat()
        with peer.take_if_dead("worker-lost") as dead:
            assert not dead
        assert peer.live_executors() == 1
        hole.fall_silent()
        time.sleep(0.5)
        assert peer.live_executors() == 0
        deadline = time.monotonic() + 60
        dead = False
        while not dead and time.monotonic() < deadline:
            with peer.take_if_dead("worker-lost") as dead:
                time.sleep(0.05)
        assert dead
        hole.pass_again()
        assert not lost.beat(), "a worker that comes back is fenced off"
        lost_engine.dispose()
        engine.dispose()


@pytest.fixture
def silent(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdvisoryLocks]:
    """A worker that gives no more signs of life; what is silent for 0.3 s counts as lost."""
    monkeypatch.setattr("faultline.bot.queue.executor_locks.LOST_AFTER_S", 0.3)
    engine = system_engine(postgres_url)
    locks = AdvisoryLocks(engine)
    locks.hold("worker-silent")
    yield locks
    locks.release()
    engine.dispose()


@pytest.fixture
def peer(postgres_url: str) -> Iterator[AdvisoryLocks]:
    engine = system_engine(postgres_url)
    yield AdvisoryLocks(engine)
    engine.dispose()


def test_a_worker_that_was_declared_lost_writes_nothing_and_posts_nothing(
    postgres_url: str, silent: AdvisoryLocks, peer: AdvisoryLocks
) -> None:
    theirs, ours = Store(store_engine(postgres_url)), Store(store_engine(postgres_url))
    ended: list[str] = []
    silent.fence(theirs.engine, lambda: ended.append("ended"))
    name = accepted(theirs, ReplyTo()).id
    key, lease = f"{name}:slack", timedelta(seconds=10)
    assert theirs.claim_post(key, name, owner="w", lease=lease).mine
    time.sleep(0.5)
    with peer.take_if_dead("worker-silent"):
        pass
    assert ended == []
    with pytest.raises(FaultlineError, match="worker-silent was declared lost"):
        theirs.record_post(key, "C1/1.0")
    with pytest.raises(FaultlineError, match="worker-silent was declared lost"):
        theirs.finish(name, "done", verdict="unknown", confidence=0.1, headline="late")
    sent: list[str] = []

    async def send() -> str:
        sent.append("posted")
        return "C1/2.0"

    async def find() -> None:
        return None

    with pytest.raises(FaultlineError, match="worker-silent was declared lost"):
        asyncio.run(post_once(theirs, f"{name}:new", name, owner="w", find=find, send=send))
    assert sent == []
    assert ended == ["ended"] * 3
    assert ours.posts(name) == {}
    found = ours.get(name)
    assert found is not None
    assert found.status == "accepted"
    ours.record_post(key, "C1/3.0")
    theirs.engine.dispose()
    ours.engine.dispose()


def test_a_write_under_way_ends_before_its_worker_is_declared_lost(
    postgres_url: str, silent: AdvisoryLocks, peer: AdvisoryLocks
) -> None:
    store = store_engine(postgres_url)
    checked, go_on = threading.Event(), threading.Event()
    silent.fence(store, lambda: None)

    # After the fence's own: the transaction is checked and not yet committed.
    @event.listens_for(store, "commit")
    def _stand_still(_: Connection) -> None:
        checked.set()
        assert go_on.wait(60)

    def write() -> None:
        with store.begin() as connection:
            connection.execute(text("CREATE TABLE written (one int)"))

    def declare() -> None:
        with peer.take_if_dead("worker-silent"):
            pass

    with ThreadPoolExecutor(2) as both:
        writing = both.submit(write)
        assert checked.wait(60)
        time.sleep(0.5)
        declaring = both.submit(declare)
        time.sleep(0.5)
        assert not declaring.done(), "its work would be taken over while it still writes"
        go_on.set()
        writing.result(10)
        declaring.result(10)
    assert not silent.beat()
    store.dispose()


def test_a_sign_of_life_does_not_wait_for_a_write(postgres_url: str, silent: AdvisoryLocks) -> None:
    store = store_engine(postgres_url)
    silent.fence(store, lambda: None)

    @event.listens_for(store, "commit")
    def _beat(_: Connection) -> None:
        assert silent.beat()

    with store.begin() as connection:
        connection.execute(text("CREATE TABLE written (one int)"))
    store.dispose()


def test_a_worker_that_comes_back_after_it_was_declared_lost_ends_without_a_write(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peer: AdvisoryLocks
) -> None:
    monkeypatch.setattr("faultline.bot.queue.executor_locks.LOST_AFTER_S", 2.0)
    migrate_engine(postgres_url)
    store = Store(store_engine(postgres_url))
    name = accepted(store, ReplyTo()).id
    worker = ForkedProcess(write_on, postgres_url, tmp_path, name)
    time.sleep(1.0)
    with peer.take_if_dead(worker.said) as dead:
        assert not dead
    worker.pause()
    deadline = time.monotonic() + 30
    while not dead:
        assert time.monotonic() < deadline
        with peer.take_if_dead(worker.said) as dead:
            time.sleep(0.05)
    written = len(store.progress(name))
    assert written
    try:
        assert worker.go_on() == 70
    finally:
        worker.kill()
    assert len(store.progress(name)) == written
    store.engine.dispose()
