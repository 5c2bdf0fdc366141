from __future__ import annotations

from pathlib import Path

from faultline.analysis.requests.topology import read_topology, topology_of
from tests.analysis.cases import series, spans, write_case


def test_the_table_the_catalogue_and_the_spans_are_one_graph(tmp_path: Path) -> None:
    case = write_case(
        tmp_path,
        topology=[{"caller": "a", "callee": "b"}],
        spans=spans(0, 2, caller_ms=2, callee_ms=1, tag="t"),
        scope={"calls": [["b", "c"]]},
    )
    assert read_topology(case).edges == (("a", "b"), ("b", "c"), ("web", "api"))


def test_without_any_of_them_labels_of_metrics_tell_who_calls_whom(tmp_path: Path) -> None:
    labels = [
        '{"client": "web", "server": "api"}',
        '{"destination_workload": "db", "source_workload": "api"}',
        '{"client": "alone"}',
        '{"client": {"x": 1}, "server": ["y"]}',
        "not json",
        '{"client": "web", "ser',
        "[" * 100_000,
    ]
    rows = [
        {**row, "labels": text} for text in labels for row in series("web", "requests", 1, 1)[:3]
    ]
    assert read_topology(write_case(tmp_path / "labels", metrics=rows)).edges == (
        ("api", "db"),
        ("web", "api"),
    )
    table = [{"caller": "a", "callee": "b"}]
    assert read_topology(write_case(tmp_path / "table", metrics=rows, topology=table)).edges == (
        ("a", "b"),
    )


def test_without_a_table_the_edges_come_from_spans_of_different_services(tmp_path: Path) -> None:
    case = write_case(tmp_path, spans=spans(0, 3, caller_ms=2, callee_ms=1, tag="t"))
    assert read_topology(case).edges == (("web", "api"),)


def test_downstream_and_upstream_count_hops_and_survive_cycles() -> None:
    graph = topology_of([("a", "b"), ("b", "c"), ("c", "a"), ("d", "b"), ("d", "d"), (None, "a")])
    assert graph.downstream("a") == {"a": 0, "b": 1, "c": 2}
    assert graph.upstream("b") == {"b": 0, "a": 1, "d": 1, "c": 2}
    assert graph.callers("b") == ("a", "d")
