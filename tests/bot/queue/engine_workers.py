"""What the tests of the engine run in separate processes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from dbos import DBOS, DBOSClient
from sqlalchemy.exc import OperationalError

from faultline.bot.queue import executor_locks
from faultline.bot.queue.engine import WorkerEngine
from faultline.bot.queue.engine_database import (
    APPLICATION_VERSION,
    INVESTIGATIONS,
    WORKFLOW_INVESTIGATE,
    system_engine,
)
from faultline.bot.queue.executor_locks import AdvisoryLocks, ExecutorLocks, FileLocks
from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store

LIVES_S = 60
STEPS = 5


def locks_of(url: str, directory: Path) -> ExecutorLocks:
    """The locks of a worker on that database."""
    if url.startswith("sqlite"):
        return FileLocks(directory)
    return AdvisoryLocks(system_engine(url))


def hold(ready: Connection, url: str, directory: Path) -> None:
    """Hold a worker's lock."""
    locks = locks_of(url, directory)
    locks.hold("worker-a")
    ready.send("held")
    time.sleep(LIVES_S)
    locks.release()


def write_on(ready: Connection, url: str, directory: Path, name: str) -> None:
    """A worker that writes progress without a pause, and counts as lost after 2 s. Only its own
    writes end it: the loops that look at its lock may come too late. The server may have ended a
    transaction that stood still."""
    executor_locks.BEAT_EVERY_S, executor_locks.LOST_AFTER_S = 0.2, 2.0
    store = Store(connect(url))
    engine = WorkerEngine(url, directory, concurrency=4, polling_interval_s=0.1)

    def end() -> None:
        if threading.current_thread() is threading.main_thread():
            os._exit(70)

    engine.launch(on_lock_lost=end, store=store.engine)
    ready.send(engine.executor_id)
    for number in range(1_000_000):
        with suppress(OperationalError):
            store.add_progress(name, "analyze", f"line {number}", key=str(number))


def work(ready: Connection, url: str, directory: Path, names: tuple[str, ...]) -> None:
    """A worker whose steps write down that they were done."""
    engine = WorkerEngine(url, directory, concurrency=4, polling_interval_s=0.1)

    @DBOS.workflow(name=WORKFLOW_INVESTIGATE)
    async def steps(name: str) -> None:
        async def step(number: int) -> None:
            with (directory / "done.txt").open("a") as log:
                log.write(f"{name} {number}\n")
            await asyncio.sleep(0.4)

        for number in range(STEPS):
            await DBOS.run_step_async({"name": str(number)}, step, number)

    engine.launch(on_lock_lost=lambda: os._exit(70))
    for name in names:
        engine.enqueue(name)
    ready.send("ready")
    time.sleep(LIVES_S)


def note_begin(ready: Connection, url: str, directory: Path, how: str) -> None:
    """A worker whose workflow notes when it began. New work wakes it and it never looks; or nothing
    wakes it; or its DBOS is a release that nothing can wake."""
    patched = pytest.MonkeyPatch()
    if how == "unheard":
        patched.setattr("faultline.bot.queue.pollers.LOOK_AT_LEAST_EVERY_S", 1.0)
    if how == "polling":
        patched.setattr("faultline.bot.queue.engine.can_be_woken", lambda _: False)
    polling_s = 600.0 if how == "woken" else 0.5
    engine = WorkerEngine(url, directory, concurrency=4, polling_interval_s=polling_s)

    @DBOS.workflow(name=WORKFLOW_INVESTIGATE)
    async def note(_name: str) -> None:
        (directory / "began.txt").write_text(f"{time.time()}\n")

    engine.launch(on_lock_lost=lambda: os._exit(70))
    if how == "unheard":
        engine.changes.stop_soon()
    ready.send("ready")
    time.sleep(LIVES_S)


def enqueue_from_outside(url: str) -> float:
    """Queue a workflow as another worker does; says when that was."""
    client = DBOSClient(system_database_url=url)
    sent_at = time.time()
    client.enqueue(
        {
            "workflow_name": WORKFLOW_INVESTIGATE,
            "queue_name": INVESTIGATIONS,
            "workflow_id": "from-outside",
            "app_version": APPLICATION_VERSION,
        },
        "name",
    )
    client.destroy()
    return sent_at
