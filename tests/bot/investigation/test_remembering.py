"""What is recalled for a new alert, and what is kept of an answer, on both databases."""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import text

from faultline.analysis.case.earlier import AlertCount, Earlier, EarlierInvestigation, RecordLevel
from faultline.analysis.case.folder import json_bytes, read_case, read_diagnosis, write_json
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, JobIdentity, Scope, Window
from faultline.bot.investigation.remembering import keep_in_memory, recall, recall_into_case
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.fleet import FleetMemory
from faultline.bot.store.follow_ups import FollowUps, FollowUpScope
from faultline.bot.store.listing import Labels
from faultline.bot.store.memory import Memory
from faultline.bot.store.store import ReplyTo, Store, StoredInvestigation
from tests.scenarios.small_case import write_small_case

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
ALERT = Alert(
    source="pagerduty",
    title="checkout p99 latency above 800 ms",
    started_at=NOW,
    service="checkout",
)


def accepted(store: Store, days_ago: float, about: Alert = ALERT) -> StoredInvestigation:
    when = NOW - timedelta(days=days_ago)
    name = store.accept(about, now=when).investigation_id
    store.accept(about.model_copy(update={"status": "resolved"}), now=when)
    found = store.get(name or "")
    assert found is not None
    return found


@cache
def diagnosed_case() -> Path:
    """The small case with its findings."""
    folder = write_small_case(Path(tempfile.mkdtemp(prefix="faultline-case-")) / "case")
    write_json(folder / "findings.json", diagnose(read_case(folder)))
    return folder


def answered(
    store: Store, cases: CaseStore, days_ago: float, about: Alert = ALERT
) -> StoredInvestigation:
    """An investigation of the small case that ended and is remembered."""
    investigation = accepted(store, days_ago, about)
    folder = Path(cases.location) / investigation.id
    shutil.copytree(diagnosed_case(), folder)
    found = read_diagnosis(folder)
    store.finish(
        investigation.id,
        "done",
        verdict=found.verdict.value,
        confidence=found.confidence,
        headline="checkout is slow",
    )
    keep_in_memory(store.engine, cases, investigation, "checkout is slow")
    return investigation


def remembered(store: Store, days_ago: float, about: Alert) -> StoredInvestigation:
    """An investigation that ended without a cause."""
    investigation = accepted(store, days_ago, about)
    kept = EarlierInvestigation(
        id=investigation.id,
        at=investigation.accepted_at,
        fingerprint=about.fingerprint,
        title=about.title,
        services=(about.service,) if about.service else (),
        verdict="insufficient_evidence",
    )
    Memory(store.engine).remember(kept, about)
    return investigation


@pytest.fixture
def cases(tmp_path: Path) -> CaseStore:
    return CaseStore(tmp_path / "cases")


def recalled(
    store: Store, investigation: StoredInvestigation, days: float = 90
) -> list[tuple[str, str]]:
    found = recall(store.engine, investigation, investigation.alert, days=days).recalled
    return [(r.why, r.investigation.id) for r in found]


def test_what_is_kept_is_enough_to_find_and_test_it_again(store: Store, cases: CaseStore) -> None:
    first = answered(store, cases, 1)
    kept = Memory(store.engine).get(first.id)
    assert kept is not None
    assert (kept.title, kept.verdict, kept.headline, kept.at) == (
        ALERT.title,
        "cause_found",
        "checkout is slow",
        first.accepted_at,
    )
    assert kept.fingerprint == ALERT.fingerprint
    assert "checkout" in kept.services
    assert (kept.causes[0].subject, kept.causes[0].change, kept.causes[0].change_kind) == (
        "checkout",
        "4f2a9c1",
        "deploy",
    )
    assert kept.causes[0].troubles
    assert kept.case == f"{cases.location}/{first.id}"


def test_the_same_alert_comes_first_then_its_service_then_like_words(
    store: Store, cases: CaseStore
) -> None:
    cart = Alert(source="x", title="cart p99 latency above 800 ms", started_at=NOW, service="cart")
    disk = Alert(source="x", title="disk is full", started_at=NOW, service="checkout")
    unlike = Alert(source="x", title="something else", started_at=NOW)
    words, service, _ = (
        remembered(store, days, about) for days, about in ((1, cart), (2, disk), (1, unlike))
    )
    same = [answered(store, cases, days) for days in (5, 4, 3)]
    found = recalled(store, accepted(store, 0))
    assert found == [
        *(("same_alert", i.id) for i in reversed(same)),
        ("same_service", service.id),
        ("similar_words", words.id),
    ]


def test_neither_itself_nor_the_future_nor_what_is_too_old_is_recalled(
    store: Store, cases: CaseStore
) -> None:
    answered(store, cases, 91)
    old = answered(store, cases, 89)
    new = answered(store, cases, 0)
    answered(store, cases, -1)
    assert recalled(store, new) == [("same_alert", old.id)]
    assert recalled(store, new, days=10) == []
    assert recalled(store, new, days=0) == []


def test_how_often_it_was_seen_is_counted_beyond_the_three(store: Store, cases: CaseStore) -> None:
    for days in (1, 2, 3, 4, 40):
        answered(store, cases, days)
    found = recall(store.engine, accepted(store, 0), ALERT, days=90)
    assert found.seen == (AlertCount(days=30, times=4), AlertCount(days=90, times=5))
    assert len([r for r in found.recalled if r.why == "same_alert"]) == 3
    assert recall(store.engine, accepted(store, 0), ALERT, days=7).seen == (
        AlertCount(days=7, times=4),
    )


def test_a_further_look_at_an_incident_is_no_second_time(store: Store, cases: CaseStore) -> None:
    answered(store, cases, 3)
    first = answered(store, cases, 1)
    follow_ups = FollowUps(store.engine)
    name, _ = follow_ups.start(
        first,
        FollowUpScope(),
        key="k",
        question="again",
        who="ann",
        reply_to=ReplyTo(),
        now=NOW - timedelta(hours=1),
    )
    again = store.get(name)
    assert again is not None
    assert [i for _, i in recalled(store, again)] == [i for _, i in recalled(store, first)]
    assert recall(store.engine, again, ALERT, days=90).seen == (
        AlertCount(days=30, times=1),
        AlertCount(days=90, times=1),
    )
    write_small_case(Path(cases.location) / name)
    write_json(
        Path(cases.location) / name / "findings.json",
        diagnose(read_case(Path(cases.location) / name)),
    )
    keep_in_memory(store.engine, cases, again, "again")
    assert Memory(store.engine).get(name) is None
    assert Memory(store.engine).get(first.id) is not None


def test_judgements_and_the_record_come_with_it_and_places_do_not(
    store: Store, cases: CaseStore
) -> None:
    first = answered(store, cases, 1)
    Labels(store.engine).write(first.id, right=False, cause="the pool")
    found = recall(store.engine, accepted(store, 0), ALERT, days=90)
    (only,) = found.recalled
    assert only.investigation.judged is not None
    assert (only.investigation.judged.right, only.investigation.judged.cause) == (False, "the pool")
    assert only.investigation.case is None
    confidence = store.get(first.id).confidence or 0  # type: ignore[union-attr]
    assert found.record == (RecordLevel(level=int(10 * confidence), right=0, of=1),)


def test_an_alert_without_a_past_leaves_no_file(store: Store, cases: CaseStore) -> None:
    first = accepted(store, 0)
    assert (
        recall_into_case(store.engine, cases, first, ALERT, days=90)
        == "0 earlier investigations recalled"
    )
    assert cases.names(first.id) == []


def test_the_same_step_twice_writes_the_same_bytes(store: Store, cases: CaseStore) -> None:
    answered(store, cases, 1)
    second = accepted(store, 0)
    recall_into_case(store.engine, cases, second, ALERT, days=90)
    before = cases.get(second.id, "earlier.json")
    answered(store, cases, -0.5)
    assert (
        recall_into_case(store.engine, cases, second, ALERT, days=90)
        == "1 earlier investigation recalled"
    )
    assert cases.get(second.id, "earlier.json") == before
    assert before == json_bytes(Earlier.model_validate_json(before or b""))


def test_a_memory_that_is_broken_holds_up_no_answer(store: Store, cases: CaseStore) -> None:
    investigation = answered(store, cases, 1)
    with store.engine.begin() as connection:
        connection.execute(text("DROP TABLE labels"))
    said = recall_into_case(store.engine, cases, accepted(store, 0), ALERT, days=90)
    assert said.startswith("earlier investigations could not be looked up: ")
    with store.engine.begin() as connection:
        connection.execute(text("DROP TABLE remembered_services"))
    keep_in_memory(store.engine, cases, investigation, "checkout is slow")


def of_job(store: Store, cases: CaseStore, days_ago: float, job: str | None) -> StoredInvestigation:
    """An investigation of a job on 16 machines whose answer blames gpu-07, which is drained."""
    at = NOW - timedelta(days=days_ago)
    about = ALERT.model_copy(update={"started_at": at, "title": f"llm is slow ({days_ago})"})
    investigation = accepted(store, days_ago, about)
    folder = Path(cases.location) / investigation.id
    folder.mkdir(parents=True)
    hosts = tuple(f"gpu-{n:02d}.hpc" for n in range(1, 17))
    training = JobIdentity(name=job, hosts=hosts) if job else None
    window = Window(start=at - timedelta(minutes=30), end=at)
    write_json(folder / "alert.json", about)
    scope = Scope(incident=window, services=("checkout",), job=job, training=training)
    write_json(folder / "scope.json", scope)
    fact = {"kind": "Node", "name": "gpu-07", "fact": "node_drained", "service": "checkout"}
    since = (at - timedelta(minutes=5)).isoformat()
    (folder / "states.jsonl").write_text(json.dumps({**fact, "since": since}) + "\n")
    write_json(folder / "findings.json", diagnose(read_case(folder)))
    keep_in_memory(store.engine, cases, investigation, "llm is slow")
    return investigation


def test_a_machine_that_jobs_were_slow_for_is_recalled_for_the_next(
    store: Store, cases: CaseStore
) -> None:
    earlier = [of_job(store, cases, day, "llm").id for day in (2, 4, 6)]
    last = of_job(store, cases, 0, "llm")
    recall_into_case(store.engine, cases, last, last.alert, days=90)
    folder = Path(cases.location) / last.id
    (known,) = read_case(folder).earlier.fleet
    assert (known.host, known.blamed, known.took_part) == ("gpu-07", 3, 3)
    assert [one.id for one in known.incidents] == earlier
    said = [f.sentence for f in diagnose(read_case(folder)).findings if f.kind == "fleet_record"]
    assert len(said) == 1
    assert said[0].startswith("Drain gpu-07: it was also to blame in 3 of 3 earlier incidents")


def test_alerts_about_no_job_neither_keep_nor_recall_machines(
    store: Store, cases: CaseStore
) -> None:
    for day in (2, 4, 6):
        of_job(store, cases, day, None)
    last = of_job(store, cases, 0, None)
    recall_into_case(store.engine, cases, last, last.alert, days=90)
    fleet = FleetMemory(store.engine)
    assert fleet.records(since=NOW - timedelta(days=90), before=NOW) == ()
    assert read_case(Path(cases.location) / last.id).earlier.fleet == ()
