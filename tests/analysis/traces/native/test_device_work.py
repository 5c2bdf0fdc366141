"""The compiled loops over a trace's rows give what numpy gives, on anything."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from faultline.analysis.traces.columns.device import device_launches, device_rows, device_streams
from faultline.analysis.traces.columns.events import TraceColumns, nothing
from faultline.analysis.traces.native import device_work
from faultline.analysis.traces.native.device_work import order_by_key
from faultline.analysis.traces.native.lane import library
from faultline.analysis.traces.per_rank.idle import stream_gaps
from faultline.analysis.traces.per_rank.launch_queue import queue_length

CATEGORIES = ("kernel", "cuda_runtime", "cpu_op", "gpu_memcpy")
LANES = (("0", "7"), ("0", "20"), ("1", "7"), ("9", "9"))

_rows = st.lists(
    st.tuples(
        st.integers(0, len(CATEGORIES) - 1),
        st.integers(0, len(LANES) - 1),
        st.sampled_from([0, 1, 5, 10, 50, 51, 2**62]),
        st.sampled_from([0, 1, 4, 40]),
        st.sampled_from([-1, 7, 20]),
        st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 900, 2**40, 2**63 - 1]),
    ),
    max_size=40,
)


def _trace(rows: list[tuple[int, ...]]) -> TraceColumns:
    category, lane, ts, dur, stream, correlation = (
        np.asarray([row[i] for row in rows], dtype=np.int64) for i in range(6)
    )
    return TraceColumns(
        file="t.json", rank=0, rank_source="order", world_size=None, host=None, ts=ts, dur=dur,
        name=np.zeros(len(rows), dtype=np.int32), category=category.astype(np.int32),
            lane=lane.astype(np.int32),
        names=("k",), categories=CATEGORIES, lanes=LANES, event=np.arange(len(rows)),
            offset=nothing(len(rows)),
        stream=stream, correlation=correlation, external_id=nothing(len(rows)),
            python_id=nothing(len(rows)),
        python_parent_id=nothing(len(rows)),
    )  # fmt: skip


def _told(trace: TraceColumns) -> list[object]:
    index, streams = device_streams(trace)
    gaps, queue = stream_gaps(trace), queue_length(trace)
    return [
        device_rows(trace).tolist(), device_launches(trace).tolist(), index.tolist(), streams,
        gaps.begin.tolist(), gaps.end.tolist(), gaps.stream.tolist(), gaps.category.tolist(),
            gaps.next_row.tolist(),
        gaps.launch_row.tolist(), queue.time.tolist(), queue.length.tolist(), queue.row.tolist(),
    ]  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(rows=_rows)
def test_the_compiled_and_the_python_loops_tell_the_same(rows: list[tuple[int, ...]]) -> None:
    assert library() is not None
    trace = _trace(rows)
    compiled = _told(replace(trace))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(device_work, "library", lambda: None)
        assert _told(replace(trace)) == compiled


def test_a_key_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="out of range"):
        order_by_key(np.asarray([0, 3, 1]), 3)
