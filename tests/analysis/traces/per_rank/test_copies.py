from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.per_rank.copies import copies, rows
from tests.analysis.traces.device_traces import copy, launch, trace_of
from tests.analysis.traces.written_traces import event

STEP = event("ProfilerStep#1", 1_000, 1_000, cat="user_annotation") | {"pid": 100}
PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
BACK = "Memcpy DtoH (Device -> Pageable)"


def test_copies_are_told_apart_by_direction_and_memory(tmp_path: Path) -> None:
    calls = [launch(1_000 + i, 50, i + 1, "cudaMemcpyAsync") for i in range(3)]
    work = [
        copy(PAGEABLE, 1_100, 40, correlation=1, bytes=1_000),
        copy(PINNED, 1_200, 60, correlation=2, bytes=2_000),
        copy(BACK, 1_300, 10, correlation=3, bytes=8),
    ]
    found = copies(trace_of(tmp_path, STEP, *calls, *work))
    assert (found.to_device.count, found.to_device.bytes, found.to_device.ns) == (2, 3_000, 100_000)
    assert (found.pageable_to_device.count, found.pageable_to_device.host_ns) == (1, 50_000)
    assert (found.to_host.count, found.pageable_to_host.count) == (1, 1)
    assert len(rows(trace_of(tmp_path, STEP, *calls, *work))) == 3


def test_hips_names_have_a_direction_but_no_kind_of_memory(tmp_path: Path) -> None:
    found = copies(trace_of(tmp_path, STEP, copy("CopyHostToDevice", 1_100, 40)))
    assert (found.to_device.count, found.pageable_to_device.count) == (1, 0)
