"""A rank whose accelerator's work is known: launches on the host, kernels on streams, times in
microseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.written_traces import BASE_NS, document, event, write_trace

GEMM, NCCL = (
    "ampere_sgemm_128x64_nn",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
)
COPY = "Memcpy HtoD (Pageable -> Device)"


def kernel(
    name: str,
    ts: float,
    dur: float,
    *,
    stream: int = 7,
    device: int = 0,
    cat: str = "kernel",
    **args: Any,
) -> dict[str, Any]:
    """One event on a stream; `correlation` links it to its launch."""
    made = event(name, ts, dur, cat=cat, tid=stream, stream=stream, device=device, **args)
    return made | {"pid": device}


def copy(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """A copy or fill on a stream."""
    return kernel(
        name, ts, dur, cat="gpu_memset" if name.startswith("Memset") else "gpu_memcpy", **args
    )


def launch(
    ts: float,
    dur: float,
    correlation: int,
    name: str = "cudaLaunchKernel",
    cat: str = "cuda_runtime",
    tid: int = 1,
) -> dict[str, Any]:
    """A call of the host into the runtime."""
    return event(name, ts, dur, cat=cat, tid=tid, correlation=correlation) | {"pid": 100}


def trace_of(folder: Path, *events: dict[str, Any]) -> TraceColumns:
    """Written as the profiler does, and read back."""
    return read_trace(write_trace(folder / "rank0.json", document(list(events), world=1)))


def at(microseconds: float) -> int:
    """A moment of such a trace in ns since the epoch."""
    return BASE_NS + round(microseconds * 1000)
