"""Writes `recorded/results.json` as rocprofv3 does; no AMD accelerator was at hand.

    PYTHONPATH=. python tests/analysis/traces/rocprof/write.py

Shape: `generateJSON.cpp` of ROCm/rocprofiler-sdk, and the reading of such files in its tests.
"""

import json
from pathlib import Path
from typing import Any

START = 2_652_740_482_000_000
CPU, GPUS = 101, (201, 202)
KINDS = {
    "HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync"],
    "KERNEL_DISPATCH": ["NONE", "ENQUEUE", "COMPLETE"],
    "MEMORY_COPY": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"],
    "MARKER_CORE_API": ["roctxRangePushA"],
    "RCCL_API": ["ncclAllReduce"],
}
KERNELS = (
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_SE",
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
)


def process(pid: int, steps: int = 3) -> dict[str, Any]:
    """A process that trains: in each step a copy, a product and a collective, on one GPU."""
    records: dict[str, list[dict[str, Any]]] = {
        name: []
        for name in (
            "kernel_dispatch",
            "memory_copy",
            "hip_api",
            "hsa_api",
            "marker_api",
            "rccl_api",
        )
    }
    messages = []
    kinds = list(KINDS)
    number = 0

    def record(name: str, kind: str, operation: int, begin: int, end: int, **more: Any) -> None:
        records[name].append(
            {
                "size": 128,
                "kind": kinds.index(kind),
                "operation": operation,
                "thread_id": pid,
                "correlation_id": {"internal": number, "external": 0},
                "start_timestamp": START + begin,
                "end_timestamp": START + end,
                **more,
            }
        )

    def dispatch(kernel: int, begin: int, end: int) -> None:
        info = {
            "size": 64,
            "agent_id": {"handle": GPUS[0]},
            "queue_id": {"handle": 139_637_976_727_552},
            "kernel_id": kernel,
            "dispatch_id": number,
            "group_segment_size": 512,
            "workgroup_size": {"x": 256, "y": 1, "z": 1},
            "grid_size": {"x": 25_600, "y": 2, "z": 1},
        }
        where = {"dispatch_info": info, "stream_id": {"handle": 1}}
        record("kernel_dispatch", "KERNEL_DISPATCH", 2, begin, end, **where)

    for step in range(steps):
        at = 10_000 * step
        number += 1
        messages.append({"key": number, "value": f"step {step}"})
        record("marker_api", "MARKER_CORE_API", 0, at, at + 9_000)
        number += 1
        record("hip_api", "HIP_RUNTIME_API", 1, at + 100, at + 300)
        ends = {"src_agent_id": {"handle": CPU}, "dst_agent_id": {"handle": GPUS[0]}}
        copy = {"bytes": 8_000, "stream_id": {"handle": 2}, **ends}
        record("memory_copy", "MEMORY_COPY", 1, at + 400, at + 600, **copy)
        number += 1
        record("hip_api", "HIP_RUNTIME_API", 0, at + 700, at + 800, args=[{"name": "grid"}])
        dispatch(1, at + 1_000, at + 5_000)
        number += 1
        record("rccl_api", "RCCL_API", 0, at + 900, at + 1_500)
        record("hip_api", "HIP_RUNTIME_API", 0, at + 1_000, at + 1_200)
        dispatch(2, at + 5_000, at + 8_000)
    agents = [{"id": {"handle": CPU}, "type": 1, "node_id": 0, "name": "AMD EPYC 9534"}]
    for place, handle in enumerate(GPUS, start=1):
        names = {"name": "gfx942", "product_name": "AMD Instinct MI300X"}
        agents.append({"id": {"handle": handle}, "type": 2, "node_id": place, **names})
    symbols = [{"kernel_id": 0, "kernel_name": "", "formatted_kernel_name": ""}]
    for place, name in enumerate(KERNELS, start=1):
        symbols.append(
            {"kernel_id": place, "kernel_name": f"{name}.kd", "formatted_kernel_name": name}
        )
    return {
        "metadata": {"pid": pid, "init_time": START, "fini_time": START + 10_000 * steps},
        "agents": agents,
        "counters": [],
        "strings": {
            "buffer_records": [{"kind": k, "operations": o} for k, o in KINDS.items()],
            "marker_api": messages,
        },
        "code_objects": [],
        "kernel_symbols": symbols,
        "buffer_records": records,
    }


if __name__ == "__main__":
    results = {"rocprofiler-sdk-tool": [process(4_711)]}
    target = Path(__file__).parent / "recorded" / "results.json"
    target.write_text(json.dumps(results, indent=1) + "\n")
