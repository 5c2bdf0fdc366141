"""Kinds of kernels, their launches and their streams."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.traces.columns.device import (
    DeviceStream,
    Kind,
    device_launches,
    device_rows,
    device_streams,
    kinds,
    launched_by,
    streams_of,
)
from tests.analysis.traces.device_traces import COPY, GEMM, NCCL, copy, kernel, launch, trace_of
from tests.analysis.traces.written_traces import event


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (GEMM, Kind.COMPUTATION),
        (NCCL, Kind.COMMUNICATION),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
            Kind.COMMUNICATION,
        ),
        ("void deep_ep::internode::dispatch<false>()", Kind.COMMUNICATION),
        ("void vllm::cross_device_reduce_1stage<__half, 8>()", Kind.COMMUNICATION),
        ("mscclKernel_Sum_half_Simple", Kind.COMMUNICATION),
        ("hipblasLt_gemm", Kind.COMPUTATION),
        ("void at::native::SyncBatchNorm_kernel()", Kind.COMPUTATION),
        (COPY, Kind.MEMORY),
        ("dma_request", Kind.MEMORY),
    ],
)
def test_the_kind_is_read_from_the_name(tmp_path: Path, name: str, kind: Kind) -> None:
    assert kinds(trace_of(tmp_path, kernel(name, 0, 1))).tolist() == [kind]


def test_what_runs_on_the_host_is_no_work_whatever_its_name(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, event("triton_poi_fused_0", 0, 90, stream=0), event("nccl:all_reduce", 0, 9)
    )
    assert kinds(trace).tolist() == [Kind.OTHER, Kind.OTHER]


@pytest.mark.parametrize("apart", [1, 2**40])
def test_kernels_find_their_launch_however_far_apart_correlations_are(
    tmp_path: Path, apart: int
) -> None:
    trace = trace_of(
        tmp_path,
        launch(0, 1, 1),
        launch(2, 1, 2),
        launch(4, 1, 3),
        kernel(GEMM, 9, 1, correlation=3),
        kernel(GEMM, 8, 1, correlation=1),
        kernel(GEMM, 7, 1, correlation=1),
        kernel(GEMM, 6, 1),
    )
    wide = replace(
        trace, correlation=np.where(trace.correlation > 0, trace.correlation * apart, -1)
    )
    assert launched_by(wide).tolist() == [-1, -1, -1, 2, 0, 0, -1]
    assert device_rows(wide).tolist() == [6, 5, 4, 3]
    assert device_launches(wide).tolist() == [-1, 0, 0, 2]


def test_streams_are_told_apart_by_device_even_where_lanes_do_not(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernel(GEMM, 0, 1, stream=9),
        kernel(GEMM, 1, 1, device=1),
        copy(COPY, 2, 1),
        kernel(GEMM, 3, 1),
    )
    index, streams = device_streams(trace)
    assert streams == (DeviceStream("0", 7), DeviceStream("0", 9), DeviceStream("1", 7))
    assert index.tolist() == [1, 2, 0, 0]
    one_lane = replace(trace, lane=np.zeros(4, dtype=np.int32))
    index, streams = streams_of(one_lane, device_rows(one_lane))
    assert (index.tolist(), [s.stream for s in streams]) == ([1, 0, 0, 0], [7, 9])
