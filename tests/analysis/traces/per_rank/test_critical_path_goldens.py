"""Beside HTA: with its model our path is its path, time by time and event by event; each difference
is one switch or one list of names, set back here and described in
docs/trace-engine/differences.md."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.traces.columns.device import launched_by
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.critical_path import CriticalPath, critical_path
from faultline.analysis.traces.per_rank.critical_path_breakdown import breakdown
from faultline.analysis.traces.per_rank.critical_path_events import (
    HTA_NAMES,
    EdgeKind,
    PathWindow,
    Rules,
    annotation_window,
    whole_trace,
)
from faultline.analysis.traces.perfetto.augmented import write_overlay
from tests.analysis.traces.goldens import (
    GOLDENS,
    TRACES,
    files_of,
    golden,
    log_of,
    sets_with,
    traces_of,
    views_of,
)

HTA_MODEL = Rules(gaps=False, waits=False, inferred=False, launches=False, data_loading=None)
BACKWARD_NOT_FOUND = (
    "amd_mi250",
    "df_index_resolver",
    "dlrm_8rank",
    "trace_diff_control",
    "trace_diff_test",
)
"""Sets where several threads have names with "forward", so HTA leaves the backward thread
unconnected."""
LAUNCHES_UNKNOWN = {
    "mi300_torch_compile": "hipModuleLaunchKernel",
    "mi300_qwen": "hipModuleLaunchKernel",
    "vllm_decode_graph": "hipGraphLaunch",
}
"""Sets with launches that HTA does not know: their kernels are in none of its queues."""
SMALL_TIES = {"cuda_event_sync": 1, "triton_example": 1}
"""Events that begin or end a path at no cost."""


def as_hta(trace: TraceColumns) -> TraceColumns:
    """Without rows of no length and what they launched, kernels without a launch, and all but the
    last kernel of a graph; HIP's blocking calls unknown, cudaEventQuery one of CUDA's."""
    names = tuple(
        "cudaEventSynchronize" if name == "cudaEventQuery" else name.replace("hip", "Hip", 1)
        for name in trace.names
    )
    launch = launched_by(trace)
    last = np.full(len(trace) + 1, -1)
    last[launch] = np.arange(len(trace))
    of_launch = (launch >= 0) & (last[launch] == np.arange(len(trace)))
    kept = np.where(trace.on_device, of_launch & (trace.dur[launch] > 0), trace.dur > 0)
    return replace(trace, names=names).select(kept)


def window_of(trace: TraceColumns, name: str) -> PathWindow:
    chosen = log_of(name)["critical_path_args"]
    if not chosen["annotation"]:
        return whole_trace(trace)
    window = annotation_window(trace, chosen["annotation"], chosen["instance"])
    assert window is not None
    return window


def first_view(name: str) -> TraceColumns:
    views = views_of(name)
    return views[min(views)]


@cache
def path_as_hta(name: str) -> tuple[TraceColumns, CriticalPath]:
    """The first trace of the set as HTA takes it, and our path through it with HTA's model."""
    trace = first_view(name)
    window, trace = window_of(trace, name), as_hta(trace)
    model = replace(HTA_MODEL, backward=name not in BACKWARD_NOT_FOUND)
    return trace, critical_path(trace, window, model)


def theirs(name: str) -> Any:
    found = golden(name, "critical_path")
    if not isinstance(found, dict) or "by_bound" not in found:
        pytest.skip("HTA gave no critical path")
    return found


def by_bound(trace: TraceColumns, path: CriticalPath) -> dict[str, float]:
    """In HTA's bounds and microseconds: it counts copies as computation."""
    found = breakdown(trace, path, HTA_MODEL).by_bound_ns
    found["gpu_compute_bound"] = found.get("gpu_compute_bound", 0) + found.pop("gpu_memory", 0)
    return {bound: time / 1000 for bound, time in found.items() if time}


@pytest.mark.parametrize(
    "name", [n for n in sets_with("critical_path") if n not in LAUNCHES_UNKNOWN]
)
def test_with_htas_model_the_path_is_htas_path(name: str) -> None:
    expected = theirs(name)
    trace, path = path_as_hta(name)
    assert path.length_ns == expected["total_duration"] * 1000
    assert by_bound(trace, path) == {
        bound: time for bound, time in expected["by_bound"].items() if time
    }
    ours, hta = set(trace.event[path.rows()].tolist()), set(expected["cp_events"])
    assert len(ours ^ hta) <= SMALL_TIES.get(name, 0)


@pytest.mark.parametrize(
    "name", [n for n in sets_with("critical_path") if n not in LAUNCHES_UNKNOWN]
)
def test_with_htas_model_operators_take_the_time_that_hta_finds(name: str) -> None:
    expected = theirs(name)["edge_types_count_weight"][HTA_NAMES[EdgeKind.OPERATOR]]
    edges = path_as_hta(name)[1].edges
    operators = edges.weight[edges.kind == EdgeKind.OPERATOR]
    assert abs(len(operators) - expected[0]) <= 7
    assert abs(int(operators.sum()) - expected[1] * 1000) <= expected[1] * 1000 * 0.001


@pytest.mark.parametrize("name", [n for n in LAUNCHES_UNKNOWN if n in sets_with("critical_path")])
def test_kernels_of_launches_that_hta_does_not_know_are_on_the_path(name: str) -> None:
    trace = first_view(name)
    path = critical_path(trace, window_of(trace, name))
    launched = launched_by(trace)
    on_path = path.rows()
    calls = launched[on_path[trace.on_device[on_path]]]
    assert LAUNCHES_UNKNOWN[name] in {trace.name_of(int(row)) for row in calls[calls >= 0]}
    assert not any(bound.startswith("gpu") for bound in theirs(name)["by_bound"])


@pytest.mark.parametrize("name", sets_with("critical_path"))
def test_by_default_no_path_is_longer_than_the_time_it_spans(name: str) -> None:
    trace = first_view(name)
    path = critical_path(trace, window_of(trace, name))
    times = path.events.node_time[path.nodes()]
    assert 0 < path.length_ns <= times[-1] - times[0]
    assert sum(breakdown(trace, path).by_bound_ns.values()) == path.length_ns


@pytest.mark.skipif(not GOLDENS.is_dir(), reason="the public data sets are not beside the project")
def test_the_backward_thread_that_hta_leaves_out_is_worth_a_quarter_of_the_path() -> None:
    trace = first_view("df_index_resolver")
    window, trace = window_of(trace, "df_index_resolver"), as_hta(trace)
    without = critical_path(trace, window, replace(HTA_MODEL, backward=False)).length_ns
    with_it = critical_path(trace, window, HTA_MODEL).length_ns
    with gzip.open(GOLDENS / "df_index_resolver" / "critical_path.json.gz") as packed:
        assert without == json.load(packed)["total_duration"] * 1000
    assert with_it > 1.3 * without


@pytest.mark.parametrize(
    "name", [n for n in sets_with("overlay_critical_path") if n not in LAUNCHES_UNKNOWN]
)
def test_with_htas_model_the_drawn_path_has_htas_events_and_arrows(
    name: str, tmp_path: Path
) -> None:
    expected = golden(name, "overlay_critical_path")
    view, path = path_as_hta(name)
    traces, files = traces_of(name), files_of(name)
    whole = traces[min(traces)]
    rows = np.searchsorted(whole.event, view.event[path.events.row])
    path = replace(path, events=replace(path.events, row=rows))
    written = write_overlay(TRACES / files[min(files)], tmp_path / "over.json", whole, path)
    found = json.loads(written.path.read_text())
    events = found if isinstance(found, list) else found["traceEvents"]
    critical = [e for e in events if (e.get("args") or {}).get("critical") == 1]
    ties = 3 * SMALL_TIES.get(name, 0)
    assert abs(len(critical) - expected["critical"]) <= ties
    assert abs(written.added - expected["flows"]) <= ties
    assert abs(len(events) - expected["events"]) <= ties
