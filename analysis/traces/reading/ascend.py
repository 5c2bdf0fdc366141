"""Traces of Ascend NPUs (`trace_view.json` of torch_npu and MindSpore) as the engine knows traces.

Only events of the framework have categories there: the other processes say by their names what they
hold. Source: `msprof`'s and torch_npu's viewers, and the documentation of MindStudio.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from faultline.analysis.traces.columns.events import TraceColumns

FORMAT = "Ascend trace (trace_view.json)"
HARDWARE, CANN, FRAMEWORKS = "Ascend Hardware", "CANN", ("Python", "MindSpore")
COMMUNICATION = ("Communication", "HCCL", "Communication(HCCL)")
_STREAM = re.compile(r"^Stream (\d{1,9})$")
_NO_WORK = re.compile(
    r"^(?:EVENT_|NOTIFY_|PROFILER_|MODEL_|CAPTURE_|LABEL_|STREAM_|PLACE_HOLDER|MAINTENANCE)",
    re.IGNORECASE,
)
"""Tasks that wait, mark or steer."""
_COPY = re.compile(r"^(?:MEMCPY|SDMA|PCIE_DMA)", re.IGNORECASE)
_COLLECTIVE = re.compile(r"^hcom", re.IGNORECASE)
CATEGORIES = (
    "cpu_op",
    "user_annotation",
    "privateuse1_runtime",
    "kernel",
    "gpu_memcpy",
    "npu_task",
)


def is_ascend(trace: TraceColumns) -> bool:
    """Whether the trace is one of an Ascend NPU."""
    return HARDWARE in trace.process_names.values()


def ascend_trace(trace: TraceColumns) -> TraceColumns:
    """The same with categories and streams. Waiting tasks, the planes of collectives and msprof's
    own analyses are no work ("npu_task")."""
    categories = (*trace.categories, *(c for c in CATEGORIES if c not in trace.categories))
    place = {name: number for number, name in enumerate(categories)}
    category, stream = trace.category.copy(), trace.stream.copy()
    task_types = trace.arguments.text("Task Type")
    for lane, (pid, _) in enumerate(trace.lanes):
        process = trace.process_names.get(pid, "")
        rows = np.flatnonzero(trace.lane == lane)
        # The framework's events already have categories.
        if not len(rows) or (process in FRAMEWORKS and any(trace.categories)):
            continue
        match = _STREAM.match(trace.lane_names.get(lane, ""))
        if match is not None:
            stream[rows] = int(match[1])
        types = task_types.at(rows)
        kinds = []
        for row, task in zip(rows.tolist(), types, strict=True):
            kinds.append(place[_category(process, trace.name_of(row), task)])
        category[rows] = np.asarray(kinds, dtype=np.int32)
    header = {"deviceProperties": [{"name": "Ascend NPU"}], **trace.header}
    return replace(
        trace,
        category=category,
        categories=categories,
        stream=stream,
        header=header,
        format=FORMAT,
    )


def _category(process: str, name: str, task: str) -> str:
    if process in FRAMEWORKS:
        return "user_annotation" if name.startswith("ProfilerStep#") else "cpu_op"
    if process == CANN:
        return "privateuse1_runtime"
    if process in COMMUNICATION:
        return "kernel" if _COLLECTIVE.match(name) else "npu_task"
    if process != HARDWARE or _NO_WORK.match(task or name):
        return "npu_task"
    return "gpu_memcpy" if _COPY.match(task or name) else "kernel"
