"""The engine: a dead worker's work is taken over, a living one's never."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bot.queue.engine import AdvisoryLocks, ExecutorLocks, FileLocks, migrate_engine, system_engine
from tests.black_hole import black_hole
from tests.bot.queue.engine_workers import hold, work
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
    monkeypatch.setattr("bot.queue.engine.LOST_AFTER_S", 0.3)
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
        deadline = time.monotonic() + 5
        dead = False
        while not dead and time.monotonic() < deadline:
            with peer.take_if_dead("worker-lost") as dead:
                time.sleep(0.05)
        assert dead
        hole.pass_again()
        assert not lost.beat(), "a worker that comes back is fenced off"
        lost_engine.dispose()
        engine.dispose()
