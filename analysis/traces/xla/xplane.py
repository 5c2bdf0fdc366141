"""XPlane files as columns: one trace per accelerator, each with the threads of the host.

`jax.profiler.trace` writes one file per host (`plugins/profile/<time>/<host>.xplane.pb`). Without
an accelerator, XLA's operations are among the events of the host's threads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import Int32, Int64, TraceColumns
from faultline.analysis.traces.protobuf.wire import Buffer, read_file
from faultline.analysis.traces.reading.assembled import EventPart, Names, Words, assembled, renamed
from faultline.analysis.traces.reading.file_kinds import rank_in_name
from faultline.analysis.traces.xla.planes import Line, Plane, Space, space_of
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

FORMAT = "XPlane profile (JAX, XLA)"
MAX_DEVICES = 256
DEVICE_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
_DETAILS = ("memcpy_details", "Memset_details")
"""Statistics of copies and of fills."""
EPOCH_NS = 10**17
"""Times above are since 1970 by themselves."""
_SIZE = re.compile(r"\bsize:(\d{1,18})")
_SHAPE = re.compile(r"\b(grid|block):(\d{1,9}),(\d{1,9}),(\d{1,9})")


def read_xplane(path: Path) -> list[TraceColumns]:
    """One trace per accelerator, by number; one of the host alone where there is none.

    A file of one device whose name says a rank is that rank. Raises EvidenceError, one line, when
    the file is no XPlane file or has no events.
    """
    buffer = read_file(path)
    space = space_of(buffer)
    traces = _File(buffer, space).traces()
    rank = rank_in_name(path) if len(traces) == 1 else None
    if rank is None:
        return traces
    return [replace(traces[0], rank=rank, rank_source="file name")]


class _File:
    """One file, plane by plane."""

    def __init__(self, buffer: Buffer, space: Space) -> None:
        self.buffer, self.space = buffer, space
        self.names = Names()
        self.steps: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()

    def traces(self) -> list[TraceColumns]:
        """All devices, each beside the host."""
        host: list[EventPart] = []
        devices: dict[tuple[str, int], list[EventPart]] = {}
        facts: dict[tuple[str, int], Plane] = {}
        for plane in self.space.planes:
            key = device_of(plane.name)
            if key is None:
                if plane.name.startswith("/host:"):
                    host += self._host(plane)
                continue
            parts = self._device(plane, key)
            if parts:
                devices.setdefault(key, []).extend(parts)
                facts.setdefault(key, plane)
        if len(devices) > MAX_DEVICES:
            raise EvidenceError(self.buffer.name, f"has over {MAX_DEVICES} devices")
        if not devices and not any(len(part.start) for part in host):
            raise EvidenceError(self.buffer.name, "holds no events of a host or an accelerator")
        if not devices:
            return [self._trace(0, host, None)]
        traces = []
        for rank, key in enumerate(sorted(devices)):
            device = (
                devices[key] if self.steps else [*devices[key], *_device_steps(devices[key], self)]
            )
            traces.append(self._trace(rank, [*host, *device], facts[key]))
        return traces

    def _trace(self, rank: int, parts: Sequence[EventPart], plane: Plane | None) -> TraceColumns:
        header: dict[str, Any] = {}
        base = self._base(parts)
        if base:
            header["baseTimeNanoseconds"] = base
        if plane is not None:
            header["deviceProperties"] = [{"name": _device_name(plane)}]
        # Several annotations may count steps: take the most frequent.
        step = self.steps.most_common(1)
        return assembled(
            parts,
            self.names,
            file=self.buffer.name,
            rank=rank,
            base=base,
            header=header,
            dropped=self.buffer.dropped,
            host=self.space.hostname[:256] or None,
            skipped=dict(self.skipped),
            step_name=exactly(step[0][0]) if step else "",
            format=FORMAT,
        )

    def _base(self, parts: Sequence[EventPart]) -> int:
        """ns since 1970 of the profile's start; 0 where the events' times are that already."""
        earliest = min((int(part.start.min()) for part in parts if len(part.start)), default=0)
        if earliest > EPOCH_NS:
            return 0
        for plane in self.space.planes:
            if plane.name == "Task Environment":
                start = plane.statistics.get("profile_start_time", 0)
                return start if isinstance(start, int) and 0 <= start < 1 << 61 else 0
        return 0

    def _host(self, plane: Plane) -> list[EventPart]:
        parts: list[EventPart] = []
        for line in plane.lines:
            parts += self._thread(plane, line)
        return parts

    def _thread(self, plane: Plane, line: Line) -> list[EventPart]:
        """The events of a thread, by category."""
        count = len(line.start_ns)
        correlation = line.statistics.number("correlation_id", count)
        step = line.statistics.number("step_num", count)
        kinds: dict[str, int] = {"": 0}
        ids, place = np.unique(line.metadata, return_inverse=True)
        name_of, kind_of = [], []
        for key in ids.tolist():
            text = plane.event_names.get(key, "")
            kind = "" if text.startswith(MARKERS) else host_category(text)
            name_of.append(self.names.number(python_name(text)))
            kind_of.append(kinds.setdefault(kind, len(kinds)))
        name = np.asarray(name_of, dtype=np.int32)[place]
        category = np.asarray(kind_of, dtype=np.int64)[place]
        if not category.all():
            self.skipped["markers between threads"] += int((category == 0).sum())
        for row in np.flatnonzero(step >= 0).tolist():
            text = plane.event_names.get(int(line.metadata[row]), "")
            self.steps[text] += 1
            name[row] = self.names.number(annotated_step(text, int(step[row])))
            category[row] = kinds.setdefault("user_annotation", len(kinds))
        # Only calls into the runtime have a correlation.
        calls = (correlation > 0) & (category > 0)
        category[calls] = kinds.setdefault("cuda_runtime", len(kinds))
        whole = EventPart(
            category="",
            lane=(plane.name, line.name or str(line.number)),
            start=line.start_ns,
            end=line.end_ns,
            name=name,
            correlation=correlation,
            texts={"hlo_op": line.statistics.text("hlo_op", count)},
        )
        parts = [whole.where(category == i, kind) for kind, i in kinds.items() if i]
        return [part for part in parts if len(part.start)]

    def _device(self, plane: Plane, key: tuple[str, int]) -> list[EventPart]:
        parts: list[EventPart] = []
        for number, line in enumerate(plane.lines):
            stream = work_stream(line.name, key[0], number)
            if stream is not None:
                parts += self._work(plane, line, key, stream)
            elif ABOUT_WORK.match(line.name):
                parts.append(self._about_work(plane, line, key))
            else:
                self.skipped[f"rows of {line.name[:64]}"] += len(line.start_ns)
        return [part for part in parts if len(part.start)]

    def _about_work(self, plane: Plane, line: Line, key: tuple[str, int]) -> EventPart:
        texts = [plane.event_names.get(i, "") for i in line.metadata.tolist()]
        if line.name == "Steps":
            texts = [f"step {text}" if text.isdecimal() else text for text in texts]
        return EventPart(
            category="gpu_user_annotation",
            lane=(_device_lane(key), line.name),
            start=line.start_ns,
            end=line.end_ns,
            name=self.names.numbers(texts),
        )

    def _work(self, plane: Plane, line: Line, key: tuple[str, int], stream: int) -> list[EventPart]:
        """Kernels, copies and fills; an operation that encloses others is none itself."""
        count = len(line.start_ns)
        hlo = _hlo_categories(plane, line)
        name, category = self._named(plane, line, hlo)
        details = line.statistics.text("kernel_details", count)
        encloses = np.zeros(count, dtype=np.bool_)
        # On a GPU kernels never enclose each other.
        if key[0] != "GPU":
            encloses = enclosing(line.start_ns, line.end_ns)
        # Bytes of copies and fills; NaN where none are said.
        size = np.full(len(line.start_ns), np.nan)
        for what in _DETAILS:
            ids, words = line.statistics.text(what, len(size))
            matches = [_SIZE.search(word) for word in words]
            # The last entry answers -1, an event without details.
            table = np.asarray(
                [float(match[1]) if match else np.nan for match in matches] + [np.nan]
            )
            size = np.where(ids >= 0, table[ids], size)
        whole = EventPart(
            category="",
            lane=(_device_lane(key), line.name),
            start=line.start_ns,
            end=line.end_ns,
            name=name,
            stream=stream,
            correlation=line.statistics.number("correlation_id", count),
            numbers={
                "device": np.full(count, float(key[1])),
                "bytes": size,
                "memory bandwidth (GB/s)": size / np.maximum(line.end_ns - line.start_ns, 1),
            },
            texts={
                "hlo_category": hlo,
                "grid": renamed(details, lambda text: _shape(text, "grid")),
                "block": renamed(details, lambda text: _shape(text, "block")),
            },
        )
        parts = [whole.where(encloses, "gpu_user_annotation")]
        for number, kind in enumerate(DEVICE_KINDS):
            parts.append(whole.where(~encloses & (category == number), kind))
        return parts

    def _named(self, plane: Plane, line: Line, hlo: Words) -> tuple[Int32, Int64]:
        """Names, and indices of DEVICE_KINDS; each pair of an id and an HLO category is looked at
        once."""
        count = len(line.start_ns)
        kinds, words = hlo
        pairs = np.stack((line.metadata, kinds.astype(np.int64)), axis=1)
        unique, place = np.unique(pairs, axis=0, return_inverse=True)
        names, categories = [], []
        for key, kind in unique.tolist():
            text = plane.event_names.get(key, "")
            names.append(self.names.number(collective_in(text, words[kind] if kind >= 0 else "")))
            categories.append(DEVICE_KINDS.index(device_category(text)))
        category = np.asarray(categories, dtype=np.int64)[place.reshape(-1)]
        for kind_of_work, details in enumerate(_DETAILS, start=1):
            text_ids, _ = line.statistics.text(details, count)
            category[text_ids >= 0] = kind_of_work
        return np.asarray(names, dtype=np.int32)[place.reshape(-1)], category


def _hlo_categories(plane: Plane, line: Line) -> Words:
    """What kind of operation each event is; most profiles say it once for all events of an id."""
    count = len(line.start_ns)
    hlo_categories = line.statistics.text("hlo_category", count)
    keys, statistics = plane.event_statistics
    of_key, words = statistics.text("hlo_category", len(keys))
    if not words or (hlo_categories[0] >= 0).all():
        return hlo_categories
    unique, place = np.unique(line.metadata, return_inverse=True)
    id_by_key = dict(zip(keys, of_key.tolist(), strict=True))
    ids = np.asarray([id_by_key.get(key, -1) for key in unique.tolist()], dtype=np.int32)[place]
    # Shared words follow the line's words, so shift their ids.
    shared = np.where(ids >= 0, ids + len(hlo_categories[1]), -1)
    return np.where(hlo_categories[0] >= 0, hlo_categories[0], shared).astype(np.int32), (
        *hlo_categories[1],
        *words,
    )


def _device_steps(parts: Sequence[EventPart], file: _File) -> list[EventPart]:
    """The device's own steps as ranges, where the host has none."""
    for part in parts:
        if part.lane[1] == "Steps":
            whole = np.ones(len(part.start), dtype=np.bool_)
            return [part.where(whole, "user_annotation")]
    return []


def _shape(details: str, what: str) -> str:
    for match in _SHAPE.finditer(details):
        if match[1] == what:
            return f"[{match[2]},{match[3]},{match[4]}]"
    return ""


def _device_lane(key: tuple[str, int]) -> str:
    return f"{key[0]}:{key[1]}"


def _device_name(plane: Plane) -> str:
    """What the profile calls the accelerator; its plane's name where it says nothing."""
    facts = plane.statistics
    named = facts.get("device_type_string") or facts.get("device_type")
    vendor = facts.get("device_vendor", "")
    return f"{vendor} {named or plane.name.removeprefix('/device:')}".strip()[:128]
