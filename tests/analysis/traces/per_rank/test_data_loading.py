from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.per_rank.data_loading import data_loading, rows
from tests.analysis.traces.device_traces import GEMM, kernel, launch, trace_of
from tests.analysis.traces.written_traces import event

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
STEPS = [event(f"ProfilerStep#{n}", 1_000 * n, 1_000, cat="user_annotation") for n in (1, 2, 3)]


def test_all_loading_is_exposed_without_an_accelerator(tmp_path: Path) -> None:
    found = data_loading(
        trace_of(tmp_path, *STEPS, event(LOADER, 1_100, 300), event(LOADER, 2_100, 300))
    )
    assert (found.ns, found.exposed_ns, found.calls, found.in_process) == (
        600_000,
        600_000,
        2,
        False,
    )
    assert found.share == 0.2
    assert [e.step for e in found.longest] == [1, 2]


def test_loading_beside_a_working_accelerator_is_not_exposed(tmp_path: Path) -> None:
    work = [launch(1_000, 5, 1), kernel(GEMM, 1_200, 900, correlation=1)]
    found = data_loading(trace_of(tmp_path, *STEPS, *work, event(LOADER, 1_100, 300)))
    assert (found.ns, found.exposed_ns) == (300_000, 100_000)


def test_loading_outside_of_the_steps_is_left_out(tmp_path: Path) -> None:
    found = data_loading(
        trace_of(tmp_path, *STEPS, event(LOADER, 500, 700), event(LOADER, 5_000, 700))
    )
    assert found.ns == 200_000


def test_rows_tell_each_step(tmp_path: Path) -> None:
    found = rows(trace_of(tmp_path, *STEPS, event(LOADER, 1_100, 300)))
    assert [(r["step"], r["loader_ns"], r["loader_percent"]) for r in found] == [
        (1, 300_000, 30.0),
        (2, 0, 0.0),
        (3, 0, 0.0),
    ]


def test_a_trace_without_events_has_no_loading(tmp_path: Path) -> None:
    assert data_loading(trace_of(tmp_path)).ns == 0


def test_the_plugins_own_sample_loads_in_the_training_process(shared: Path) -> None:
    from faultline.analysis.traces.reading.kineto import read_trace

    folder = shared / "traces" / "kineto_tb_plugin" / "resnet50_num_workers_0"
    found = data_loading(read_trace(folder / "worker0.1623143089861.pt.trace.json.gz"))
    assert found.in_process
    assert 0.25 < found.share < 0.40
