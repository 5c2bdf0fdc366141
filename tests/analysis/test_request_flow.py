from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.request_flow import flow_breaks
from tests.analysis.cases import at, write_case


def requests(
    minute: float, count: int, tag: str, *, complete: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Requests through api that log "start" and, when complete, "stored order <n>" and call db."""
    spans, lines = [], []
    for i in range(count):
        trace = f"{i:04x}".rjust(31, "0") + tag
        shared = {"trace_id": trace, "start": at(minute + i / 60), "duration_us": 10}
        spans.append({**shared, "span_id": "a", "parent_id": None, "service": "api", "operation": "POST /orders"})
        texts = ["start"]
        if complete:
            spans.append({**shared, "span_id": "b", "parent_id": "a", "service": "db", "operation": "insert"})
            texts.append(f"stored order {i}")
        lines += [
            {"time": at(minute + i / 60), "service": "api", "message": f"TraceID: {trace} {text}"} for text in texts
        ]
    return spans, lines


def test_a_line_and_a_call_that_always_came_and_no_longer_do_are_found(tmp_path: Path) -> None:
    spans, lines = requests(-30, 20, "a", complete=True)
    more = requests(5, 20, "b", complete=False)
    found = flow_breaks(write_case(tmp_path, spans=spans + more[0], logs=lines + more[1]))
    assert {f.subject for f in found} == {"api"}
    assert {str(f.details["event"]) for f in found} == {"call to db insert", "line TraceID: * stored order *"}
    assert found[0].numbers == {"percent": 0, "baseline_percent": 100}
    assert all(f.strength > 0.9 for f in found)


def test_requests_that_take_the_same_path_give_nothing(tmp_path: Path) -> None:
    spans, lines = requests(-30, 20, "a", complete=True)
    more = requests(5, 20, "b", complete=True)
    assert flow_breaks(write_case(tmp_path, spans=spans + more[0], logs=lines + more[1])) == []


def test_a_few_requests_say_nothing(tmp_path: Path) -> None:
    spans, lines = requests(-30, 3, "a", complete=True)
    more = requests(5, 3, "b", complete=False)
    assert flow_breaks(write_case(tmp_path, spans=spans + more[0], logs=lines + more[1])) == []


def test_spans_without_logs_are_enough_for_the_calls(tmp_path: Path) -> None:
    spans = requests(-30, 20, "a", complete=True)[0] + requests(5, 20, "b", complete=False)[0]
    assert [f.details["event"] for f in flow_breaks(write_case(tmp_path, spans=spans))] == ["call to db insert"]
