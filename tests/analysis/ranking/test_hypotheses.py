"""What memory gave is tested again on the new case, takes one line, and changes no answer."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.analyzers import fault_of
from faultline.analysis.case.earlier import (
    KIND,
    RECORD,
    AlertCount,
    Earlier,
    EarlierCause,
    EarlierInvestigation,
    Judged,
    Recalled,
    RecordLevel,
    level_of,
)
from faultline.analysis.case.folder import Case, json_bytes, read_case, write_json
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import EvidenceError
from faultline.analysis.ranking.hypotheses import causes_to_remember, memory_findings
from faultline.analysis.vocabulary import Diagnosis, Finding
from tests.analysis.cases import START, at, logs, series, write_case

CPU = EarlierCause(
    subject="api", kind="config", troubles=("resource",), change="pool-8", change_kind="config"
)
CPU_BEFORE = CPU.model_copy(update={"change": "pool-32"})
"""The same trouble after an earlier change."""
ERRORS = EarlierCause(subject="api", kind="code_error", troubles=("log_errors",))
SPANS = EarlierCause(subject="api", kind="slow_code", troubles=("own_time",))


def incident(folder: Path, **more: Any) -> Case:
    """Out of CPU after a change, with logs and without spans."""
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_ms"},
        topology=[{"caller": "web", "callee": "api"}],
        metrics=series("web", "latency_ms", 100, 900, onset=5)
        + series("api", "cpu_percent", 20, 97, onset=4),
        logs=logs("api", "ok", range(-55, 30)),
        changes=[
            {
                "time": at(1),
                "service": "api",
                "kind": "config",
                "id": "pool-8",
                "title": "pool 64 to 8",
            }
        ],
        **more,
    )


def earlier(days_ago: float, *causes: EarlierCause, **more: Any) -> EarlierInvestigation:
    when = START - timedelta(days=days_ago)
    given = {
        "verdict": "cause_found",
        "title": "web is slow",
        "fingerprint": "f",
        "causes": causes,
        **more,
    }
    return EarlierInvestigation(id=f"{when:%Y%m%d}-{len(causes)}", at=when, **given)


def recalled(investigation: EarlierInvestigation, why: Any = "same_alert") -> Recalled:
    return Recalled(why=why, investigation=investigation)


def with_memory(case: Case, *found: Recalled, seen: int | None = None, **more: Any) -> Diagnosis:
    times = len(found) if seen is None else seen
    given = Earlier(
        asked_at=START, seen=(AlertCount(days=30, times=times),), recalled=found, **more
    )
    write_json(case.path / "earlier.json", given)
    return diagnose(read_case(case.path))


def told(diagnosis: Diagnosis) -> list[str]:
    return [f.sentence for f in diagnosis.findings if f.kind == KIND]


def test_a_cause_that_shows_again_is_told_with_the_finding_that_shows_it(tmp_path: Path) -> None:
    found = with_memory(
        incident(tmp_path), recalled(earlier(10, CPU_BEFORE)), recalled(earlier(20, CPU))
    )
    assert told(found) == [
        "Third time in 30 days, last on 19 Feb: api uses more CPU, near a config change, and "
        "it shows again now, "
        "with another config change."
    ]
    line = next(f for f in found.findings if f.kind == KIND)
    shown = [f for f in found.findings if f.id in line.details.written()["shows_in"]]
    assert [(f.subject, f.kind) for f in shown] == [("api", "metric_shift"), ("api", "change_near")]
    assert line.numbers == {"count": 3, "days": 30, "day": 19}
    assert [row["outcome"].split(" in ")[0] for row in line.details.written()["tested"]] == [
        "holds again"
    ] * 2


def test_a_change_that_is_still_near_is_the_same_and_not_another(tmp_path: Path) -> None:
    found = with_memory(incident(tmp_path), recalled(earlier(0.1, CPU)))
    assert told(found)[0].endswith("it shows again now, with the same config change.")


def test_a_cause_that_the_data_does_not_show_is_told_as_such(tmp_path: Path) -> None:
    found = with_memory(incident(tmp_path), recalled(earlier(1, ERRORS)))
    assert told(found) == [
        "Second time in 30 days, last on 28 Feb: api logs new errors, with no sign of it now."
    ]


def test_a_cause_without_its_data_cannot_be_tested_and_the_gap_is_named(tmp_path: Path) -> None:
    gap = {"id": "G1", "kind": "spans", "source": "tempo", "query": "spans", "reason": "HTTP 403"}
    found = with_memory(incident(tmp_path, evidence=[gap]), recalled(earlier(1, SPANS)))
    assert told(found)[0].endswith("it can't be checked now, spans from tempo are missing.")
    bare = with_memory(incident(tmp_path / "bare"), recalled(earlier(1, SPANS)))
    assert told(bare)[0].endswith(
        "it can't be checked now, nothing was collected that would show it in api."
    )


def test_when_the_last_cause_does_not_show_the_newest_that_does_is_told_too(tmp_path: Path) -> None:
    found = with_memory(
        incident(tmp_path),
        recalled(earlier(1, ERRORS)),
        recalled(earlier(2, CPU)),
        recalled(earlier(3, CPU)),
    )
    first, second = told(found)
    assert first.endswith("no sign of it now.")
    assert second.startswith("Before, on 27 Feb: api uses more CPU")


def test_another_alert_of_the_service_is_told_only_when_its_cause_shows_again(
    tmp_path: Path,
) -> None:
    quiet = with_memory(
        incident(tmp_path / "a"), recalled(earlier(1, ERRORS), "same_service"), seen=0
    )
    assert told(quiet) == []
    loud = with_memory(incident(tmp_path / "b"), recalled(earlier(1, CPU), "similar_words"), seen=0)
    assert told(loud)[0].startswith(
        'Seen after another alert on 28 Feb, "web is slow": api uses more CPU'
    )


@pytest.mark.parametrize("cause", [CPU, ERRORS, SPANS])
def test_memory_changes_neither_verdict_nor_causes_nor_confidence_nor_impact(
    tmp_path: Path, cause: EarlierCause
) -> None:
    case = incident(tmp_path)
    before = diagnose(case)
    levels = tuple(RecordLevel(level=n, right=0, of=9) for n in range(10))
    after = with_memory(case, *[recalled(earlier(n, cause)) for n in range(1, 9)], record=levels)
    added = [f for f in after.findings if f.kind in (KIND, RECORD)]
    assert {f.kind for f in added} == {KIND, RECORD}
    assert after.model_copy(update={"findings": before.findings}) == before
    assert after.findings == (*before.findings, *added)
    assert all(fault_of(f) is None for f in added)


def test_memory_makes_no_evidence_of_a_case_without_any(tmp_path: Path) -> None:
    case = write_case(tmp_path)
    before = diagnose(case)
    after = with_memory(case, recalled(earlier(1, CPU)))
    assert (after.verdict, after.confidence, after.causes) == (
        before.verdict,
        before.confidence,
        (),
    )
    assert len(told(after)) == 1


def test_an_answer_that_was_marked_wrong_is_no_hypothesis(tmp_path: Path) -> None:
    wrong = earlier(1, CPU, judged=Judged(right=False, cause='the "pool" was too small.'))
    found = with_memory(incident(tmp_path), recalled(wrong))
    assert told(found) == [
        "Second time in 30 days, last on 28 Feb: the answer was marked wrong; "
        "the cause was \"the 'pool' was too small\"."
    ]


def test_what_an_investigation_without_a_cause_said_is_told(tmp_path: Path) -> None:
    case = incident(tmp_path)
    assert told(with_memory(case, recalled(earlier(1, verdict="no_active_incident"))))[0].endswith(
        "on 28 Feb: nothing was wrong."
    )
    many = with_memory(case, recalled(earlier(100, verdict="insufficient_evidence")), seen=30)
    assert told(many) == ["31st time in 30 days, last on 21 Nov 2025: no cause could be named."]


def test_the_record_at_this_confidence_is_told_from_five_judged_answers_on(tmp_path: Path) -> None:
    case = incident(tmp_path)
    level = level_of(diagnose(case).confidence)
    few = with_memory(case, record=(RecordLevel(level=level, right=4, of=4),))
    assert [f for f in few.findings if f.kind == RECORD] == []
    other = with_memory(case, record=(RecordLevel(level=(level + 1) % 10, right=9, of=9),))
    assert [f for f in other.findings if f.kind == RECORD] == []
    enough = with_memory(case, record=(RecordLevel(level=level, right=7, of=9),))
    said = next(f.sentence for f in enough.findings if f.kind == RECORD)
    assert said == "Of 9 answers at this confidence that people judged, 7 were right."


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    case = incident(tmp_path)
    found = with_memory(case, recalled(earlier(1, CPU)), recalled(earlier(2, ERRORS)))
    assert json_bytes(diagnose(read_case(case.path))) == json_bytes(found)


def test_what_a_diagnosis_found_can_be_tested_again_on_the_same_case(tmp_path: Path) -> None:
    case = incident(tmp_path)
    causes = causes_to_remember(diagnose(case))
    assert (causes[0].subject, causes[0].kind, causes[0].change_kind) == ("api", "config", "config")
    assert causes[0].troubles[0] == "resource"
    assert "it shows again now" in told(with_memory(case, recalled(earlier(1, *causes))))[0]


def test_a_diagnosis_without_a_cause_gives_none_to_remember(tmp_path: Path) -> None:
    assert causes_to_remember(diagnose(write_case(tmp_path))) == ()


def test_hostile_text_stays_on_one_line_and_within_quotes(tmp_path: Path) -> None:
    hostile = 'x" <script>\n\u202e@channel' * 50
    cause = replace_subject(CPU, hostile)
    case = incident(tmp_path)
    for investigation in (
        earlier(1, cause, title=hostile),
        earlier(1, CPU, title=hostile, judged=Judged(right=False, cause=hostile)),
    ):
        (line,) = told(with_memory(case, recalled(investigation)))
        assert "\n" not in line
        assert "\u202e" not in line
        assert len(line) < 400


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "earlier.json: is not readable JSON"),
        ('{"seen": [{"days": 0, "times": 1}]}', "earlier.json: seen.0.days"),
        ('{"recalled": [{"why": "fate", "investigation": {}}]}', "earlier.json: recalled.0"),
        (
            json.dumps({"record": [{"level": 1, "right": 10**400, "of": 1}]}),
            "earlier.json: record.0.right",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str, complaint: str) -> None:
    case = incident(tmp_path)
    (case.path / "earlier.json").write_text(content)
    with pytest.raises(EvidenceError) as error:
        diagnose(read_case(case.path))
    assert str(error.value).startswith(complaint)


def replace_subject(cause: EarlierCause, subject: str) -> EarlierCause:
    return cause.model_copy(update={"subject": subject})


def test_a_trouble_that_is_too_weak_does_not_show(tmp_path: Path) -> None:
    case = incident(tmp_path)
    weak: tuple[Finding, ...] = tuple(
        f.model_copy(update={"strength": 0.29}) for f in diagnose(case).findings
    )
    remembered = Earlier(asked_at=START, seen=(), recalled=(recalled(earlier(1, CPU)),))
    write_json(case.path / "earlier.json", remembered)
    (line,) = memory_findings(read_case(case.path), weak, 0.5)
    assert line.sentence == (
        "Before, on 28 Feb: api uses more CPU, near a config change, with no sign of it now."
    )
