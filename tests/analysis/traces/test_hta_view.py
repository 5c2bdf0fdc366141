"""The rows that HTA keeps: the filter that all comparisons with it rest on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.goldens import golden, sets_with, views_of
from tests.analysis.traces.hta_view import hta_view
from tests.analysis.traces.written_traces import document, event


@pytest.mark.parametrize("set_name", sets_with("trace_df_summary"))
def test_the_view_has_the_rows_that_hta_keeps(set_name: str) -> None:
    said = golden(set_name, "trace_df_summary")
    views = views_of(set_name)
    origin = min(int(v.ts.min()) for v in views.values())
    for rank, view in views.items():
        frame = said[str(rank)]
        assert len(view) == frame["rows"]
        assert int(view.dur.sum()) == frame["sum_dur"] * 1000
        assert int((view.ts - origin).sum()) == frame["sum_ts"] * 1000
        assert int(view.stream.sum()) == frame["sum_stream"]
        counts = np.bincount(view.category, minlength=len(view.categories))
        assert {c: n for c, n in zip(view.categories, counts.tolist(), strict=True) if n} == frame[
            "cat_counts"
        ]


def test_the_last_step_and_its_kernels_are_left_out(tmp_path: Path) -> None:
    trace = read_trace(_two_steps(tmp_path))
    view = hta_view(trace)
    assert {view.name_of(row) for row in range(len(view))} == {
        "ProfilerStep#1",
        "cudaLaunchKernel",
        "first",
    }
    assert len(hta_view(trace, include_last_step=True)) == len(trace)


def test_times_are_rounded_inwards_to_microseconds_where_any_is_fractional(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps(document([event("a", 1.2, 2.0), event("b", 5.1, 0.5), event("c", 7, 1)]))
    )
    view = hta_view(read_trace(path))
    assert view.dur.tolist() == [1000, -1000, 1000]


def _two_steps(folder: Path) -> Path:
    path = folder / "t.json"
    events = [
        event("ProfilerStep#1", 0, 100, cat="user_annotation"),
        event("ProfilerStep#2", 100, 100, cat="user_annotation"),
        event("cudaLaunchKernel", 10, 5, cat="cuda_runtime", correlation=1),
        event("cudaLaunchKernel", 110, 5, cat="cuda_runtime", correlation=2),
        event("first", 20, 5, cat="kernel", correlation=1, stream=7),
        event("second", 120, 5, cat="kernel", correlation=2, stream=7),
    ]
    path.write_text(json.dumps(document(events)))
    return path
