"""Why a stream is idle."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.traces.columns.device import DeviceStream, device_rows, launches_of
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.idle import (
    CATEGORIES,
    gap_statistics,
    idle_breakdown,
    rows,
    stream_gaps,
)
from tests.analysis.traces.device_traces import COPY, GEMM, copy, kernel, launch, trace_of
from tests.analysis.traces.goldens import golden, sets_with, views_of

OVERLAP = (
    "kernels of one stream overlap: HTA adds negative gaps, and gaps that an earlier kernel "
    "still fills"
)
NO_LAUNCH = "where a kernel's launch is not in the trace HTA takes the file's first event for it"
DIFFERENT = {
    "mi300_owlv2": OVERLAP,
    "negative_queue_length": OVERLAP,
    "trace_diff_test": OVERLAP,
    "mtia_single_rank": OVERLAP,
    "dlrm_8rank": NO_LAUNCH,
    "mi300_qwen": NO_LAUNCH,
}
Gaps = dict[tuple[int, str], list[int]]


@pytest.mark.parametrize("set_name", sets_with("idle_time_breakdown"))
def test_idle_times_are_htas_but_for_its_known_errors(set_name: str) -> None:
    said, statistics = golden(set_name, "idle_time_breakdown")
    same = []
    for rank, view in views_of(set_name).items():
        hta, ours = _hta_gaps(view), _our_gaps(view)
        sums = {
            (row["stream"], row["idle_category"]): row["idle_time"]
            for row in said
            if row["rank"] == rank
        }
        assert {key: sum(gaps) for key, gaps in hta.items()} == sums, "this is HTA's rule"
        for row in statistics:
            if row["rank"] == rank:
                gaps = hta[row["stream"], row["idle_category"]]
                assert len(gaps) == row["count"]
                assert not gaps or round(float(np.mean(gaps)), 2) == row["mean"]
        same.append(_without_nothing(hta) == ours)
    assert all(same) == (set_name not in DIFFERENT), DIFFERENT.get(set_name)


def test_a_gap_is_the_hosts_where_the_launch_came_after_the_stream_ran_dry(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        launch(0, 2, 1),
        launch(3, 2, 2),
        launch(60, 2, 3),
        launch(63, 2, 4),
        kernel(GEMM, 10, 10, correlation=1),
        kernel(GEMM, 22, 8, correlation=2),
        kernel(GEMM, 70, 10, correlation=3),
        kernel(GEMM, 180, 10, correlation=4),
    )
    (found,) = idle_breakdown(trace)
    assert found.by_category == {"kernel_wait": 2_000, "host_wait": 40_000, "other": 100_000}
    assert found.idle_ns == 142_000
    assert round(found.percent("host_wait"), 1) == 28.2
    (longer,) = idle_breakdown(trace, consecutive_kernel_delay_ns=100_001)
    assert longer.by_category["kernel_wait"] == 102_000
    wait = gap_statistics(stream_gaps(trace, consecutive_kernel_delay_ns=100_001))[1]
    assert (wait.category, wait.times.count, wait.times.max) == ("kernel_wait", 2, 100_000)


def test_a_long_kernel_fills_the_gaps_of_the_short_ones_behind_it(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernel(GEMM, 0, 100),
        kernel(GEMM, 10, 5),
        kernel(GEMM, 40, 5),
        kernel(GEMM, 110, 5),
    )
    gaps = stream_gaps(trace)
    assert (gaps.end - gaps.begin).tolist() == [10_000]


def test_streams_and_devices_are_apart_and_can_be_chosen(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernel(GEMM, 0, 10),
        kernel(GEMM, 30, 10),
        kernel(GEMM, 0, 10, device=1),
        kernel(GEMM, 15, 10, device=1),
        copy(COPY, 5, 10, stream=9),
    )
    found = {idle.stream: idle.idle_ns for idle in idle_breakdown(trace)}
    assert found == {
        DeviceStream("0", 7): 20_000,
        DeviceStream("0", 9): 0,
        DeviceStream("1", 7): 5_000,
    }
    assert [idle.stream.stream for idle in idle_breakdown(trace, streams=[9])] == [9]
    assert [row["device"] for row in rows(trace)] == ["0", "1"]


def test_a_trace_without_work_on_a_device_has_no_streams(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, launch(0, 2, 1))
    assert idle_breakdown(trace) == ()
    assert rows(trace) == []


def _our_gaps(view: TraceColumns) -> Gaps:
    gaps = stream_gaps(view)
    found: Gaps = defaultdict(list)
    for begin, end, stream, category in zip(
        gaps.begin, gaps.end, gaps.stream, gaps.category, strict=True
    ):
        found[gaps.streams[int(stream)].stream, CATEGORIES[int(category)]].append(
            int(end - begin) // 1000
        )
    return _without_nothing(found)


def _hta_gaps(view: TraceColumns) -> Gaps:
    """HTA's rule: the gap to the row before on the stream, whatever its sign; us. The first row of
    a stream has none, but makes the category "other" appear."""
    rows = device_rows(view)
    rows = rows[view.stream[rows] != -1]
    launches = launches_of(view, rows)
    first_event = np.flatnonzero(view.event == 0)
    stand_in = int(first_event[0]) if len(first_event) else -1
    launches = np.where((launches < 0) & (view.correlation[rows] >= 0), stand_in, launches)
    previous: dict[int, int] = {}
    found: Gaps = defaultdict(list)
    for row, launched in zip(rows.tolist(), launches.tolist(), strict=True):
        stream, start = int(view.stream[row]), int(view.ts[row])
        if stream in previous:
            late = launched >= 0 and int(view.ts[launched]) > previous[stream]
            gap = start - previous[stream]
            category = "host_wait" if late else "kernel_wait" if gap < 30_000 else "other"
            found[stream, category].append(gap // 1000)
        else:
            found[stream, "other"] += []
        previous[stream] = start + int(view.dur[row])
    return found


def _without_nothing(gaps: Gaps) -> Gaps:
    real = {key: sorted(gap for gap in lengths if gap != 0) for key, lengths in gaps.items()}
    return {key: lengths for key, lengths in real.items() if lengths}
