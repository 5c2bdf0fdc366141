"""Named pauses of a rank's host: checkpoint saves, garbage collections, evaluations, barriers for
them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.per_rank.step_times import StepWindow, event_reference, window_of

PauseKind = Literal["checkpoint save", "garbage collection", "evaluation"]
KINDS: dict[PauseKind, re.Pattern[str]] = {
    "checkpoint save": re.compile(
        r"torch\.save|save_checkpoint|checkpoint_save|\bsave_state|(?:dcp|checkpoint)\S*[.:/_ ]save"
        r"|\bsave\b.*\b(?:ckpt|checkpoint|model|state)|serialization\.py\(\d+\): "
        r"save|state_dict_saver|\bfsync\b",
        re.IGNORECASE,
    ),
    "garbage collection": re.compile(
        r"\bgc\.collect|(?:^|\W)gc(?:\W|$)|garbage.?collect|built-in function collect",
        re.IGNORECASE,
    ),
    "evaluation": re.compile(
        r"^#* ?(?:eval(?:uation|uate)?|validat(?:e|ion))(?:_\w+)?(?: ?#*)$", re.IGNORECASE
    ),
}
"""Names that people and PyTorch give them; python frames ("torch/serialization.py(964): save")
count too."""
LEAST_NS = 1_000_000
"""Shorter ones hold nobody up."""
MAX_PAUSES = 16


@dataclass(frozen=True)
class Pause:
    """One named pause."""

    kind: PauseKind
    event: EventReference


def pauses(trace: TraceColumns, window: StepWindow | None = None) -> tuple[Pause, ...]:
    """The longest named pauses in the window, longest first."""
    window = window or window_of(trace)
    kind_of = {
        i: kind for i, name in enumerate(trace.names) if (kind := pause_kind(name)) is not None
    }
    if not kind_of:
        return ()
    named = np.isin(trace.name, np.asarray(list(kind_of), dtype=np.int32))
    rows = np.flatnonzero(named & window.holds(trace) & ~trace.on_device & (trace.dur >= LEAST_NS))
    rows = rows[~trace.in_category("gpu_user_annotation")[rows]]
    rows = rows[np.argsort(-trace.dur[rows], kind="stable")][:MAX_PAUSES]
    return tuple(
        Pause(kind_of[int(trace.name[r])], event_reference(trace, r, window.steps))
        for r in rows.tolist()
    )


def pause_kind(name: str) -> PauseKind | None:
    """What kind of pause the name of an event speaks of."""
    # The ranges of TorchDynamo's timers are no pause, whatever words they hold.
    if "dynamo_timed" in name[:512]:
        return None
    # Bound the search: names may be megabytes long.
    return next((kind for kind, pattern in KINDS.items() if pattern.search(name[:512])), None)


TABLE = RowTable(
    TEXT("kind", name="event.name"),
    INT(step="event.step", start_ns="event.start_ns", duration_ns="event.duration_ns"),
    INT(event="event.event"),
)


def rows(trace: TraceColumns) -> Rows:
    """The longest named pauses, as JSON rows."""
    return TABLE.rows(pauses(trace))
