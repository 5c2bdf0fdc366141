"""The doctor: each state that work can be stuck in is named, with what to do about it."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy.orm import Session

from faultline.bot.operating.deleting import posts_of
from faultline.bot.operating.doctor import CANNOT_LOOK, HEALTHY, WRONG, run_doctor
from faultline.bot.operating.inspection import Inspection, lasting
from faultline.bot.settings import Settings
from faultline.bot.store.store import NO_POST, Delivery
from faultline.bot.store.suppressed_alerts import Mutes
from faultline.bot.store.tables import PostRow
from faultline.loopback.preloaded import run_preloaded
from tests.bot.operating.installation import DEAD, LIVING, NOW, Installation, only_living
from tests.bot.queue.engine_workers import hold
from tests.forked import ForkedProcess

HOUR = timedelta(hours=1)


@pytest.mark.usefixtures("one_worker")
def test_a_healthy_installation_has_nothing_wrong(installation: Installation) -> None:
    name = installation.alert()
    installation.change(
        name, status="running", dispatched_at=datetime.now(UTC), started_at=datetime.now(UTC)
    )
    installation.workflow(name, ago=timedelta(seconds=5))
    assert installation.wrong() == {}
    assert not list(Path(installation.cases.location).glob("doctor-*")), (
        "the probe of the case store is removed"
    )


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize(
    ("left", "said"),
    [
        ({"free": 4 * 2**30}, "4.0 GiB free of 100.0"),
        ({"free": 400 * 2**20, "total": 2 * 2**30}, "0.4 GiB free of 2.0"),
        ({"files_free": 9_000}, "few files left (9000)"),
    ],
)
def test_a_disk_that_is_nearly_full(
    installation: Installation, volume: SimpleNamespace, left: dict[str, int], said: str
) -> None:
    vars(volume).update(left)
    assert said in installation.wrong()["disk"]
    assert "make room" in installation.wrong()["disk"]


def test_without_a_worker_that_is_said(installation: Installation) -> None:
    installation.alert()
    wrong = installation.wrong()
    assert "no worker is alive; 1 investigation not ended" in wrong["workers"]
    assert "faultline worker" in wrong["workers"]


def test_a_living_worker_is_seen_and_a_killed_one_not(
    installation: Installation, tmp_path: Path
) -> None:
    url = installation.engine.url.render_as_string(hide_password=False)
    holder = ForkedProcess(hold, url, tmp_path / "state" / "executors")
    alive = [f.what for f in installation.doctor() if f.about == "workers"]
    holder.kill()
    assert alive == ["1 worker alive"]
    deadline = 100
    while "workers" not in installation.wrong():
        deadline -= 1
        assert deadline, "the killed worker is still taken to be alive"


@pytest.mark.parametrize(
    ("hosts", "notes"),
    [
        ({"10.0.0.1"}, 0),
        ({"10.0.0.1", "10.0.0.2"}, 1),
    ],
)
def test_case_folders_in_a_directory_are_noted_where_workers_are_on_several_machines(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, hosts: set[str], notes: int
) -> None:
    living = replace(only_living(LIVING), hosts=frozenset(hosts))
    monkeypatch.setattr(Inspection, "executors", lambda _look: living)
    shown = [check.what for check in installation.doctor() if check.about == "cases"]
    several = [text for text in shown if text.startswith("workers on ")]
    assert len(several) == notes


@pytest.mark.usefixtures("one_worker")
def test_work_of_a_dead_worker_that_nobody_took_over(installation: Installation) -> None:
    name = installation.alert()
    installation.change(name, status="running", dispatched_at=NOW - HOUR, started_at=NOW - HOUR)
    installation.workflow(name, executor=DEAD)
    assert f"1 workflow of 1 worker that died: {name}" in installation.wrong()["takeover"]
    now = installation.wrong(name)["now"]
    assert f"its worker {DEAD} died, and nobody took it over" in now
    assert "start a worker" in now


@pytest.mark.usefixtures("one_worker")
def test_a_slow_investigation_names_its_step_and_whom_it_waits_for(
    installation: Installation,
) -> None:
    name = installation.alert(ago=2 * HOUR)
    installation.change(name, status="running", dispatched_at=NOW - HOUR, started_at=NOW - HOUR)
    installation.workflow(name, ago=HOUR)
    installation.store.add_progress(
        name, "scope", "09:00 to 10:00 UTC; asking datadog, loki", key="scope"
    )
    installation.step(name, 1, "open", ago=HOUR)
    installation.step(name, 2, "collect loki", ago=HOUR)
    slow = installation.wrong()["slow"]
    assert "step collect (asking the connectors) for 1 h 0 min, waiting for datadog" in slow
    assert "10 min 0 s is usual" in slow
    assert "waiting for datadog" in installation.wrong(name)["now"]


@pytest.mark.usefixtures("one_worker")
def test_what_is_usual_is_told_by_earlier_investigations(installation: Installation) -> None:
    for number in range(20):
        done = installation.alert(f"earlier {number}", ago=5 * HOUR)
        installation.ended(done, ago=5 * HOUR)
        installation.change(done, finished_at=NOW - 3 * HOUR)
    name = installation.alert(ago=HOUR)
    installation.change(name, status="running", dispatched_at=NOW - HOUR, started_at=NOW - HOUR)
    installation.workflow(name, ago=HOUR)
    assert "slow" not in installation.wrong(), "two hours are usual here"


@pytest.mark.usefixtures("one_worker")
def test_a_place_that_is_down_is_named_with_tries_error_and_the_next_try(
    installation: Installation,
) -> None:
    name = installation.alert(ago=HOUR)
    installation.ended(name, ago=HOUR)
    installation.workflow(f"{name}:slack", name="reply", queue="replies-slack", ago=HOUR)
    for number in range(1, 4):
        installation.step(f"{name}:slack", number, "reply slack", ago=timedelta(seconds=1))
    said = "slack chat.postMessage: cannot be reached"
    installation.store.add_progress(name, "reply slack", said, key="reply slack: down")
    replies = installation.wrong()["replies"]
    assert (
        f"1 answer waiting for slack, the oldest ({name}) for 1 h 0 min, tried 3 times: {said}"
        in replies
    )
    assert "the next at" in replies
    assert "tried 3 times, and is tried again at" in installation.wrong(name)["next"]


@pytest.mark.usefixtures("one_worker")
def test_halves_without_the_other_are_found(installation: Installation) -> None:
    lost = installation.alert("lost", ago=HOUR)
    installation.change(lost, dispatched_at=NOW - HOUR)
    installation.workflow("20260101-000000-abcdef")
    findings = [one for one in installation.doctor() if one.about == "lost"]
    assert [one.todo.split(" ")[:3] for one in findings] == [
        ["`faultline", "requeue", f"{lost}`"],
        ["`faultline", "delete", "20260101-000000-abcdef`"],
    ]
    assert "the engine has no work for it" in installation.wrong(lost)["now"]
    assert (
        "the store knows no 20260101-000000-abcdef"
        in installation.wrong("20260101-000000-abcdef")["lost"]
    )


@pytest.mark.usefixtures("one_worker")
def test_posts_digests_and_what_was_forgotten_in_the_store(installation: Installation) -> None:
    name = installation.alert(ago=2 * HOUR)
    installation.ended(name, ago=2 * HOUR)
    installation.change(name, quiet_until=NOW - HOUR, channel="C1")
    installation.alert("waits", ago=HOUR)
    with Session(installation.store.engine) as session, session.begin():
        session.add(
            PostRow(key=f"{name}:slack", investigation_id=name, owner="w", attempted_at=NOW - HOUR)
        )
    wrong = installation.wrong()
    assert f"1 post claimed and never recorded, the oldest {name}:slack" in wrong["posts"]
    assert "C1 was not told of 1 investigation" in wrong["digests"]
    assert (
        "1 investigation accepted and waiting, the oldest for 1 h 0 min; 0 running"
        in wrong["queue"]
    )


@pytest.mark.usefixtures("one_worker")
def test_a_full_queue_is_told_with_its_oldest(installation: Installation) -> None:
    for number in range(3):
        name = installation.alert(f"alert {number}")
        installation.change(name, dispatched_at=NOW)
        installation.workflow(name, "ENQUEUED", executor=None, ago=HOUR)
    assert (
        "investigations: 3 waiting, 0 at work; the oldest waits for 1 h 0 min"
        in installation.wrong()["queue"]
    )


def test_a_store_that_another_process_locked(tmp_path: Path, installation: Installation) -> None:
    if installation.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL has no such lock")
    holder = sqlite3.connect(tmp_path / "state" / "faultline.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        database = installation.wrong()["database"]
    finally:
        holder.close()
    assert "faultline.sqlite takes no writes: another process holds its lock" in database


def test_a_case_store_that_does_not_take_a_file(installation: Installation) -> None:
    folder = Path(installation.cases.location)
    folder.rmdir()
    folder.write_text("a file where the folder should be")
    assert "the case store does not work" in installation.wrong()["cases"]


@pytest.mark.usefixtures("one_worker")
def test_the_story_of_one_goes_from_its_alert_to_its_answer(installation: Installation) -> None:
    name = installation.alert(ago=HOUR)
    installation.workflow(name, "SUCCESS", ago=HOUR)
    installation.step(name, 1, "open", ago=HOUR)
    installation.ended(name, ago=HOUR)
    installation.store.add_progress(name, "analyze", "7 findings", key="analyze")
    installation.store.claim_post(f"{name}:slack", name, owner=LIVING, lease=HOUR)
    installation.store.record_post(f"{name}:slack", "C1/17.5")
    told = installation.doctor(name)
    assert [f.about for f in told] == [
        "accepted",
        "queued",
        "run",
        "step",
        "said",
        "posted",
        "ended",
    ]
    assert LIVING in told[2].what
    assert "C1/17.5" in told[5].what
    assert "the cache is cold" in told[6].what


def test_alerts_that_became_no_investigation_are_explained_too(installation: Installation) -> None:
    name = installation.alert()
    first = installation.store.get(name)
    assert first is not None
    store = installation.store
    store.accept(first.alert, delivery=Delivery("pagerduty", "d-1"))
    muted = first.alert.model_copy(
        update={"title": "disk at 91 %", "labels": {"fingerprint": "disk"}}
    )
    Mutes(store.engine).mute(muted.fingerprint, NOW + HOUR, "Ann", "being replaced")
    assert store.accept(muted, delivery=Delivery("pagerduty", "d-2")).outcome == "muted"
    assert f"which is, or joined, {name}" in installation.doctor("d-1")[0].what
    assert "held back" in installation.doctor("d-2")[0].what
    told = {f.about: f.what for f in installation.doctor(muted.fingerprint)}
    assert "not investigated, 1 times" in told["muted"]
    assert "by Ann: being replaced" in told["mute"]
    assert f"investigated as {name}" in installation.doctor(first.alert.fingerprint)[0].what
    assert "nothing is known of P-none" in installation.wrong("P-none")["unknown"]


def test_settings_that_contradict_each_other(installation: Installation) -> None:
    given = {
        "server": {"host": "0.0.0.0"},
        "slack": {"app_token": "xapp-1"},
        "pagerduty": {"api_token": "k"},
        "login": {"isolation": "teams"},
        "store": installation.settings.store.model_dump(),
    }
    installation.settings = Settings.model_validate(given)
    said = "\n".join(
        f.what for f in installation.doctor() if f.about == "settings" and f.state == "wrong"
    )
    for part in (
        "listens on 0.0.0.0",
        "without a bot token",
        "no notes without an author",
        "no team has groups",
    ):
        assert part in said


def test_exit_codes_and_json(
    installation: Installation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_doctor(installation.settings, None, json_=True) == WRONG
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {"state", "about", "what", "todo"} == set(findings[0])
    elsewhere = Settings.model_validate({"store": {"directory": tmp_path / "nowhere"}})
    assert run_doctor(elsewhere, None, json_=False) == CANNOT_LOOK
    assert not (tmp_path / "nowhere").exists(), "looking makes nothing"
    down = Settings.model_validate({"store": {"database": "postgresql://127.0.0.1:9/none"}})
    assert run_doctor(down, None, json_=False) == CANNOT_LOOK
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.usefixtures("one_worker")
def test_hostile_names_and_titles_break_no_line(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    name = installation.alert("[bold]x[/]\n\x1b[31m\u202e" + "y" * 5_000)
    installation.change(
        name, dispatched_at=datetime.now(UTC), status="running", started_at=datetime.now(UTC)
    )
    installation.workflow(name)
    assert run_doctor(installation.settings, name, json_=False) == HEALTHY
    out = capsys.readouterr().out
    assert "\x1b[31m" not in out
    assert "\u202e" not in out
    assert "[bold]x[/]" in out
    for hostile in ("'; DROP TABLE investigations --", "%", "_", "a" * 10_000, "\x00"):
        assert run_doctor(installation.settings, hostile, json_=False) == WRONG


def test_lengths_of_time_are_told_in_two_units() -> None:
    assert [lasting(timedelta(seconds=s)) for s in (0.25, 42, 125, 3 * 3600 + 60, 3 * 86_400)] == [
        "0.2 s", "42 s", "2 min 5 s", "3 h 1 min", "3 d 0 h"
    ]  # fmt: skip


def test_doctor_is_a_command(tmp_path: Path) -> None:
    environ = {"FAULTLINE_STORE__DIRECTORY": str(tmp_path / "none"), "PATH": "/usr/bin:/bin"}
    ran = run_preloaded(["doctor"], env=environ)
    assert ran.returncode == CANNOT_LOOK
    assert ran.stderr.startswith("faultline: no installation here")


@pytest.mark.usefixtures("one_worker")
def test_what_only_says_that_a_preview_is_done_is_no_post(installation: Installation) -> None:
    name = installation.alert()
    key = f"{name}:slack-preview:0"
    installation.store.claim_post(key, name, owner="w", lease=HOUR)
    installation.store.record_post(key, NO_POST)
    assert "preview" not in "".join(f.what for f in installation.doctor(name))
    with Session(installation.store.engine) as session:
        assert posts_of(session, name) == []
