"""Tracks of a Perfetto trace: threads, processes, and the rows of accelerators.

Field numbers: `track_descriptor.proto`, `thread_descriptor.proto`, `process_descriptor.proto`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from faultline.analysis.traces.pftrace.packets import MAX_TEXT, Packets
from faultline.analysis.traces.protobuf.wire import BYTES, Buffer, walk

MAX_TRACKS = 200_000
MAX_PARENTS = 8
MAX_NAME = 256
"""Bytes of the name of a process or thread."""
_STREAM = re.compile(r"\b(?:STREAM|QUEUE)\b[ #\[]*(\d{1,9})", re.IGNORECASE)
_DEVICE = re.compile(r"\b(?:AGENT|GPU|DEVICE|NPU|XPU)\b[ :#\[]*(\d{1,6})", re.IGNORECASE)


@dataclass(frozen=True)
class Track:
    """One row."""

    name: str = ""
    parent: int = 0
    pid: int = 0
    tid: int = 0
    process: str = ""
    counter: bool = False

    @property
    def stream(self) -> int:
        """The stream that its name gives ("COMPUTE AGENT [4] STREAM [1] (GPU)"); -1 for none."""
        match = _STREAM.search(self.name)
        return int(match[1]) if match else -1

    @property
    def device(self) -> int:
        """The accelerator that its name gives; -1 for none."""
        match = _DEVICE.search(self.name)
        return int(match[1]) if match else -1


class Tracks:
    """All tracks by their numbers."""

    def __init__(self, packets: Packets) -> None:
        self.packets = packets
        self.by_number: dict[int, Track] = {}
        descriptors = packets.descriptors
        for start, stop in zip(descriptors.start.tolist(), descriptors.stop.tolist(), strict=True):
            if len(self.by_number) >= MAX_TRACKS:
                packets.buffer.dropped[f"tracks after {MAX_TRACKS}"] = 1
                break
            self._add(start, stop)

    def lane(self, number: int) -> tuple[str, str]:
        """(process, thread or row) of a track."""
        track = self.by_number.get(number, Track())
        above = track
        # Bound the walk: hostile parents may form a circle.
        for _ in range(MAX_PARENTS):
            if above.pid or above.parent not in self.by_number:
                break
            above = self.by_number[above.parent]
        thread = track.name or (str(track.tid) if track.tid else str(number))
        return str(above.pid) if above.pid else above.process or "trace", thread

    def of(self, number: int) -> Track:
        """A track; one without facts where the file does not describe it."""
        return self.by_number.get(number, Track())

    def _add(self, start: int, stop: int) -> None:
        buffer = self.packets.buffer
        # Field 1 is the track's uuid, field 5 its parent's.
        numbers = {1: 0, 5: 0}
        name, process, pid, tid, counter = "", "", 0, 0, False
        for number, wire, value, end in walk(buffer, start, stop):
            if number in numbers and wire == 0:
                # Numbers of tracks are unsigned; columns hold them signed.
                numbers[number] = value if value < 1 << 63 else value - (1 << 64)
            elif wire != BYTES:
                continue
            elif number in (2, 10):
                name = buffer.text(value, end, MAX_TEXT)
            elif number == 3:
                inside = _last_fields(buffer, value, end, (1, 6))
                pid, _ = inside.get(1, (pid, 0))
                if 6 in inside:
                    process = buffer.text(*inside[6], MAX_NAME)
            elif number == 4:
                inside = _last_fields(buffer, value, end, (1, 2, 5))
                pid, _ = inside.get(1, (pid, 0))
                tid, _ = inside.get(2, (tid, 0))
                if 5 in inside:
                    name = buffer.text(*inside[5], MAX_NAME)
            elif number == 8:
                counter = True
        self.by_number[numbers[1]] = Track(name, numbers[5], pid, tid, process, counter)


def _last_fields(
    buffer: Buffer, start: int, stop: int, numbers: Collection[int]
) -> dict[int, tuple[int, int]]:
    """Of a message, the last value and end of the fields with these numbers."""
    fields = {}
    for number, _, value, end in walk(buffer, start, stop):
        if number in numbers:
            fields[number] = (value, end)
    return fields
