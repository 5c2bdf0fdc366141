"""HTA's side of the benchmark; runs in a separate environment, where `traceinsight` is
installed.

python hta_side.py parse|analyses|slow REPEATS FILE...
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from measured import Measured

logging.disable(logging.CRITICAL)


def main() -> None:
    """Load the files (one rank each), `REPEATS` times, and time the analyses on what was loaded
    last."""
    part, repeats, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    from hta.trace_analysis import TraceAnalysis

    measured = Measured()
    ranks = dict(enumerate(files))
    analysis: Any = None
    for _ in range(repeats):
        analysis = None
        analysis = measured.time("parse", lambda: TraceAnalysis(trace_files=ranks, trace_dir="/"))
        if part != "parse":
            _fast(measured, analysis, list(ranks))
    if part == "slow":
        _slow(measured, analysis, files[0])
    measured.send()


def _fast(measured: Measured, analysis: Any, ranks: list[int]) -> None:
    measured.time("temporal breakdown", lambda: analysis.get_temporal_breakdown(visualize=False))
    measured.time("communication overlap", lambda: analysis.get_comm_comp_overlap(visualize=False))
    measured.time(
        "idle breakdown", lambda: analysis.get_idle_time_breakdown(ranks=ranks, visualize=False)
    )
    measured.time("queue length", lambda: analysis.get_queue_length_time_series(ranks=ranks))
    measured.time("memory bandwidth", lambda: analysis.get_memory_bw_time_series(ranks=ranks))
    measured.time("kernel breakdown", lambda: analysis.get_gpu_kernel_breakdown(visualize=False))
    measured.time(
        "launch statistics",
        lambda: analysis.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False),
    )


def _slow(measured: Measured, analysis: Any, file: str) -> None:
    from hta.common.trace_call_graph import CallGraph

    measured.time("call stacks", lambda: CallGraph(analysis.t, ranks=[0]))
    whole = measured.time(
        "critical path, whole trace",
        lambda: analysis.critical_path_analysis(rank=0, annotation="", instance_id=None),
    )
    if isinstance(whole, tuple):
        measured.time("critical path breakdown", whole[0].get_critical_path_breakdown)
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(whole, tuple):
            measured.time(
                "overlay written",
                lambda: analysis.overlay_critical_path_analysis(0, whole[0], output_dir=folder),
            )
        measured.time(
            "kernel sequences",
            lambda: analysis.get_frequent_cuda_kernel_sequences(
                operator_name="aten::addmm", output_dir=folder, rank=0, top_k=5, visualize=False
            ),
        )
    measured.time("operator delays", lambda: analysis.get_aten_op_kernels_and_delay(ranks=[0]))
    written = Path(file).parent / "counted"
    measured.time(
        "counters written",
        lambda: analysis.generate_trace_with_counters(ranks=[0], output_suffix=str(written.name)),
    )


if __name__ == "__main__":
    main()
