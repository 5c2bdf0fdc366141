"""Hardware counters with operators: by hand, and HTA's table on a real CUPTI trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.traces.per_rank.counters import FLOPS_PER_INSTRUCTION, kernel_counters, rows
from tests.analysis.traces.goldens import golden, sets_with, views_of
from tests.analysis.traces.per_rank.stack_traces import Event, call, launch, trace_of

FADD, FFMA = (
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
)


def _range(name: str, ts: float, add: int, fma: int, correlation: int | None = None) -> Event:
    args = {FADD: add, FFMA: fma} | ({} if correlation is None else {"correlation": correlation})
    return call(name, ts, 10, cat="cuda_profiler_range", tid=0, args=args)


def _launches() -> list[Event]:
    return [
        call("aten::linear", 0, 30),
        call("aten::addmm", 5, 20),
        launch(1, 10, 5),
        call("cuLaunchKernel", 11, 2, cat="cuda_driver"),
        launch(2, 40, 5, name="cudaLaunchKernelExC"),
    ]


def test_ranges_and_launches_are_paired_in_order(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [*_launches(), _range("gemm", 0, 10, 100), _range("add", 20, 7, 0)])
    found = kernel_counters(trace)
    assert found.operators == (("aten::linear", "aten::addmm"), ())
    assert found.launches.tolist() == [2, 4]
    assert found.flops is not None
    assert found.flops.tolist() == [210.0, 7.0]
    first = rows(trace)[0]
    assert (first["top_operator"], first["bottom_operator"], first["flops"]) == (
        "aten::linear",
        "aten::addmm",
        210,
    )


def test_a_correlation_counts_more_than_the_order(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        [*_launches(), _range("b", 0, 1, 1, correlation=2), _range("a", 20, 1, 1, correlation=1)],
    )
    assert kernel_counters(trace).launches.tolist() == [4, 2]


def test_what_cannot_be_paired_says_why_and_keeps_its_counters(tmp_path: Path) -> None:
    lost = kernel_counters(
        trace_of(tmp_path, [*_launches(), *(_range(f"k{i}", 10 * i, 1, 0) for i in range(7))])
    )
    assert lost.reason == "7 ranges of counters and 2 kernel launches cannot be paired in order"
    assert lost.launches.tolist() == [-1] * 7
    assert lost.counters[FADD].tolist() == [1.0] * 7
    assert "no_operator_because" in rows(trace_of(tmp_path, [_range("k", 0, 1, 0)]))[0]


def test_launches_before_the_recorded_ranges_do_not_count(tmp_path: Path) -> None:
    found = kernel_counters(trace_of(tmp_path, [*_launches(), _range("gemm", 35, 10, 100)]))
    assert found.launches.tolist() == [4]


def test_a_trace_without_counters_says_so(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, _launches())
    assert (
        kernel_counters(trace).reason
        == "the trace has no ranges of counters (CUPTI range profiler)"
    )
    assert rows(trace) == []


@pytest.mark.parametrize("set_name", sets_with("cupti_counters"))
def test_counters_and_operators_are_those_of_hta(set_name: str) -> None:
    said = golden(set_name, "cupti_counters")
    found = kernel_counters(view := views_of(set_name)[min(views_of(set_name))])
    if not said:
        assert len(found) == 0
        assert found.reason
        return
    (table,) = said
    assert len(found) == len(table)
    for place, row in enumerate(table):
        assert view.name_of(int(found.rows[place])) == row["name"]
        assert view.event[found.launches[place]] == row["index_runtime"]
        assert list(found.operators[place]) == row["op_stack"]
        assert (found.operators[place][0], found.operators[place][-1]) == (
            row["top_level_op"],
            row["bottom_level_op"],
        )
        for counter in FLOPS_PER_INSTRUCTION:
            assert found.counters[counter][place] == row[counter]
    assert found.flops is not None
    assert float(np.sum(found.flops)) == sum(
        row[c] * f for row in table for c, f in FLOPS_PER_INSTRUCTION.items()
    )
