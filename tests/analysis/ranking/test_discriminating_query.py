from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.fault_kinds import FAULTS_OF_SERVICES, OTHER
from faultline.analysis.ranking.discriminating_query import NextQuery, next_query
from faultline.analysis.requests.topology import Topology, read_topology
from faultline.analysis.vocabulary import Cause
from tests.analysis.cases import START, logs, series, spans, write_case


def cause(rank: int, subject: str, kind: str, confidence: float, **more: Any) -> Cause:
    given = {"summary": subject, "findings": (f"F{rank}",), "onset": START, **more}
    return Cause(rank=rank, subject=subject, kind=kind, confidence=confidence, **given)


def asked(
    case: Case, first: Cause, second: Cause, topology: Topology | None = None
) -> NextQuery | None:
    return next_query(case, (first, second), (), topology or read_topology(case))


def test_spans_separate_a_slow_service_from_the_network(tmp_path: Path) -> None:
    found = asked(
        write_case(tmp_path, metrics=series("payments", "latency_ms", 100, 900)),
        cause(1, "payments-db", "slow_code", 0.5),
        cause(2, "payments", "network", 0.45),
    )
    assert found is not None
    assert (found.kind, found.service) == ("spans", "payments-db")
    assert found.text == (
        "To tell them apart, look at spans of payments-db, 11:50-12:10 UTC: it is payments-db if "
        "its own time rises in the operation that became slow, and payments if its own time "
        "stays, and only the gap between its callers' spans and its own rises."
    )
    assert found.window.seconds == 20 * 60


def test_of_caller_and_callee_the_caller_s_spans_tell(tmp_path: Path) -> None:
    case = write_case(tmp_path, topology=[{"caller": "web", "callee": "api"}])
    found = asked(case, cause(1, "api", "latency", 0.5), cause(2, "web", "latency", 0.45))
    assert found is not None
    assert found.service == "web"
    assert found.prediction_first == "web spends the added time waiting for api"
    assert found.prediction_second == "web spends the added time in its own code"
    failing = asked(case, cause(1, "web", "errors", 0.5), cause(2, "api", "errors", 0.45))
    assert failing is not None
    assert failing.prediction_first == "web fails in its own code"


@pytest.mark.parametrize(("first", "second"), [(0.8, 0.7), (0.6, 0.2)], ids=["sure", "far ahead"])
def test_nothing_is_asked_when_the_first_is_clear(
    tmp_path: Path, first: float, second: float
) -> None:
    case = write_case(tmp_path)
    assert asked(case, cause(1, "a", "latency", first), cause(2, "b", "network", second)) is None
    assert next_query(case, (cause(1, "a", "latency", 0.4),), (), read_topology(case)) is None


def everything(folder: Path, **scope: Any) -> Case:
    rows = series("web", "latency_ms", 100, 900) + series("api", "latency_ms", 100, 900)
    rows += series("web", "cpu_percent", 10, 10) + series("api", "cpu_percent", 10, 10)
    lines = logs("web", "ok", range(-50, 30)) + logs("api", "ok", range(-50, 30))
    calls = spans(-30, 20, 12, 10, tag="b") + spans(6, 20, 300, 290, tag="i")
    return write_case(folder, metrics=rows, logs=lines, spans=calls, scope=scope)


def test_what_is_there_already_is_not_asked_for_again(tmp_path: Path) -> None:
    found = asked(
        everything(tmp_path),
        cause(1, "web", "latency", 0.5),
        cause(2, "api", "resource_saturation", 0.45),
    )
    assert found is not None
    assert found.kind == "changes"
    assert found.text.endswith("it is the one where a change lies shortly before the onset.")


def test_nothing_is_asked_when_no_connector_could_give_what_is_missing(tmp_path: Path) -> None:
    case = everything(tmp_path, obtainable=["metrics", "logs", "spans"])
    assert (
        asked(case, cause(1, "web", "latency", 0.5), cause(2, "api", "resource_saturation", 0.45))
        is None
    )


def test_only_what_a_configured_connector_gives_is_asked(tmp_path: Path) -> None:
    case = write_case(tmp_path, scope={"obtainable": ["logs", "metrics"]})
    found = asked(case, cause(1, "web", "slow_code", 0.5), cause(2, "api", "network", 0.45))
    assert found is not None
    assert found.kind == "metrics"


def test_metrics_of_the_wrong_kind_do_not_count_as_collected(tmp_path: Path) -> None:
    case = write_case(
        tmp_path,
        metrics=series("web", "latency_ms", 100, 900) + series("api", "latency_ms", 100, 900),
        scope={"obtainable": ["metrics"]},
    )
    found = asked(
        case, cause(1, "web", "latency", 0.5), cause(2, "api", "resource_saturation", 0.45)
    )
    assert found is not None
    assert (found.kind, found.service) == ("metrics", "api")


def test_a_training_job_is_asked_for_a_trace_and_never_for_spans(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert={"labels": {"job_name": "llm"}})
    found = asked(
        case, cause(1, "rank 2", "straggler", 0.5), cause(2, "llm", "communication", 0.45)
    )
    assert found is not None
    assert found.kind == "traces"
    assert "it comes last to the collectives" in found.prediction_first
    unnamed = asked(case, cause(1, "rank 2", "anomaly", 0.5), cause(2, "llm", "anomaly", 0.45))
    assert unnamed is None or unnamed.kind != "spans"


def test_a_change_is_told_by_the_signal_it_moved(tmp_path: Path) -> None:
    first = cause(1, "web", "deploy", 0.5, change="v2", signal="latency_ms")
    found = asked(write_case(tmp_path), first, cause(2, "api", "network", 0.45))
    assert found is not None
    assert "its own time rises, and no call below it does" in found.text


def test_the_same_prediction_for_both_is_said_once(tmp_path: Path) -> None:
    found = asked(
        write_case(tmp_path), cause(1, "a", "latency", 0.5), cause(2, "b", "latency", 0.45)
    )
    assert found is not None
    assert found.text.count("its own time rises") == 1
    assert " of a and b," in found.text


def test_every_fault_of_a_service_predicts_what_its_spans_show() -> None:
    silent = [
        f.name for f in FAULTS_OF_SERVICES if f is not OTHER and "spans" not in f.as_cause.predicts
    ]
    assert silent == []


def gap(kind: str) -> dict[str, Any]:
    return {"id": "G1", "kind": kind, "source": "loki", "query": "q", "reason": "no answer"}


def with_gap(folder: Path, kind: str) -> Case:
    """Everything is there, and of this kind more could be had."""
    case = everything(folder, obtainable=[kind])
    tables = {name: getattr(case, name).to_dicts() for name in ("metrics", "logs", "spans")}
    for rows in tables.values():
        for row in rows:
            row.update({k: v.isoformat() for k, v in row.items() if hasattr(v, "isoformat")})
    return write_case(folder, scope={"obtainable": [kind]}, evidence=[gap(kind)], **tables)


def kinds_asked(case: Case, first: str, second: str) -> str | None:
    found = asked(case, cause(1, "web", first, 0.5), cause(2, "api", second, 0.45))
    return found.kind if found else None


def test_more_lines_are_asked_for_only_where_the_causes_differ_in_them(tmp_path: Path) -> None:
    case = with_gap(tmp_path, "logs")
    assert kinds_asked(case, "latency", "latency") is None
    assert kinds_asked(case, "latency", "network") == "logs"


def test_more_metrics_are_worth_a_question_even_then(tmp_path: Path) -> None:
    assert kinds_asked(with_gap(tmp_path, "metrics"), "latency", "slow_code") == "metrics"


def known(folder: Path, **has: list[str]) -> Case:
    """Services with rows of a kind in the baseline alone."""
    tables: dict[str, list[dict[str, Any]]] = {"metrics": [], "logs": []}
    for service in has.get("metrics", []):
        for signal in ("latency_ms", "cpu_percent"):
            tables["metrics"] += series(service, signal, 100, 100)[:50]
    for service in has.get("logs", []):
        tables["logs"] += logs(service, "ok", range(-50, -5))
    kinds = ["metrics", "logs", *has.get("others", [])]
    return write_case(folder, scope={"obtainable": kinds}, **tables)


def test_what_is_not_there_at_all_is_asked_for_before_what_half_is(tmp_path: Path) -> None:
    case = known(tmp_path / "service", metrics=["web"], logs=["web", "api"])
    found = asked(case, cause(1, "web", "latency", 0.5), cause(2, "api", "restarts", 0.45))
    assert found is not None
    assert (found.kind, found.service) == ("metrics", "api")
    half = known(tmp_path / "kind", metrics=["web", "api"])
    assert kinds_asked(half, "latency", "slow_code") == "logs"


def test_lines_that_differ_come_before_metrics_that_would_be_alike(tmp_path: Path) -> None:
    case = known(tmp_path, logs=["web", "api"])
    assert kinds_asked(case, "latency", "latency") == "metrics"
    assert kinds_asked(known(tmp_path / "none"), "code_error", "code_path") == "logs"


def test_changes_come_after_metrics_of_one_side_and_before_a_gap_in_them(tmp_path: Path) -> None:
    half = known(tmp_path / "half", metrics=["web", "api"], logs=["web", "api"], others=["changes"])
    assert kinds_asked(half, "latency", "slow_code") == "metrics"
    folder = tmp_path / "gap"
    case = with_gap(folder, "metrics")
    changes = write_case(folder, scope={"obtainable": ["metrics", "changes"]})
    assert case.metrics.height
    assert kinds_asked(changes, "latency", "slow_code") == "changes"
