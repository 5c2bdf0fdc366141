"""The events of one rank's trace as columns.

Times are int64 nanoseconds since the epoch: `baseTimeNanoseconds` + `ts` in microseconds, parsed as decimals so that
no digit is lost. Names, categories and (pid, tid) lanes are interned: an id column and a list to look it up in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

RankSource = Literal["distributedInfo", "file name", "order"]


@dataclass(frozen=True)
class CommunicationArgs:
    """What a collective's own event says of itself: elements (0 where unknown) and process group ("" where unknown)."""

    elements: int = 0
    group: str = ""
    collective: str = ""


@dataclass(frozen=True)
class TraceColumns:
    """The intervals ("X" events) of one profiler trace, in file order; all columns have one row per event."""

    file: str
    rank: int
    rank_source: RankSource
    world_size: int | None
    host: str | None
    ts: Int64
    """Start, ns since the epoch (or since the trace's own zero where it gives no base)."""
    dur: Int64
    """Length, ns."""
    name: Int32
    """Index into `names`."""
    category: Int32
    """Index into `categories`."""
    lane: Int32
    """Index into `lanes`."""
    names: tuple[str, ...]
    categories: tuple[str, ...]
    lanes: tuple[tuple[str, str], ...]
    """(pid, tid) as text."""
    communication: Mapping[int, CommunicationArgs] = field(default_factory=dict)
    """Row -> arguments, for collectives only."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Why events or bytes were lost, and how many."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Events that are no intervals (metadata, flows, instants, counters), by phase letter."""

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def end(self) -> Int64:
        """End of each event, ns."""
        return self.ts + self.dur

    def rows_named(self, wanted: Callable[[str], bool]) -> Int64:
        """Rows whose name is wanted, by start."""
        ids = [i for i, name in enumerate(self.names) if wanted(name)]
        rows = np.flatnonzero(np.isin(self.name, np.asarray(ids, dtype=np.int32)))
        return np.asarray(rows[np.argsort(self.ts[rows], kind="stable")], dtype=np.int64)

    def in_category(self, *wanted: str) -> Bool:
        """Mask of the events of these categories; upper and lower case are one (older traces write "Kernel")."""
        ids = [i for i, category in enumerate(self.categories) if category.lower() in wanted]
        return np.asarray(np.isin(self.category, np.asarray(ids, dtype=np.int32)))

    def name_of(self, row: int) -> str:
        """The event's name."""
        return self.names[int(self.name[row])]
