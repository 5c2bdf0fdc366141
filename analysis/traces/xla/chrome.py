"""The Chrome JSON that JAX and TensorBoard's profiler write (`*.trace.json.gz`), as the engine
knows traces.

Its events have no categories: processes and threads say by their names what they are, as planes and
lines do in XPlane files. At most a million events are in such a file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.xla.rows_of_devices import (
    ABOUT_WORK,
    MARKERS,
    annotated_step,
    collective_in,
    device_category,
    device_of,
    enclosing,
    exactly,
    host_category,
    python_name,
    work_stream,
)

FORMAT = "Chrome JSON of JAX (XLA)"
CATEGORIES = (
    "",
    "cpu_op",
    "python_function",
    "user_annotation",
    "cuda_runtime",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "gpu_user_annotation",
)
_PLACE = {name: place for place, name in enumerate(CATEGORIES)}


def is_profile(trace: TraceColumns) -> bool:
    """Whether the trace is one of XLA."""
    if any(trace.categories):
        return False
    return any(name.startswith(("/host:", "/device:")) for name in trace.process_names.values())


def profile_traces(trace: TraceColumns) -> list[TraceColumns]:
    """One trace per accelerator with the host's threads, or one of the host alone."""
    return _Profile(trace).traces()


class _Profile:
    """One file."""

    def __init__(self, trace: TraceColumns) -> None:
        self.trace = trace
        self.names = {name: number for number, name in enumerate(trace.names)}
        self.name = trace.name.copy()
        self.category = np.zeros(len(trace), dtype=np.int32)
        self.stream = np.full(len(trace), -1, dtype=np.int64)
        self.steps: Counter[str] = Counter()
        self.devices = [device_of(trace.process_names.get(pid, "")) for pid, _ in trace.lanes]

    def traces(self) -> list[TraceColumns]:
        """All ranks."""
        trace = self.trace
        on_device = np.asarray([key is not None for key in self.devices], dtype=np.bool_)
        self._host(np.flatnonzero(~on_device[trace.lane]))
        for lane in np.flatnonzero(on_device).tolist():
            self._row(lane, np.flatnonzero(trace.lane == lane))
        has_category = self.category > 0
        unused = int((~has_category).sum())
        whole = replace(
            trace,
            name=self.name,
            names=tuple(self.names),
            category=self.category,
            categories=CATEGORIES,
            stream=self.stream,
            skipped={**trace.skipped, "rows and markers without work": unused},
            format=FORMAT,
            step_name=exactly(self.steps.most_common(1)[0][0]) if self.steps else "",
        )
        keys = sorted({key for key in self.devices if key is not None})
        if not keys:
            return [whole.select(has_category)]
        return [self._rank(whole, number, key, has_category) for number, key in enumerate(keys)]

    def _rank(
        self, whole: TraceColumns, number: int, key: tuple[str, int], has_category: Bool
    ) -> TraceColumns:
        # The host's threads belong to the trace of every device.
        mine = np.asarray([device in (None, key) for device in self.devices], dtype=np.bool_)
        header = {**whole.header, "deviceProperties": [{"name": f"{key[0]}:{key[1]}"}]}
        rank = whole.rank + number if whole.rank_source == "order" else number
        rank_trace = replace(
            whole.select(has_category & mine[whole.lane]), header=header, rank=rank
        )
        several = len({device for device in self.devices if device is not None}) > 1
        return replace(rank_trace, rank_source="order") if several else rank_trace

    def _host(self, rows: Int64) -> None:
        trace = self.trace
        used, place = np.unique(trace.name[rows], return_inverse=True)
        renamed, kinds = [], []
        for number in used.tolist():
            text = trace.names[number]
            kind = "" if text.startswith(MARKERS) else host_category(text)
            kinds.append(_PLACE[kind])
            renamed.append(self._number(python_name(text)))
        self.name[rows] = np.asarray(renamed, dtype=np.int32)[place]
        self.category[rows] = np.asarray(kinds, dtype=np.int32)[place]
        # Only calls into the runtime have a correlation.
        calls = rows[(trace.correlation[rows] > 0) & (self.category[rows] > 0)]
        self.category[calls] = _PLACE["cuda_runtime"]
        numbered = trace.arguments.number("step_num")
        for row, step in zip(numbered.rows.tolist(), numbered.values.tolist(), strict=True):
            if self.devices[trace.lane[row]] is None and 0 <= step < 1e12:
                text = trace.name_of(row)
                self.steps[text] += 1
                self.name[row] = self._number(annotated_step(text, int(step)))
                self.category[row] = _PLACE["user_annotation"]

    def _row(self, lane: int, rows: Int64) -> None:
        """A row of an accelerator."""
        trace = self.trace
        key = self.devices[lane]
        row_name = trace.lane_names.get(lane, "")
        assert key is not None
        stream = work_stream(row_name, key[0], lane)
        if stream is None:
            if ABOUT_WORK.match(row_name):
                self.category[rows] = _PLACE["gpu_user_annotation"]
            return
        self.stream[rows] = stream
        hlo = trace.arguments.text("hlo_category").at(rows)
        for row, kind in zip(rows.tolist(), hlo, strict=True):
            text = trace.name_of(row)
            self.name[row] = self._number(collective_in(text, kind))
            self.category[row] = _PLACE[device_category(text)]
        # Operations nest outside of GPUs: one that encloses others does no work itself.
        if key[0] != "GPU":
            outer = enclosing(trace.ts[rows], trace.end[rows])
            self.category[rows[outer]] = _PLACE["gpu_user_annotation"]

    def _number(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))
