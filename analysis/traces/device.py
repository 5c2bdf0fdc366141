"""Work on the accelerator: what kind each kernel is, and which call on the host launched it."""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np

from analysis.traces.columns import Bool, Int32, Int64, TraceColumns

MAX_DENSE = 1 << 26
"""Largest correlation that a dense table is made for; beyond it rows are matched by sorting."""


class Kind(IntEnum):
    """What an event on a stream does. OTHER is no work on a stream."""

    OTHER = 0
    COMPUTATION = 1
    COMMUNICATION = 2
    MEMORY = 3


COMMUNICATION_KERNEL = re.compile(
    r"nccl|rccl|mscclpp|mscclkernel|^msccl|hccl|oneccl|\bccl::|"
    r"deep_?ep::|nvshmem|rocshmem|internode::|intranode::|"
    r"cross_device_reduce|custom_all_?reduce|(one|two|multi)_?shot_(all_?reduce|reduce_scatter|all_gather)|"
    r"multimem_(all_?reduce|reduce_scatter|all_gather)|quick_?reduce|^ucc_|allreduce_fusion_kernel|"
    r"vllm::.*all_?reduce|trtllm_allreduce|sglang.*all_?reduce|collective_subgraph_execution",
    re.IGNORECASE,
)
"""Kernels that move data between ranks: NCCL (`ncclKernel*` up to 2.18, `ncclDevKernel*` since), RCCL, MSCCL(++),
oneCCL, HCCL (Gaudi, MTIA), DeepEP, NVSHMEM, ROCSHMEM, PyTorch's symmetric memory, vLLM's, SGLang's and TensorRT-LLM's
custom all-reduce. HTA knows only the first, and only where the name begins with it."""

_MEMORY_NAME = re.compile(r"^(hip)?(Memcpy|Memset)\b|^(hip)?(Memcpy|Memset)|^dma", re.IGNORECASE)
_MEMORY_CATEGORIES = ("gpu_memcpy", "gpu_memset", "memcpy", "memset")


def kinds(trace: TraceColumns) -> Int32:
    """`Kind` of every row; OTHER for everything that is not work on an accelerator's stream."""
    by_name = np.asarray([_kind_of(name) for name in trace.names], dtype=np.int32)
    found = by_name[trace.name] if len(by_name) else np.zeros(len(trace), dtype=np.int32)
    found = np.where(trace.in_category(*_MEMORY_CATEGORIES), Kind.MEMORY, found)
    return np.asarray(np.where(trace.on_device, found, Kind.OTHER), dtype=np.int32)


def is_communication_kernel(name: str) -> bool:
    """Whether a kernel's name says that it moves data between ranks."""
    return COMMUNICATION_KERNEL.search(name) is not None


def _kind_of(name: str) -> Kind:
    if _MEMORY_NAME.search(name):
        return Kind.MEMORY
    return Kind.COMMUNICATION if is_communication_kernel(name) else Kind.COMPUTATION


RUNTIME_CATEGORIES = ("cuda_runtime", "cuda_driver", "runtime", "driver", "xpu_runtime", "xpu_driver", "mtia_runtime")
"""Calls of the host into the accelerator's runtime or driver; ROCm's hip* calls are in cuda_runtime."""


def on_runtime(trace: TraceColumns) -> Bool:
    """Mask of the host's calls into the runtime or driver."""
    return trace.in_category(*RUNTIME_CATEGORIES)


def launched_by(trace: TraceColumns) -> Int64:
    """For every row on the device, the row of the call that launched it, by correlation; -1 where there is none.

    A graph launch has many kernels, each of which points to it. Where several calls share a correlation the last in
    file order wins. O(rows).
    """
    return _linked(trace, trace.on_device, on_runtime(trace))


def _linked(trace: TraceColumns, wanting: Bool, giving: Bool) -> Int64:
    found = np.full(len(trace), -1, dtype=np.int64)
    linked = trace.correlation > 0
    want, give = np.flatnonzero(wanting & linked), np.flatnonzero(giving & linked)
    if not len(want) or not len(give):
        return found
    keys, asked = trace.correlation[give], trace.correlation[want]
    top = int(keys.max())
    if top < MAX_DENSE:
        table = np.full(top + 1, -1, dtype=np.int64)
        table[keys] = give
        known = asked <= top
        found[want[known]] = table[asked[known]]
        return found
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], asked, side="right") - 1
    hit = (place >= 0) & (keys[order][place] == asked)
    found[want[hit]] = give[order][place[hit]]
    return found
