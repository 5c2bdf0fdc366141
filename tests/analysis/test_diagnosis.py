from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.diagnosis import MAX_FINDINGS, diagnose
from faultline.analysis.kinds.finding_details import MetricShiftDetails
from faultline.analysis.vocabulary import Diagnosis, Verdict
from faultline.analysis.wording.amounts import levels, unit_of
from tests.analysis.cases import at, logs, series, spans, write_case

ALERT = {"service": "web", "signal": "latency_ms"}


def incident(folder: Path) -> Case:
    return write_case(
        folder,
        alert=ALERT,
        topology=[{"caller": "web", "callee": "api"}],
        metrics=series("web", "latency_ms", 100, 900, onset=5)
        + series("api", "cpu_percent", 20, 97, onset=4),
        logs=logs("api", "ok", range(-55, 30))
        + logs("api", "worker 7 timed out", range(5, 20), level="ERROR"),
        spans=spans(-30, 40, caller_ms=12, callee_ms=10, tag="b")
        + spans(6, 40, caller_ms=310, callee_ms=300, tag="i"),
        changes=[
            {
                "time": at(1),
                "service": "api",
                "kind": "config",
                "id": "pool-8",
                "title": "pool 64 to 8",
            }
        ],
    )


def check(diagnosis: Diagnosis) -> None:
    """What must hold of every diagnosis."""
    known = {f.id: f for f in diagnosis.findings}
    assert len(known) == len(diagnosis.findings)
    assert [c.rank for c in diagnosis.causes] == list(range(1, len(diagnosis.causes) + 1))
    assert [c.confidence for c in diagnosis.causes] == sorted(
        (c.confidence for c in diagnosis.causes), reverse=True
    )
    for cause in diagnosis.causes:
        assert cause.findings
        assert {*cause.findings, *cause.contradicting} <= known.keys()
        assert len({c.subject for c in diagnosis.causes}) == len(diagnosis.causes)
    assert set(diagnosis.impact.findings) <= known.keys()
    assert Diagnosis.model_validate_json(diagnosis.model_dump_json()) == diagnosis
    for finding in diagnosis.findings:
        if finding.kind == "metric_shift":
            before, after = finding.numbers["baseline"], finding.numbers["incident"]
            given = MetricShiftDetails.of(finding)
            assert given is not None
            unit = unit_of(finding.signal or "", given.unit, (before, after))
            for shown in levels(before, after, unit):
                assert shown in finding.sentence


def test_the_cause_is_named_with_its_change_and_what_to_do(tmp_path: Path) -> None:
    found = diagnose(incident(tmp_path))
    check(found)
    assert found.verdict is Verdict.CAUSE_FOUND
    first = found.causes[0]
    assert (first.subject, first.kind, first.change) == ("api", "config", "pool-8")
    assert first.confidence > 0.7
    assert found.confidence == first.confidence
    assert first.next_step is not None
    assert "pool-8" in first.next_step


def test_the_impact_starts_from_the_alerting_signal_and_cites_it(tmp_path: Path) -> None:
    found = diagnose(incident(tmp_path))
    assert found.impact.sentence.startswith("Latency of web rose from 100 ms to 900 ms (9x)")
    assert "api" in found.impact.services
    cited = {f.subject for f in found.findings if f.id in found.impact.findings}
    assert cited == set(found.impact.services)


def test_equal_cases_give_equal_bytes_whatever_the_order_of_rows(tmp_path: Path) -> None:
    first = incident(tmp_path / "a")
    other = incident(tmp_path / "b")
    for table in ("metrics", "logs", "spans"):
        lines = (other.path / f"{table}.jsonl").read_text().splitlines()
        (other.path / f"{table}.jsonl").write_text("\n".join(lines[::-1]))
    assert diagnose(first).model_dump_json() == diagnose(read_case(other.path)).model_dump_json()


def test_a_signal_that_is_back_gives_recovered(tmp_path: Path) -> None:
    case = write_case(
        tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 900, onset=2, until=15)
    )
    found = diagnose(case)
    check(found)
    assert found.verdict is Verdict.RECOVERED
    assert found.causes


def test_a_signal_that_never_left_its_baseline_gives_no_active_incident(tmp_path: Path) -> None:
    found = diagnose(
        write_case(tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 100))
    )
    check(found)
    assert found.verdict is Verdict.NO_ACTIVE_INCIDENT
    assert found.causes == ()
    assert found.confidence == 0.75


def test_a_case_without_tables_gives_insufficient_evidence_and_names_the_gap(
    tmp_path: Path,
) -> None:
    gap = {
        "id": "G1",
        "kind": "metrics",
        "source": "prometheus",
        "query": "up",
        "reason": "no answer within 20 s",
    }
    found = diagnose(write_case(tmp_path, alert=ALERT, evidence=[gap]))
    check(found)
    assert found.verdict is Verdict.INSUFFICIENT_EVIDENCE
    assert found.confidence == 0
    assert found.missing[0].startswith(
        "metrics from prometheus are missing: no answer within 20 s. Check that prometheus"
    )
    assert any("logs" in m for m in found.missing)


def test_calm_logs_do_not_clear_an_alert_whose_signal_was_never_seen(tmp_path: Path) -> None:
    found = diagnose(write_case(tmp_path, alert=ALERT, logs=logs("api", "ok", range(-55, 30))))
    assert found.verdict is Verdict.INSUFFICIENT_EVIDENCE


def test_one_kind_of_evidence_is_never_sure(tmp_path: Path) -> None:
    found = diagnose(
        write_case(tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 900))
    )
    assert found.causes[0].confidence <= 0.6


def test_a_gap_in_metrics_bounds_the_confidence(tmp_path: Path) -> None:
    case = incident(tmp_path)
    gap = {"id": "G1", "kind": "metrics", "source": "datadog", "query": "q", "reason": "refused"}
    items = [{"id": "E1", "kind": "metrics", "source": "recorded", "query": "q"}, gap]
    (case.path / "evidence.json").write_text(json.dumps(items))
    assert diagnose(read_case(case.path)).causes[0].confidence <= 0.5


def test_findings_are_capped_and_the_cited_ones_kept(tmp_path: Path) -> None:
    rows = [r for i in range(80) for r in series(f"s{i}", "latency_ms", 100, 300 + i, step=3)]
    found = diagnose(write_case(tmp_path, metrics=rows))
    check(found)
    assert MAX_FINDINGS <= len(found.findings) <= MAX_FINDINGS + 120
    assert len(found.causes) == 10


@pytest.mark.parametrize(
    "name", ["online-boutique-01", "petshop-01", "rootcausebench-08", "train-ticket-12"]
)
def test_recorded_faults_are_laid_to_the_service_they_were_injected_into(
    shared: Path, name: str
) -> None:
    folder = shared / "cases" / name
    found = diagnose(read_case(folder))
    check(found)
    assert found.verdict is Verdict.CAUSE_FOUND
    assert found.causes[0].subject == json.loads((folder / "label.json").read_text())["subject"]


def training_case(folder: Path, shared: Path, recorded: str) -> Case:
    case = write_case(
        folder,
        alert={
            "service": "pretrain",
            "signal": "step_time_seconds",
            "labels": {"job_name": "pretrain"},
        },
        metrics=series("pretrain", "step_time_seconds", 0.4, 0.8, onset=3),
        changes=[
            {
                "time": at(1),
                "service": "pretrain",
                "kind": "config",
                "id": "cfg-9",
                "title": "new node pool",
            }
        ],
    )
    (folder / "traces").mkdir()
    for file in sorted((shared / "traces" / "generated" / recorded).glob("*.pt.trace.json.gz")):
        shutil.copy(file, folder / "traces" / file.name)
    return read_case(case.path)


def test_a_straggler_in_the_traces_is_the_cause_and_the_slow_steps_its_effect(
    shared: Path, tmp_path: Path
) -> None:
    found = diagnose(training_case(tmp_path, shared, "straggler_compute"))
    check(found)
    first = found.causes[0]
    label = json.loads(
        (shared / "traces" / "generated" / "straggler_compute" / "label.json").read_text()
    )
    assert (first.kind, first.subject) == ("straggler", f"rank {label['culprit_ranks'][0]}")
    cited = {(f.kind, f.subject) for f in found.findings if f.id in first.findings}
    assert ("metric_shift", "pretrain") in cited


def test_hostile_and_broken_rows_do_not_break_the_diagnosis(tmp_path: Path) -> None:
    nasty = "a{b}\u202e<!channel>\n`x` %s 100 %"
    case = write_case(
        tmp_path,
        alert={"service": nasty, "signal": nasty, "title": nasty},
        metrics=series(nasty, nasty, 1, 9) + series("", "", 0, 0),
        logs=logs(nasty, nasty, range(-50, 30))
        + logs(None, "{" * 50, range(1, 9))
        + logs("s", "", range(1, 9)),
        spans=[
            {**row, "span_id": "same", "parent_id": "same", "operation": nasty}
            for row in spans(5, 9, 2, 1, tag="t")
        ],
        changes=[
            {
                "time": at(-1),
                "service": None,
                "kind": "odd",
                "id": nasty,
                "title": nasty,
                "diff": "-\n+\n@@",
            }
        ],
        topology=[{"caller": nasty, "callee": nasty}, {"caller": nasty, "callee": "s"}],
    )
    found = diagnose(case)
    assert found.causes
    said = [
        found.impact.sentence,
        *(c.summary for c in found.causes),
        *(f.sentence for f in found.findings),
    ]
    assert all("\u202e" not in text and "\n" not in text for text in said)


def started_within_the_incident(folder: Path, since: float | None) -> Case:
    """Log lines from minute 1 on, counted by a source that says 0 where it holds none."""
    scope = {"data_since": at(since)} if since is not None else {}
    counted = series("web", "log_lines_per_min", 0, 160, onset=1, noise=0.001)
    said = logs("web", "/orders served", [n / 20 for n in range(20, 600)])
    return write_case(folder, alert={"service": "web"}, scope=scope, metrics=counted, logs=said)


def test_the_beginning_of_the_data_is_no_incident(tmp_path: Path) -> None:
    """A bot that is asked about a shop a few minutes after both were started."""
    known = diagnose(started_within_the_incident(tmp_path / "known", None))
    assert known.verdict is Verdict.CAUSE_FOUND, "of a service that was there before, it is"
    young = diagnose(started_within_the_incident(tmp_path / "young", 1))
    assert young.verdict is Verdict.INSUFFICIENT_EVIDENCE
    assert "The data begins at" in young.missing[0]
