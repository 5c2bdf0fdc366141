"""Every kind of finding is declared once, and every analyzer returns only kinds that it
declares."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from faultline.analysis.analyzers import (
    Analyzer,
    analyzers,
    cause_kinds,
    fault_kind,
    fault_kinds,
    fault_of,
    finding_kind,
    phrase_of,
)
from faultline.analysis.case.folder import Case, read_case, read_diagnosis, write_json
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.kinds.fault_kinds import OTHER, CauseKind, FaultKind
from faultline.analysis.kinds.finding_details import (
    ChangeDetails,
    FindingDetails,
    LogLineDetails,
    MetricShiftDetails,
    TraceDetails,
    change_finding,
    changes_named,
)
from faultline.analysis.kinds.finding_kinds import FindingKind, declare, declared
from faultline.analysis.metrics import series as gs
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import at, logs, series, spans, write_case
from tests.analysis.gpu_fleets import case_of, healthy

ROOT = Path(__file__).resolve().parents[3]
DEMO = sorted(path.parent for path in (ROOT / "demo" / "cases").glob("*/alert.json"))


def found_by(analyzer: Analyzer, case: Case) -> list[Finding]:
    """What the analyzer returns, after a check that it declares all of it."""
    found = list(analyzer.find(case))
    for finding in found:
        kind = next((kind for kind in analyzer.kinds if kind.name == finding.kind), None)
        assert kind is not None, f"{analyzer.find.__name__} returns {finding.kind}"
        assert isinstance(finding.details, kind.details), finding.kind
        fault = fault_of(finding)
        assert fault is None or fault in kind.faults, finding.kind
    return found


def check(case: Case) -> set[str]:
    """The kinds of all findings of a case, after a check that each of them is declared."""
    for analyzer in analyzers():
        found_by(analyzer, case)
    kinds = {finding.kind for finding in diagnose(case).findings}
    assert kinds <= declared().keys()
    return kinds


def outage(folder: Path) -> Case:
    """Metrics, spans, logs, changes and monitors that all show the same outage."""
    rows = series("web", "latency_ms", 100, 900, onset=2) + series("api", "cpu_percent", 20, 95)
    traces = spans(-30, 30, 20, 10, tag="before") + spans(5, 30, 900, 800, tag="during")
    traces += spans(10, 30, 900, 800, tag="failing", status="error")
    lines = logs("api", "listening on 8080", range(-60, 30))
    lines += logs("api", "price list of the region is empty", range(3, 20), level="ERROR")
    lines += logs("api", "No space left on device", range(4, 20), level="ERROR")
    change = {
        "time": at(1),
        "service": "api",
        "kind": "config",
        "id": "c1",
        "title": "smaller pool",
    }
    state = {"monitor": "training run r1", "service": "api", "state": "crashed", "since": at(5)}
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_ms", "threshold": 90.0},
        metrics=rows,
        spans=traces,
        logs=lines,
        changes=[change],
        monitors=[state],
    )


def test_an_outage_in_every_table_has_only_declared_kinds(tmp_path: Path) -> None:
    kinds = check(outage(tmp_path))
    assert {"metric_shift", "log_new", "failure_signature", "change_near"} <= kinds
    assert {"span_own_time", "span_errors", "run_ended"} <= kinds


@pytest.mark.parametrize("folder", DEMO, ids=[folder.name for folder in DEMO])
def test_the_demo_has_only_declared_kinds(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "case")
    assert check(read_case(tmp_path / "case"))


def test_a_gpu_that_hangs_has_only_declared_kinds() -> None:
    fleet = healthy(1, "steady")
    fleet.put(gs.XID, 13, fleet.after(6), 79.0)
    case = case_of(fleet)
    assert "gpu_xid" in check(case)


def kinds_written(path: Path) -> Iterator[str]:
    """The kinds that a file gives to `Finding`, where they are known without running it."""
    tree = ast.parse(path.read_text())
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "Finding":
            continue
        for argument in node.keywords:
            if argument.arg != "kind":
                continue
            if isinstance(argument.value, ast.Constant):
                yield str(argument.value.value)
            elif isinstance(argument.value, ast.Name) and hasattr(module, argument.value.id):
                yield getattr(module, argument.value.id)


@pytest.mark.parametrize("room", ["analysis", "bot"])
def test_every_kind_in_the_source_is_declared(room: str) -> None:
    written = {
        kind
        for path in sorted((ROOT / room).rglob("*.py"))
        if "Finding(" in path.read_text()
        for kind in kinds_written(path)
    }
    assert written
    assert written <= declared().keys()


def test_every_rule_that_may_accuse_and_every_sign_of_a_gpu_is_declared() -> None:
    signs = set()
    for name in ("errors", "slowness", "standstill"):
        text = (ROOT / "analysis" / "gpus" / f"{name}.py").read_text()
        signs |= set(re.findall(r'"(gpu_[a-z_]+|ib_error)"', text))
    assert len(signs) >= 8
    assert signs <= declared().keys()


def test_an_undeclared_kind_is_told_from_a_declared_one(tmp_path: Path) -> None:
    def odd(_: Case) -> list[Finding]:
        return [Finding(id="", kind="odd", subject="api", strength=0.5, sentence="api is odd.")]

    with pytest.raises(AssertionError, match="odd returns odd"):
        found_by(Analyzer(odd, kinds=()), write_case(tmp_path))


@pytest.mark.parametrize("fault", fault_kinds().values(), ids=lambda fault: fault.name)
def test_every_fault_says_all_that_an_answer_needs(fault: FaultKind) -> None:
    assert 0 < fault.weight <= 1
    assert fault.description
    assert fault.tables
    for direction in (None, "up", "down"):
        step = fault.step(direction).format(subject="api")
        assert step.endswith(".")
        assert "{" not in step
    assert fault.as_cause.name in cause_kinds()
    if fault.delays_peers or fault.hangs:
        assert fault.training


@pytest.mark.parametrize("kind", declared().values(), ids=lambda kind: kind.name)
def test_every_kind_says_how_it_is_computed_and_keeps_its_details(kind: FindingKind) -> None:
    assert kind.how
    assert all(fault_kinds()[fault.name] is fault for fault in kind.faults)
    if len(kind.faults) > 1:
        assert kind.choose is not None
    given = {"id": "F1", "kind": kind.name, "subject": "api", "strength": 0.5, "sentence": "s"}
    finding = Finding.model_validate(given)
    assert type(finding.details) is kind.details
    assert Finding.model_validate_json(finding.model_dump_json()) == finding


def test_two_kinds_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'log_new'"):
        declare([FindingKind("log_new", how="otherwise")])


def test_a_fault_without_words_is_refused() -> None:
    with pytest.raises(ValueError, match="neither a phrase nor a cause"):
        FaultKind("mute", weight=0.5)


def test_a_fault_of_its_own_name_is_a_cause_of_that_name() -> None:
    fault = FaultKind("lost_spans", weight=0.5, phrase="loses spans")
    assert fault.as_cause == CauseKind("lost_spans", "loses spans", "Look at {subject} first.")


def test_a_fault_that_an_analyzer_declares_itself_is_looked_up_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = FaultKind("lost_spans", weight=0.5, phrase="loses spans")
    monkeypatch.setattr("faultline.analysis.analyzers.fault_kinds", lambda: {fault.name: fault})
    assert fault_kind("lost_spans") == fault
    assert phrase_of("lost_spans") == "loses spans"
    assert fault_kind("of nobody") == OTHER


OLD: dict[str, JsonValue] = {
    "class": "latency",
    "direction": "up",
    "bad": True,
    "recovered": False,
    "points": 3,
}


def shift(details: JsonValue) -> Finding:
    return Finding.model_validate(
        {
            "id": "F1",
            "kind": "metric_shift",
            "subject": "api",
            "strength": 0.5,
            "sentence": "s",
            "details": details,
        }
    )


def test_details_of_an_older_case_are_read_and_written_as_they_were(tmp_path: Path) -> None:
    found = diagnose(outage(tmp_path)).model_copy(update={"findings": (shift(OLD),)})
    write_json(tmp_path / "findings.json", found)
    assert json.loads((tmp_path / "findings.json").read_text())["findings"][0]["details"] == OLD
    (read,) = read_diagnosis(tmp_path).findings
    details = read.details
    assert isinstance(details, MetricShiftDetails)
    assert (details.signal_class, details.points, details.bad) == ("latency", 3, True)
    assert (details.baseline_points, details.usual_at_this_hour) == (0, False)


def test_a_value_that_does_not_fit_is_left_out_and_the_rest_is_read() -> None:
    details = shift({**OLD, "points": "many", "bad": ["no"]}).details
    assert details.written() == {"class": "latency", "direction": "up", "recovered": False}


def test_details_of_a_kind_that_nobody_declares_are_kept() -> None:
    given = {"id": "F1", "kind": "of_old", "subject": "api", "strength": 0.5, "sentence": "s"}
    finding = Finding.model_validate({**given, "details": {"rows": [{"a": None}], "bad": True}})
    assert finding.details.bad is True
    assert finding.details.written() == {"bad": True, "rows": [{"a": None}]}
    assert fault_of(finding) is None
    assert finding_kind("of_old").how == "By the analyzer of of old"


def test_details_are_frozen_and_asked_for_by_their_model() -> None:
    finding = shift(OLD)
    assert MetricShiftDetails.of(finding) is finding.details
    assert ChangeDetails.of(finding) is None
    with pytest.raises(ValueError, match="frozen"):
        finding.details.bad = False  # type: ignore[misc]


def test_what_a_rule_measured_is_kept_beside_the_declared_values() -> None:
    details = TraceDetails.read({"job": "llm", "steps_blamed": 8, "culprits": [2]})
    assert details.culprits == (2,)
    assert details.written() == {"job": "llm", "culprits": [2], "steps_blamed": 8}


def test_only_what_a_line_has_is_written() -> None:
    assert LogLineDetails(template="a", example="a 1").written() == {
        "template": "a",
        "example": "a 1",
    }
    assert FindingDetails().written() == {}


def test_a_change_is_looked_up_by_the_id_that_its_finding_names() -> None:
    def about(identity: str, change: str) -> Finding:
        return Finding(
            id=identity,
            kind="change_near",
            subject="web",
            strength=0.5,
            sentence="?",
            details={"change": change},
        )

    findings = [about("F1", ""), about("F2", "v1"), about("F3", "v2"), about("F4", "v2")]
    findings.append(Finding(id="F5", kind="log_new", subject="web", strength=0.5, sentence="?"))
    assert changes_named(findings) == {"v1", "v2"}
    second = change_finding(findings, "v2")
    assert second is not None
    assert second.id == "F3"
    assert change_finding(findings, "v3") is None
