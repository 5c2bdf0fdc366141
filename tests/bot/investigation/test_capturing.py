"""Captures that an investigation asks for: stand-in daemons on loopback, a real store of captures
and cases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import Alert, Evidence, JobIdentity, Scope, Window
from faultline.bot.investigation.capturing import CAPTURE, capture_part, has_traces, may_capture
from faultline.bot.investigation.collecting import CollectionPart
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.databases import open_store
from faultline.bot.store.follow_ups import CaptureBudget, CaptureLog
from tests.bot.investigation.capture.recording_job import hosts, job_settings, recording

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LLM = JobIdentity(name="llm", slurm_job_id="4711")


@pytest.fixture
def cases(tmp_path: Path) -> CaseStore:
    return CaseStore(tmp_path / "cases")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CaptureLog]:
    (tmp_path / "log").mkdir()
    store = open_store(Settings.model_validate({"store": {"directory": tmp_path / "log"}}))
    yield CaptureLog(store.engine)
    store.engine.dispose()


def scope(job: JobIdentity | None) -> Scope:
    return Scope(incident=Window(start=NOW, end=NOW), training=job)


def alert(status: str = "firing") -> Alert:
    return Alert.model_validate(
        {"source": "test", "title": "Slow", "started_at": NOW, "status": status}
    )


def test_a_job_is_asked_only_where_both_settings_allow_it_and_the_alert_is_open(
    tmp_path: Path,
) -> None:
    both = job_settings(tmp_path, [], capture_on_alert=True)
    assert may_capture(alert(), scope(LLM), both)
    assert not may_capture(alert("resolved"), scope(LLM), both)
    assert not may_capture(alert(), scope(None), both)
    assert not may_capture(alert(), scope(JobIdentity(name="other")), both)
    assert not may_capture(alert(), scope(LLM), job_settings(tmp_path, []))
    assert not may_capture(
        alert(), scope(LLM), job_settings(tmp_path, [], capture_on_alert=True, allow_capture=False)
    )


@pytest.mark.parametrize(
    ("what", "cut", "enough"),
    [
        ("profile of rank 0", None, True),
        ("flight_recorder of rank 0", None, True),
        ("profile of rank 0", "no capture lies in the incident window", False),
        ("log of rank 0, train.log", None, False),
    ],
)
def test_a_capture_is_not_needed_where_a_trace_of_the_incident_was_found(
    what: str, cut: str | None, enough: bool
) -> None:
    item = Evidence(
        id="E1", kind="traces", source="traces", query="q", cut=cut, details={"what": what}
    )
    assert (
        has_traces([CollectionPart(connector="traces", items=[item], gaps=[], tables=[], files=[])])
        is enough
    )


def test_the_files_become_a_part_of_the_case_with_the_alerts_slurm_number(
    tmp_path: Path, log: CaptureLog, cases: CaseStore
) -> None:
    with hosts((10, 11), job=4711) as daemons, recording(daemons):
        settings = job_settings(tmp_path, daemons)
        part = asyncio.run(capture_part(LLM, settings, log, cases, "case-1"))
    capture = log.history("llm")[0]
    assert (capture.requested_by, capture.status) == ("investigation case-1", "recorded")
    assert sorted(part.files) == [
        f"{capture.id}/capture.json",
        f"{capture.id}/trace_127.0.0.1_10.json",
        f"{capture.id}/trace_127.0.0.1_11.json",
    ]
    assert [item.file for item in part.items] == [
        f"traces/{name}" for name in sorted(part.files)[1:]
    ]
    assert cases.names("case-1", f"parts/{CAPTURE}/files") == [
        f"parts/{CAPTURE}/files/{n}" for n in sorted(part.files)
    ]


def test_an_investigation_within_the_cool_down_shares_the_files_wherever_they_lie_by_now(
    tmp_path: Path, log: CaptureLog, cases: CaseStore
) -> None:
    with hosts((10,)) as daemons, recording(daemons):
        settings = job_settings(tmp_path, daemons, cooldown_minutes=30)
        job = JobIdentity(name="llm")
        first = asyncio.run(capture_part(job, settings, log, cases, "case-1"))
        second = asyncio.run(capture_part(job, settings, log, cases, "case-2"))
        for file in first.files:
            cases.move("case-1", f"parts/{CAPTURE}/files/{file}", f"traces/{file}")
        third = asyncio.run(capture_part(job, settings, log, cases, "case-3"))
        asked = [r for r in daemons[0].requests if r["fn"] == "setKinetOnDemandRequest"]
    assert len(asked) == 1
    assert first.files == second.files == third.files
    assert [item.file for item in third.items] == [item.file for item in first.items]
    assert (second.gaps, third.gaps) == ([], [])


def test_files_that_are_still_being_stored_are_waited_for(
    tmp_path: Path, log: CaptureLog, cases: CaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    storing = threading.Event()

    def slowly(self: CaseStore, case_id: str, below: str, folder: Path) -> None:
        if case_id == "case-1":
            storing.wait(30)
        put(self, case_id, below, folder)

    async def both(settings: Settings) -> tuple[CollectionPart, CollectionPart]:
        job = JobIdentity(name="llm")
        first = asyncio.create_task(capture_part(job, settings, log, cases, "case-1"))
        while not any(r.finished_at for r in log.history("llm")):
            await asyncio.sleep(0.02)
        second = asyncio.create_task(capture_part(job, settings, log, cases, "case-2"))
        while len(log.history("llm")) < 2:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        storing.set()
        return await first, await second

    put = CaseStore.put_folder
    monkeypatch.setattr(CaseStore, "put_folder", slowly)
    with hosts((10,)) as daemons, recording(daemons):
        first, second = asyncio.run(both(job_settings(tmp_path, daemons, cooldown_minutes=30)))
    assert first.files == second.files != []
    assert second.gaps == []


def test_an_investigation_whose_worker_ended_in_its_capture_says_so_and_frees_the_job(
    tmp_path: Path, log: CaptureLog, cases: CaseStore
) -> None:
    settings = job_settings(tmp_path, [], hosts=["127.0.0.1:1"], cooldown_minutes=30)
    log.claim("llm", requested_by="investigation case-1", requested="", hosts="", budget=_budget())
    part = asyncio.run(capture_part(JobIdentity(name="llm"), settings, log, cases, "case-1"))
    assert "the worker ended before its files were there" in part.gaps[0].reason
    assert [r.status for r in log.history("llm") if r.counts] == ["failed"]


def test_a_capture_by_hand_is_not_shared_and_the_cool_down_is_a_gap(
    tmp_path: Path, log: CaptureLog, cases: CaseStore
) -> None:
    settings = job_settings(tmp_path, [], hosts=["127.0.0.1:1"], cooldown_minutes=30)
    budget = log.claim(
        "llm", requested_by="someone, command line", requested="", hosts="", budget=_budget()
    )
    log.finish(budget.id, "recorded", result="", counts=True)
    part = asyncio.run(capture_part(JobIdentity(name="llm"), settings, log, cases, "case-1"))
    assert [gap.reason for gap in part.gaps] == [
        "its last capture began 0 min ago; 30 min of cool-down left"
    ]


def test_settings_that_do_not_say_how_to_ask_are_a_gap(
    tmp_path: Path, log: CaptureLog, cases: CaseStore
) -> None:
    part = asyncio.run(capture_part(LLM, job_settings(tmp_path, []), log, cases, "case-1"))
    assert "jobs.llm.hosts" in part.gaps[0].reason
    assert part.files == []


def test_a_job_that_needs_no_capture_has_an_empty_part(
    tmp_path: Path, log: CaptureLog, cases: CaseStore
) -> None:
    part = asyncio.run(capture_part(None, job_settings(tmp_path, []), log, cases, "case-1"))
    assert (part.items, part.gaps, part.files) == ([], [], [])
    assert cases.get("case-1", f"parts/{CAPTURE}/part.json") is not None
    assert log.history() == []


def _budget() -> CaptureBudget:
    return CaptureBudget(timedelta(minutes=30), 6)
