"""Memory by category (parameters, activations, gradients, ...) from the raw files of torch's memory
timeline.

`torch.profiler.profile.export_memory_timeline("x.raw.json.gz")` writes a list of [time, action,
bytes, category]. HTA's `MemoryAnalysis` shows the same sums.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable
from faultline.analysis.traces.reading.trace_bytes import unpacked_blocks

CATEGORIES = (
    "Parameter",
    "Optimizer state",
    "Input",
    "Temporary",
    "Activation",
    "Gradient",
    "Autograd",
    "Unknown",
)
"""In torch's order (torch/profiler/_memory_profiler.py)."""
MAX_BYTES, MAX_EVENTS = 1_000_000_000, 20_000_000
"""Most unpacked bytes and events read of one file."""
NO_TIME = -1
"""Time of what was allocated before the recording."""

_EVENT = re.compile(rb"\[\s*-?\d+\s*,\s*-?\d+\s*,\s*-?\d+\s*,\s*-?\d+\s*\]")
_SPACES = bytes.maketrans(b"[],", b"   ")
_PROBLEM = "is not a raw memory timeline (a list of [time, action, bytes, category])"


@dataclass(frozen=True)
class MemoryByCategory:
    """Bytes in use by category after all events of each moment."""

    ts: Int64
    """ns, as torch writes them; what was there before the recording stands at the first moment of
    it."""
    sizes: Int64
    """One row per moment, one column per category of CATEGORIES; bytes."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Why events or bytes were lost, and how many."""

    @property
    def peak(self) -> int:
        """The moment with most bytes in all categories together."""
        return int(np.argmax(self.sizes.sum(axis=1)))


def read_memory_timeline(path: Path) -> MemoryByCategory:
    """Read a raw timeline, packed or not. Raises EvidenceError, one line, for other files."""
    dropped: Counter[str] = Counter()
    table = _events(path, dropped)
    has_category = (table[:, 3] >= 0) & (table[:, 3] < len(CATEGORIES))
    dropped["events of unknown categories"] += int((~has_category).sum())
    table = table[has_category]
    if not len(table):
        raise EvidenceError(path.name, "holds no memory events")
    time = table[:, 0]
    new = np.concatenate(([True], time[1:] != time[:-1]))
    moment = np.cumsum(new) - 1
    sizes = np.zeros((int(moment[-1]) + 1, len(CATEGORIES)), dtype=np.int64)
    np.add.at(sizes, (moment, table[:, 3]), table[:, 2])
    ts, real = time[new].copy(), time[time > 0]
    # A negative time stands for "before the recording".
    ts[ts < 0] = int(real.min()) if len(real) else NO_TIME
    return MemoryByCategory(
        ts, np.cumsum(sizes, axis=0), {why: n for why, n in dropped.items() if n}
    )


MOMENTS = RowTable(
    INT("ts_ns", *(f"{name.lower().replace(' ', '_')}_bytes" for name in CATEGORIES))
)
TABLE = RowTable(TEXT("file"), MOMENTS.columns)


def category_rows(timeline: MemoryByCategory, limit: int = 1000) -> Rows:
    """The line as JSON values: at most `limit` moments, the fullest of each equal part, in
    order."""
    total = timeline.sizes.sum(axis=1)
    parts = np.array_split(np.arange(len(total)), min(len(total), limit))
    places = [int(part[np.argmax(total[part])]) for part in parts]
    return MOMENTS.of((timeline.ts[i], *timeline.sizes[i]) for i in places)


def _events(path: Path, dropped: Counter[str]) -> Int64:
    """All events, one row each; read in blocks, so that nothing but the numbers is kept."""
    parts: list[Int64] = []
    left, count = b"", 0
    for block in unpacked_blocks(path, dropped, MAX_BYTES):
        if not parts and not (left + block).lstrip().startswith(b"["):
            raise EvidenceError(path.name, _PROBLEM)
        # A block may end inside an event: keep the rest for the next block.
        head, bracket, left = (left + block).rpartition(b"]")
        # A rest that only grows holds no event, so the file is of another format.
        if len(left) > len(block) + 1024:
            raise EvidenceError(path.name, _PROBLEM)
        parts.append(_numbers(path, head + bracket))
        count += len(parts[-1])
        if count >= MAX_EVENTS:
            dropped[f"rest of the file after {MAX_EVENTS} events"] += 1
            break
    if not parts or (left.strip() and not dropped):
        raise EvidenceError(path.name, _PROBLEM)
    return np.concatenate(parts)


def _numbers(path: Path, text: bytes) -> Int64:
    # Beyond the events only punctuation may remain.
    rest = _EVENT.sub(b"", text).translate(None, b" ,\t\r\n[]")
    if rest:
        raise EvidenceError(path.name, _PROBLEM)
    try:
        values = np.asarray(text.translate(_SPACES).split(), dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise EvidenceError(path.name, "holds a number of more than 64 bits") from error
    if len(values) % 4:
        raise EvidenceError(path.name, _PROBLEM)
    return values.reshape(-1, 4)
