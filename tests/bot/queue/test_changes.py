"""A worker that waits is woken when the database holds something new, and looks all the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text

from faultline.bot.queue import changes
from faultline.bot.queue.changes import (
    QUEUES,
    STORE,
    Changes,
    FileChanges,
    NotifiedChanges,
    changes_in,
    install,
)
from faultline.bot.queue.engine_database import migrate_engine, system_engine
from faultline.bot.store.connections import Waits, connect
from faultline.bot.store.store import ReplyTo, Store
from tests.black_hole import black_hole
from tests.bot.answer.targets.answers import accepted
from tests.bot.queue.engine_workers import enqueue_from_outside, note_begin
from tests.forked import ForkedProcess

NEVER_S = 600.0
"""As a polling interval: what happens in a test was not found by looking."""


class Waiting:
    """Counts how often it was woken for what."""

    def __init__(self, watched: Changes) -> None:
        self.woken = {STORE: 0, QUEUES: 0}
        for what in self.woken:
            watched.on(what, partial(self._wake, what))

    def _wake(self, what: str) -> None:
        self.woken[what] += 1

    def settle(self, watched: Changes) -> None:
        """Until it is known to hear, and nothing of the start is under way."""
        if isinstance(watched, NotifiedChanges):
            wait_for(lambda: watched.hears)
        time.sleep(0.5)
        self.woken = {STORE: 0, QUEUES: 0}


def wait_for(condition: Callable[[], object], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def watching(watched: Changes) -> Iterator[Waiting]:
    waiting = Waiting(watched)
    watched.start()
    try:
        yield waiting
    finally:
        watched.stop_soon()


def test_what_another_connection_commits_wakes_those_who_wait(store: Store) -> None:
    engine = system_engine(store.engine.url.render_as_string(hide_password=False))
    watched = changes_in(engine, polling_s=NEVER_S)
    watched.see(STORE, store.engine)
    with watching(watched) as waiting:
        waiting.settle(watched)
        accepted(store, ReplyTo())
        wait_for(lambda: waiting.woken[STORE], within_s=5)
    engine.dispose()


def test_nobody_is_woken_while_nothing_happens(store: Store) -> None:
    engine = system_engine(store.engine.url.render_as_string(hide_password=False))
    watched = changes_in(engine, polling_s=NEVER_S)
    watched.see(STORE, store.engine)
    with watching(watched) as waiting:
        waiting.settle(watched)
        for _ in range(20):
            assert store.count() == 0
        time.sleep(0.5)
        assert waiting.woken == {STORE: 0, QUEUES: 0}
    engine.dispose()


def test_a_file_that_cannot_be_read_wakes_those_who_look_and_report_it(tmp_path: Path) -> None:
    missing = tmp_path / "missing.sqlite"
    with watching(FileChanges({STORE: str(missing)}, every_s=0.02)) as waiting:
        wait_for(lambda: waiting.woken[STORE] > 2)
    assert not missing.exists(), "looking makes no file"


def test_triggers_are_made_once_by_workers_that_begin_at_once(postgres_url: str) -> None:
    migrate_engine(postgres_url)
    engine = system_engine(postgres_url)
    failed: list[BaseException] = []

    def begin() -> None:
        try:
            install(engine)
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with engine.connect() as session:
        found = session.execute(
            text("SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = :name"),
            {"name": "faultline_changed"},
        ).scalars()
        assert sorted(found) == ["dbos.workflow_status", "investigations", "questions"]
    engine.dispose()


class BehindPooler(NotifiedChanges):
    """Behind a pooler in transaction mode, which passes no notification on."""

    holds_back = True

    def _send(self, sign: str) -> None:
        if not self.holds_back:
            super()._send(sign)


def test_where_no_notification_arrives_it_wakes_as_often_as_one_would_look(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(changes, "ANSWER_WITHIN_S", 0.2)
    monkeypatch.setattr(changes, "RETRY_S", 1.0)
    engine = system_engine(postgres_url)
    watched = BehindPooler(engine, polling_s=0.05)
    with watching(watched) as waiting:
        wait_for(lambda: waiting.woken[STORE] > 3 and waiting.woken[QUEUES] > 3)
        assert not watched.hears
        assert "notifications do not arrive; looking for work each 0.05 s" in caplog.text
        watched.holds_back = False
        wait_for(lambda: watched.hears)
    engine.dispose()


def test_a_session_that_was_ended_is_replaced_and_nothing_of_meanwhile_is_missed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "RETRY_S", 0.3)
    engine = system_engine(postgres_url)
    watched = NotifiedChanges(engine, polling_s=NEVER_S)
    with watching(watched) as waiting:
        waiting.settle(watched)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
            ended = session.execute(
                text(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE query LIKE 'LISTEN %' AND datname = current_database()"
                )
            ).scalar()
        assert ended == 1
        wait_for(lambda: waiting.woken[STORE] and waiting.woken[QUEUES])
        wait_for(lambda: watched.hears)
        waiting.settle(watched)
        store = Store(connect(postgres_url))
        accepted(store, ReplyTo())
        wait_for(lambda: waiting.woken[STORE], within_s=5)
        store.engine.dispose()
    engine.dispose()


def test_a_database_that_falls_silent_is_noticed_and_listened_to_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "CHECK_EVERY_S", 0.3)
    monkeypatch.setattr(changes, "RETRY_S", 0.3)
    with black_hole(postgres_url) as hole:
        engine = system_engine(hole.url, Waits(statement_s=1.0, leave_after_s=1.0))
        watched = NotifiedChanges(engine, polling_s=0.1)
        with watching(watched) as waiting:
            waiting.settle(watched)
            hole.fall_silent()
            wait_for(lambda: not watched.hears)
            waiting.woken[STORE] = 0
            wait_for(lambda: waiting.woken[STORE] > 1)
            hole.pass_again()
            wait_for(lambda: watched.hears)
        engine.dispose()


def began_after_s(directory: Path, sent_at: float) -> float:
    file = directory / "began.txt"
    wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
    return float(file.read_text().split()[0]) - sent_at


@pytest.mark.parametrize("how", ["woken", "unheard", "polling"])
def test_a_workflow_begins_at_once_or_by_looking(
    database_url: str, tmp_path: Path, how: str
) -> None:
    migrate_engine(database_url)
    worker = ForkedProcess(note_begin, database_url, tmp_path, how)
    time.sleep(2.0)
    sent_at = enqueue_from_outside(database_url)
    waited = began_after_s(tmp_path, sent_at)
    if how == "woken":
        assert waited < 5, "its own look would come after ten minutes"
    worker.kill()
