"""Windows of the traces around the events that diagnoses point to, embedded in the page for
Perfetto.

The page hands a window to https://ui.perfetto.dev by postMessage after a click; nothing is
uploaded. https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui
"""

from __future__ import annotations

import base64
import gzip
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path

from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.perfetto.window import perfetto_window
from faultline.analysis.traces.reading.kineto import read_trace
from faultline.trace_report.job_report import JobReport
from faultline.trace_report.page_parts import script_json
from faultline.trace_report.workers import Say, Task, run_tasks

MAX_EVENTS = 24
"""Windows in one page."""
MAX_JSON_BYTES = 4_000_000
"""Of one window, unpacked."""
MAX_BYTES = 1_500_000
"""Of all windows together, packed; base64 makes them a third longer."""
MARGIN_NS = 2_000_000
"""Least time shown before and after an event; long events have a quarter of their length."""


@dataclass(frozen=True)
class PerfettoWindows:
    """Embedded windows, and which event has which."""

    embedded: Mapping[str, str] = field(default_factory=dict)
    """Id -> JSON string of base64 of gzip of Chrome JSON."""
    by_event: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """(file, number of the event) -> id."""

    def of(self, event: EventReference) -> str:
        """The id of the event's window; "" where there is none."""
        return self.by_event.get((event.file, event.event), "")


@dataclass(frozen=True)
class _Crop:
    path: Path
    events: tuple[EventReference, ...]


def windows_of(report: JobReport, jobs: int | None) -> PerfettoWindows:
    """The windows that fit, those of each diagnosis's clearest event first. Each file is read once
    more."""
    paths = {
        r.summary.file: r.path
        for r in report.result.ranks
        # Only Chrome JSON can be cropped.
        if r.path.suffix.lower() in (".json", ".gz")
    }
    references = [e for e in _by_importance(report) if e.file in paths][:MAX_EVENTS]
    by_file: dict[str, list[EventReference]] = defaultdict(list)
    for event in references:
        by_file[event.file].append(event)
    tasks = [_task(paths[file], file, events) for file, events in by_file.items()]
    packed: dict[tuple[str, int], bytes] = {}
    for update in run_tasks(_cropped, tasks, jobs):
        packed |= update.result or {}
    return _embedded([(e.file, e.event) for e in references], packed)


def _by_importance(report: JobReport) -> list[EventReference]:
    """The first event of every diagnosis, then the second of every one, and so on; each once."""
    columns = zip_longest(*(d.events for d in report.diagnoses))
    matching_columns = {(e.file, e.event): e for e in chain.from_iterable(columns) if e is not None}
    return list(matching_columns.values())


def _task(path: Path, file: str, events: Sequence[EventReference]) -> Task[_Crop]:
    return Task(
        _Crop(path, tuple(events)), file, path.stat().st_size, path.name.lower().endswith(".gz")
    )


def _cropped(crop: _Crop, say: Say) -> dict[tuple[str, int], bytes]:
    """(file, number of the event) -> packed window, of one file's events."""
    trace = read_trace(crop.path)
    compresses = {}
    for event in crop.events:
        say("window")
        begin, end = _shown(event)
        window = perfetto_window(crop.path, trace, begin, end, MAX_JSON_BYTES)
        # mtime=0: the same trace gives the same bytes.
        compresses[event.file, event.event] = gzip.compress(window.content, 6, mtime=0)
    return compresses


def view_of(event: EventReference, base_ns: int) -> str:
    """The part of a deep link that selects the event and shows its window; `base_ns` is when the
    times of its file are zero.

    https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui: ns of the trace's times.
    """
    begin, end = _shown(event)
    selected = f"ts={event.start_ns - base_ns}&dur={event.duration_ns}"
    return f"{selected}&visStart={begin - base_ns}&visEnd={end - base_ns}"


def _shown(event: EventReference) -> tuple[int, int]:
    """The event with some time around it, ns."""
    margin = max(MARGIN_NS, event.duration_ns // 4)
    return event.start_ns - margin, event.start_ns + event.duration_ns + margin


def _embedded(
    event_keys: Sequence[tuple[str, int]], packed: Mapping[tuple[str, int], bytes]
) -> PerfettoWindows:
    embedded: dict[str, str] = {}
    by_event: dict[tuple[str, int], str] = {}
    left = MAX_BYTES
    for key in event_keys:
        content = packed.get(key)
        if content is None or len(content) > left:
            # A smaller window further down may still fit.
            continue
        left -= len(content)
        by_event[key] = f"window-{len(embedded) + 1}"
        embedded[by_event[key]] = script_json(base64.b64encode(content).decode())
    return PerfettoWindows(embedded, by_event)
