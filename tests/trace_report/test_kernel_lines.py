from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.across_ranks.rank_summary import from_json, summarise, to_json
from faultline.trace_report.terminal import kernel_lines, kernel_time
from tests.analysis.traces.device_traces import GEMM, NCCL, kernel, trace_of


def test_communication_stands_among_the_kernels(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernel(GEMM, 10, 100), kernel(NCCL, 200, 300, stream=20))
    summary = from_json(to_json(summarise(trace)))
    lines = kernel_lines([summary])
    assert [(line.name.partition("(")[0], line.total) for line in lines] == [
        (NCCL.partition("(")[0], 300_000),
        (GEMM, 100_000),
    ]
    assert kernel_time([summary]) == 400_000
