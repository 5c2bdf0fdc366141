"""A worker whose host is lost is the one that doctor names, not the reply target."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from faultline.bot.queue.engine_database import system_engine
from faultline.bot.queue.executor_locks import AdvisoryLocks
from tests.bot.operating.installation import DEAD, LIVING, NOW, Installation

HOUR = timedelta(hours=1)


@pytest.fixture
def peer(on_postgres: Installation) -> Iterator[AdvisoryLocks]:
    """A worker that is alive."""
    yield from _holding(on_postgres, LIVING)


@pytest.fixture
def lost(on_postgres: Installation) -> Iterator[AdvisoryLocks]:
    """A worker whose session the server keeps, and that fell silent 90 s ago."""
    for locks in _holding(on_postgres, DEAD):
        with on_postgres.engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE executors SET host = 'web-2',"
                " beat_at = clock_timestamp() - interval '90 s' WHERE id = %s",
                (DEAD,),
            )
        yield locks


def _holding(installation: Installation, name: str) -> Iterator[AdvisoryLocks]:
    engine = system_engine(installation.engine.url.render_as_string(hide_password=False))
    locks = AdvisoryLocks(engine)
    locks.hold(name)
    yield locks
    locks.release()
    engine.dispose()


def running(installation: Installation, *, executor: str) -> str:
    name = installation.alert()
    installation.change(name, status="running", dispatched_at=NOW - HOUR, started_at=NOW - HOUR)
    installation.workflow(name, executor=executor)
    return name


@pytest.mark.usefixtures("peer", "lost")
def test_a_silent_worker_is_lost_though_the_server_keeps_its_lock(
    on_postgres: Installation,
) -> None:
    name = running(on_postgres, executor=DEAD)
    alive = [f.what for f in on_postgres.doctor() if f.about == "workers"]
    assert alive == ["1 worker alive"]
    lost = on_postgres.wrong()["takeover"]
    assert f"worker web-2/{DEAD} has not answered for 1 min 3" in lost
    assert f"it has 1 workflow: {name}" in lost
    assert "another worker takes its work over within seconds" in lost
    assert f"its worker web-2/{DEAD} has not answered for 1 min 3" in on_postgres.wrong(name)["now"]


@pytest.mark.usefixtures("lost")
def test_without_a_peer_a_lost_workers_work_waits_for_one(on_postgres: Installation) -> None:
    running(on_postgres, executor=DEAD)
    wrong = on_postgres.wrong()
    assert "no worker is alive" in wrong["workers"]
    assert "start a worker" in wrong["takeover"]


@pytest.mark.usefixtures("peer", "lost")
def test_a_reply_held_by_a_lost_worker_is_not_blamed_on_its_target(
    on_postgres: Installation,
) -> None:
    name = on_postgres.alert()
    on_postgres.workflow(name, "SUCCESS")
    reply = f"{name}:reply:slack"
    on_postgres.workflow(reply, name="reply", queue="replies-slack", executor=DEAD)
    on_postgres.step(reply, 1, "reply slack 1")
    on_postgres.step(reply, 2, "reply slack 2")
    said = on_postgres.wrong()["replies"]
    assert f"1 answer for slack is held by worker web-2/{DEAD}" in said
    assert "has not answered for 1 min 3" in said
    assert "is slack down" not in said
    assert "is slack down" not in on_postgres.wrong(name).get("next", "")


def test_replies_that_nobody_posts_are_not_blamed_on_their_target(
    installation: Installation,
) -> None:
    name = installation.alert()
    installation.workflow(
        f"{name}:reply:slack", "ENQUEUED", name="reply", queue="replies-slack", executor=None
    )
    said = installation.wrong()["replies"]
    assert "start a worker" in said
    assert "is slack down" not in said


@pytest.mark.usefixtures("peer")
def test_a_reply_that_a_living_worker_tries_is_still_its_targets_matter(
    on_postgres: Installation,
) -> None:
    name = on_postgres.alert()
    reply = f"{name}:reply:slack"
    on_postgres.workflow(reply, name="reply", queue="replies-slack", executor=LIVING)
    on_postgres.step(reply, 1, "reply slack 1")
    on_postgres.step(reply, 2, "reply slack 2")
    assert "is slack down" in on_postgres.wrong()["replies"]


@pytest.mark.usefixtures("peer")
def test_work_that_was_taken_over_from_a_lost_worker_is_a_note(on_postgres: Installation) -> None:
    on_postgres.worker(DEAD, silent_s=300, role="lost")
    on_postgres.worker("worker-3-ended", silent_s=300)
    notes = [f.what for f in on_postgres.doctor() if f.state == "note" and f.about == "workers"]
    assert len(notes) == 1, "a process that died without work on its hands is nobody's concern"
    assert f"worker web-2/{DEAD} has not answered for 5 min" in notes[0]
    assert "its work was taken over" in notes[0]


@pytest.mark.usefixtures("peer")
def test_a_worker_that_was_silent_for_less_is_alive(on_postgres: Installation) -> None:
    with on_postgres.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE executors SET beat_at = clock_timestamp() - interval '20 s'"
        )
    alive = [f.what for f in on_postgres.doctor() if f.about == "workers"]
    assert alive == ["1 worker alive"]
