"""The rows of an accelerator in a profile of XLA: which do work, and which say whose it is.

Names of rows: `xplane_schema.cc` of openxla/xla; "Stream #13(Compute)" is CUPTI's collector's.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.native.device_work import nesting_parents

DEVICE = re.compile(r"^/device:(TPU|GPU|CUSTOM):(?:.*?)(\d{1,6})\b")
STREAM = re.compile(r"^Stream #(\d{1,18})")
OPERATIONS = re.compile(r"^(?:Async )?XLA Ops$|^Sparse ?Core Ops$", re.IGNORECASE)
ABOUT_WORK = re.compile(
    r"^(?:Sparse Core )?(?:Steps|Modules)$|^XLA Modules$|^XLA Ops$|^(?:Framework|TensorFlow) Ops$",
    re.IGNORECASE,
)
"""Rows that say to what the work of a device belongs; they do no work themselves."""


def device_of(name: str) -> tuple[str, int] | None:
    """(kind, number) of the accelerator that a plane or process stands for."""
    match = DEVICE.match(name)
    return (match[1], int(match[2])) if match else None


def work_stream(row: str, kind: str, place: int) -> int | None:
    """The stream of a row that does work; `place` is that of a row of operations. None for other
    rows: on a GPU the operations of XLA are its kernels once more."""
    match = STREAM.match(row)
    if match is not None:
        return int(match[1])
    return place if kind != "GPU" and OPERATIONS.match(row) else None


def enclosing(start: Int64, end: Int64) -> NDArray[np.bool_]:
    """Which events of a row have others inside (loops, conditionals, calls)."""
    order = np.lexsort((-end, start))
    parents, _ = nesting_parents(np.zeros(len(start), dtype=np.int32), start[order], end[order])
    has_children = np.zeros(len(start), dtype=np.bool_)
    has_children[order[parents[parents >= 0]]] = True
    return has_children


# Names of XLA's events as the engine knows them.
#
# Sources: `xplane_schema.cc`, `HloOpcode` (names of operations) and JAX's profiler, which writes
# Python calls as "$pjit.py:250 cache_miss".

MARKERS = ("ThreadpoolListener::", "end: ")
"""Moments without a length that only link threads."""
_PYTHON = re.compile(r"^\$(.*?):(\d{1,9}) (.*)$")
_COLLECTIVE = re.compile(
    r"all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast",
    re.IGNORECASE,
)
_COPY = re.compile(r"^Mem(?:cpy|Copy)", re.IGNORECASE)
_FILL = re.compile(r"^Memset", re.IGNORECASE)


def python_name(text: str) -> str:
    """A Python call as PyTorch writes it ("pjit.py(250): cache_miss"); others as they are."""
    if not text.startswith("$"):
        return text
    match = _PYTHON.match(text)
    return f"{match[1]}({match[2]}): {match[3]}" if match else text[1:]


def host_category(text: str) -> str:
    """The category of an event of a host's thread."""
    return "python_function" if text.startswith("$") else "cpu_op"


def annotated_step(name: str, number: int) -> str:
    """A step of `jax.profiler.StepTraceAnnotation`."""
    return f"{name} {number}"


def exactly(name: str) -> str:
    """The name of steps as a pattern for `TraceColumns.step_name`: itself with a number alone."""
    escaped = re.sub(r"([*?\[])", r"[\1]", name)
    return name if escaped == name else f"{escaped} [0-9]*"


def device_category(name: str) -> str:
    """The category of work on a device, by its name."""
    if _COPY.match(name):
        return "gpu_memcpy"
    if _FILL.match(name):
        return "gpu_memset"
    return "kernel"


def collective_in(name: str, hlo_category: str) -> str:
    """The name, with the collective that is only in the category of a fusion."""
    if _COLLECTIVE.search(hlo_category) and not _COLLECTIVE.search(name):
        return f"{hlo_category} ({name})"
    return name
