"""The rows of an accelerator in a profile of XLA: which do work, and which say whose it is.

Names of rows: `xplane_schema.cc` of openxla/xla; "Stream #13(Compute)" is CUPTI's collector's.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.native.nesting import nesting_parents

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
