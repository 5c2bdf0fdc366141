"""Where the accelerator's time goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.traces.columns.device import DeviceWork, Kind
from faultline.analysis.traces.per_rank.temporal import (
    TemporalBreakdown,
    breakdowns,
    communication_overlap,
    rows,
    step_breakdowns,
    temporal_breakdown,
)
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.device_traces import COPY, GEMM, NCCL, at, copy, kernel, trace_of
from tests.analysis.traces.goldens import golden, sets_with, views_of
from tests.analysis.traces.hta_view import hta_work
from tests.analysis.traces.written_traces import document, event, write_trace

SYNCS = "HTA counts the host's waiting (cuda_sync) as work on the stream it waits for"
TRITON = "HTA counts the host's Triton operators, which name a stream, as kernels"
BELOW_NOTHING = (
    "HTA's rounding makes short kernels -1 us long, and each takes 1 us away from the union"
)
DIFFERENT = {
    "alexnet": SYNCS,
    "simple_add": SYNCS,
    "cuda_event_sync": SYNCS,
    "cuda_event_sync_multi_stream": SYNCS,
    "mi300_torch_compile": TRITON,
    "triton_example": TRITON,
    "mtia_inference": "HTA takes no `pe_exe` for computation; and " + BELOW_NOTHING,
    "mtia_single_rank": "HTA leaves out copies whose stream is -1",
    "mi300_resnet_ddp8_actckpt": BELOW_NOTHING,
}


@pytest.mark.parametrize("set_name", sets_with("temporal_breakdown"))
def test_the_breakdown_is_htas_on_its_rows(set_name: str) -> None:
    said = {row["rank"]: row for row in golden(set_name, "temporal_breakdown")}
    for rank, view in views_of(set_name).items():
        found, hta = temporal_breakdown(view), breakdowns(hta_work(view))[0]
        wanted = said[rank]
        if set_name in DIFFERENT:
            assert _times(found) != _wanted(wanted), f"no longer different: {DIFFERENT[set_name]}"
        else:
            assert _times(found) == _wanted(wanted)
            assert round(found.idle_percent, 2) == wanted["idle_time_pctg"]
            assert round(found.compute_percent, 2) == wanted["compute_time_pctg"]
            assert round(found.non_compute_percent, 2) == wanted["non_compute_time_pctg"]
        if BELOW_NOTHING in DIFFERENT.get(set_name, ""):
            assert _with_negative_lengths(hta_work(view)) == _wanted(wanted)
        else:
            assert _times(hta) == _wanted(wanted), "with HTA's rows and types the numbers are HTA's"


@pytest.mark.parametrize("set_name", sets_with("comm_comp_overlap"))
def test_the_overlap_is_htas(set_name: str) -> None:
    said = {
        row["rank"]: row["comp_comm_overlap_pctg"] for row in golden(set_name, "comm_comp_overlap")
    }
    for rank, view in views_of(set_name).items():
        percent = communication_overlap(view).percent
        assert (None if percent is None else round(percent, 2)) == said[rank]


def test_communication_beside_computation_is_hidden_and_the_rest_exposed(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernel(GEMM, 0, 10),
        kernel(NCCL, 6, 10, stream=20),
        copy(COPY, 14, 6, stream=30),
        kernel(GEMM, 25, 5),
    )
    found = temporal_breakdown(trace)
    assert (found.kernel_ns, found.idle_ns, found.compute_ns, found.non_compute_ns) == (
        30_000,
        5_000,
        15_000,
        10_000,
    )
    assert (found.communication_ns, found.exposed_communication_ns) == (10_000, 6_000)
    assert (found.memory_ns, found.exposed_memory_ns) == (6_000, 4_000)
    overlap = communication_overlap(trace)
    assert (overlap.overlapped_ns, overlap.exposed_ns, overlap.percent) == (4_000, 6_000, 40.0)


def test_a_window_cuts_what_reaches_over_its_bounds_and_is_idle_where_nothing_runs(
    tmp_path: Path,
) -> None:
    trace = trace_of(tmp_path, kernel(GEMM, 0, 10), kernel(NCCL, 6, 10, stream=20))
    found = temporal_breakdown(trace, at(8), at(20))
    assert (found.kernel_ns, found.idle_ns, found.compute_ns) == (12_000, 4_000, 2_000)
    assert communication_overlap(trace, at(8), at(20)).percent == 25.0
    empty = temporal_breakdown(trace, at(50), at(40))
    assert (empty.kernel_ns, empty.idle_percent) == (0, 0.0)


def test_each_step_has_its_own_breakdown(tmp_path: Path) -> None:
    steps = [event(f"ProfilerStep#{n}", 100 * n, 100, cat="user_annotation") for n in (1, 2)]
    trace = trace_of(tmp_path, *steps, kernel(GEMM, 150, 100), kernel(NCCL, 280, 40))
    found = {
        number: (b.compute_ns, b.exposed_communication_ns) for number, b in step_breakdowns(trace)
    }
    assert found == {1: (50_000, 0), 2: (50_000, 20_000)}
    assert [row["part"] for row in rows(trace)] == ["all", "step 1", "step 2"]


def test_two_devices_of_one_process_are_told_apart(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, kernel(GEMM, 0, 10), kernel(GEMM, 0, 10, device=1), kernel(GEMM, 30, 10)
    )
    found = {row["part"]: row["idle_ns"] for row in rows(trace)}
    assert found == {"all": 20_000, "device 0": 20_000, "device 1": 0}


def test_a_trace_without_work_on_a_device_is_no_error(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, event("aten::mm", 0, 10))
    assert temporal_breakdown(trace).kernel_ns == 0
    assert communication_overlap(trace).percent is None
    assert rows(trace)[0]["idle_percent"] == 0.0


def test_kernels_without_length_leave_no_time(tmp_path: Path) -> None:
    trace = read_trace(
        write_trace(tmp_path / "t.json", document([kernel(GEMM, 5, 0), kernel(GEMM, 5, 0)]))
    )
    assert temporal_breakdown(trace) == TemporalBreakdown(at(5), at(5), 0, 0, 0, 0, 0, 0)


def _times(found: TemporalBreakdown) -> list[float]:
    return [
        ns / 1000 for ns in (found.idle_ns, found.compute_ns, found.non_compute_ns, found.kernel_ns)
    ]


def _wanted(row: dict[str, float]) -> list[float]:
    return [row[f"{name}_time(us)"] for name in ("idle", "compute", "non_compute", "kernel")]


def _with_negative_lengths(work: DeviceWork) -> list[float]:
    busy = _hta_union(work)
    compute = _hta_union(work.only(work.kind == Kind.COMPUTATION))
    kernel_us = (int(work.end.max()) - int(work.start.min())) // 1000
    return [kernel_us - busy, compute, busy - compute, kernel_us]


def _hta_union(work: DeviceWork) -> int:
    total, begin, reach = 0, None, 0
    for start, end in zip(work.start.tolist(), work.end.tolist(), strict=True):
        if begin is not None and start <= reach:
            reach = max(reach, end)
            continue
        total += reach - begin if begin is not None else 0
        begin, reach = start, end
    return (total + (reach - begin if begin is not None else 0)) // 1000
