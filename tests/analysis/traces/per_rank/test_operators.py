"""Operators by time and by delay: small traces by hand, and HTA's own table of delays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from faultline.analysis.traces.per_rank import operator_delays as operator_delays_module
from faultline.analysis.traces.per_rank.operators import operator_delays, operator_table, rows
from tests.analysis.traces.goldens import golden, sets_with, views_of
from tests.analysis.traces.per_rank.stack_traces import Event, call, kernel, launch, step, trace_of


def _two_linears() -> list[Event]:
    return [
        step(1, 0, 200),
        call("aten::linear", 10, 40, args={"Input Dims": [[4, 8]]}),
        call("aten::addmm", 15, 30, args={"Input Dims": [[4, 8]]}),
        launch(1, 20, 5),
        launch(2, 30, 5),
        call("aten::linear", 60, 20, args={"Input Dims": [[8, 8]]}),
        launch(3, 65, 5),
        kernel("gemm", 1, 100, 20),
        kernel("bias", 2, 121, 4),
        kernel("gemm", 3, 130, 10),
    ]


def test_own_and_whole_times_on_host_and_device(tmp_path: Path) -> None:
    table = {o.name: o for o in operator_table(trace_of(tmp_path, _two_linears()))}
    linear, addmm, launches = table["aten::linear"], table["aten::addmm"], table["cudaLaunchKernel"]
    assert (linear.calls, linear.host_total_ns, linear.host_self_ns) == (2, 60_000, 25_000)
    assert (linear.device_total_ns, linear.device_self_ns, linear.kernels) == (34_000, 10_000, 3)
    assert (addmm.host_self_ns, addmm.device_self_ns, addmm.device_total_ns) == (
        20_000,
        24_000,
        24_000,
    )
    assert (launches.host_self_ns, launches.device_self_ns) == (15_000, 34_000)
    assert table["ProfilerStep#1"].host_self_ns == 140_000
    assert table["ProfilerStep#1"].device_total_ns == 34_000


def test_shapes_split_an_operator(tmp_path: Path) -> None:
    table = operator_table(trace_of(tmp_path, _two_linears()), by_shapes=True)
    assert {(o.shapes, o.calls) for o in table if o.name == "aten::linear"} == {
        ("[[4,8]]", 1),
        ("[[8,8]]", 1),
    }


def test_a_call_inside_a_call_of_the_same_name_counts_once_in_the_whole(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, [call("f", 0, 100), call("f", 10, 50), call("f", 20, 10), call("f", 200, 5)]
    )
    (f,) = operator_table(trace)
    assert (f.calls, f.host_total_ns, f.host_self_ns) == (4, 105_000, 105_000)


def test_delays_are_those_of_the_innermost_operator_on_the_launching_thread(tmp_path: Path) -> None:
    elsewhere = call("aten::mul", 18, 30, tid=2)
    found = operator_delays(trace_of(tmp_path, [*_two_linears(), elsewhere]))
    assert [(d.name, d.kernels, d.calls) for d in found] == [
        ("aten::addmm", ("gemm", "bias"), 1),
        ("aten::linear", ("gemm",), 1),
    ]
    assert [(d.launch_delay_ns, d.runtime_delay_ns) for d in found] == [
        (5000, 80_000),
        (5000, 65_000),
    ]


def test_rows_of_operators_have_their_mean_delays(tmp_path: Path) -> None:
    table = {row["name"]: row for row in rows(trace_of(tmp_path, _two_linears()))}
    assert (table["aten::addmm"]["launch_delay_ns"], table["aten::addmm"]["runtime_delay_ns"]) == (
        5000,
        80_000,
    )
    assert "launch_delay_ns" not in table["ProfilerStep#1"]


def test_a_graph_launch_has_all_its_kernels_and_copies_are_left_out(tmp_path: Path) -> None:
    events = [
        call("aten::replay", 0, 50),
        launch(1, 10, name="cudaGraphLaunch"),
        launch(2, 20, name="cudaMemcpyAsync"),
        kernel("b", 1, 70, 5),
        kernel("a", 1, 60, 5),
        kernel("Memcpy HtoD", 2, 80, 5, cat="gpu_memcpy"),
        kernel("lonely", 9, 90, 5),
    ]
    trace = trace_of(tmp_path, events)
    assert [d.kernels for d in operator_delays(trace)] == [("a", "b")]
    assert [d.kernels for d in operator_delays(trace, copies=True)] == [("a", "b", "Memcpy HtoD")]


def test_a_trace_without_operators_has_empty_tables(tmp_path: Path) -> None:
    for events in ([], [kernel("gemm", 1, 0, 5)], [launch(1, 0), kernel("gemm", 1, 5, 5)]):
        trace = trace_of(tmp_path, events)
        assert operator_delays_module.rows(trace) == []
        assert len(rows(trace)) == sum(e["cat"] == "cuda_runtime" for e in events)


def test_delays_can_be_asked_for(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, _two_linears())
    table = operator_delays_module.rows(trace)
    assert [
        (r["name"], tuple(r["kernels"]), r["launch_delay_ns"], r["runtime_delay_ns"]) for r in table
    ] == [
        (d.name, d.kernels, d.launch_delay_ns, d.runtime_delay_ns) for d in operator_delays(trace)
    ]
    assert [r["kernels_per_call"] for r in table] == [len(r["kernels"]) for r in table]


OTHERWISE = {
    "negative_queue_length": "an operator and one inside it start at the same us: HTA takes "
    "either, we the inner one",
    "sampled_2rank": "an operator and one inside it start at the same us: HTA takes either, we "
    "the inner one",
    "mtia_single_rank": "HTA orders an operator's kernels as the file does, we by launch",
    "param_resnet": "HTA's first launch is the first in the file, ours the first in time",
    "mtia_inference": "HTA takes an operator of another thread",
}


@pytest.mark.parametrize("set_name", sets_with("aten_op_kernels_and_delay"))
def test_delays_are_those_of_hta(set_name: str) -> None:
    for rank, said in golden(set_name, "aten_op_kernels_and_delay").items():
        found = operator_delays(views_of(set_name)[int(rank)])
        ours = {(d.name, " -> ".join(d.kernels)): d for d in found}
        theirs = {(row["aten_op_name"], row["kernel_sequence"]): row for row in said}
        if set_name == "mtia_inference":
            assert ours == {}
            assert len(theirs) == 1
            continue
        our_calls = {key: delay.calls for key, delay in ours.items()}
        assert _by_kernels(our_calls) == _by_kernels(
            {k: row["occurrence_count"] for k, row in theirs.items()}
        )
        if set_name in OTHERWISE:
            continue
        assert set(ours) == set(theirs)
        for key, row in theirs.items():
            assert ours[key].calls == row["occurrence_count"]
            assert ours[key].launch_delay_ns == pytest.approx(
                row["avg_aten_op_launch_delay"] * 1000, abs=1
            )
            assert ours[key].runtime_delay_ns == pytest.approx(
                row["avg_runtime_delay"] * 1000, abs=1
            )


def _by_kernels(calls: dict[tuple[str, str], int]) -> Counter[tuple[str, ...]]:
    """Calls by the kernels they launched, whatever the operator's name and the kernels' order."""
    counted: Counter[tuple[str, ...]] = Counter()
    for (_, sequence), count in calls.items():
        counted[tuple(sorted(sequence.split(" -> ")))] += count
    return counted
