"""A small job of two ranks on GPUs in which every analysis finds something: matrix products and
small kernels, copies, waits for the device, collectives of known sizes, allocations, a pause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.analysis.traces.device_traces import COPY, GEMM, NCCL, copy, kernel, launch
from tests.analysis.traces.written_traces import document, event, write_trace

STEPS, STEP_US = 6, 20_000.0
SMALL = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >"
REDUCED_ELEMENTS = 1_000_000


def write_gpu_job(folder: Path) -> Path:
    """Rank 1's fourth step is twice as long, and its copies are from pageable memory."""
    for rank in range(2):
        events = []
        at = 1_000.0
        for step in range(STEPS):
            length = 2 * STEP_US if rank == 1 and step == 3 else STEP_US
            events += _step(rank, step, at, length)
            at += 2 * STEP_US if step == 3 else STEP_US
        content = document(events, rank, 2)
        content["deviceProperties"] = [
            {"id": rank, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_899_345_920,
             "computeMajor": 8, "computeMinor": 0, "numSms": 108, "warpSize": 32}
        ]  # fmt: skip
        write_trace(folder / f"rank{rank}.pt.trace.json", content)
    return folder


def _step(rank: int, step: int, at: float, length: float) -> list[dict[str, Any]]:
    first = 1_000 * step + 1
    dims = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"],
            "Concrete Inputs": ["", ""]}  # fmt: skip
    message = {
        "Collective name": "allreduce", "dtype": "Float", "In msg nelems": REDUCED_ELEMENTS,
        "Out msg nelems": REDUCED_ELEMENTS, "Group size": 2, "Process Group Name": "0",
        "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]", "Seq": step,
    }  # fmt: skip
    events = [
        event(f"ProfilerStep#{step}", at, length, cat="user_annotation"),
        event("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, 600.0,
              cat="user_annotation"),
        event("aten::linear", at + 700, 400.0, **dims),
        event("aten::mm", at + 720, 300.0, **dims),
        launch(at + 740, 20.0, first),
        kernel(GEMM, at + 900, 3_000.0, device=rank, correlation=first),
        launch(at + 1_200, 50.0, first + 1, "cudaMemcpyAsync"),
        copy(COPY, at + 4_000, 500.0, device=rank, correlation=first + 1, bytes=4_000_000),
        event("cudaDeviceSynchronize", at + 1_300, 3_300.0, cat="cuda_runtime"),
        event("aten::item", at + 4_700, 900.0),
        launch(at + 5_000, 30.0, first + 2, "cudaMemcpyAsync"),
        copy("Memcpy DtoH (Device -> Pageable)", at + 5_200, 20.0, device=rank,
             correlation=first + 2, bytes=4),
        event("nccl:all_reduce", at + 6_000, 100.0, **message),
        launch(at + 6_050, 20.0, first + 3),
        kernel(NCCL, at + 6_500 + 800 * rank, 5_000.0 - 800 * rank, device=rank, stream=20,
               correlation=first + 3, **message),
        kernel(GEMM, at + 9_000, 1_500.0, device=rank, correlation=first + 4),
        launch(at + 6_200, 20.0, first + 4),
        event("Optimizer.step#AdamW.step", at + 12_000, 3_000.0, cat="user_annotation"),
    ]  # fmt: skip
    for number in range(40):
        launched, correlation = at + 12_000 + 60 * number, first + 10 + number
        events += [
            event("aten::add_", launched, 50.0),
            launch(launched + 10, 15.0, correlation),
            kernel(SMALL, launched + 40, 4.0, device=rank, correlation=correlation),
        ]
    for number, change in enumerate((1_048_576, 2_097_152, -1_048_576)):
        size = {
            "Device Type": 1,
            "Device Id": rank,
            "Bytes": change,
            "Addr": 64 + number,
            "Total Allocated": 2**30 + (step + number) * 2**20,
            "Total Reserved": 2**31,
        }
        events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]",
                       "pid": 1, "tid": 1, "ts": at + 700 + number, "args": size})  # fmt: skip
    return events
