"""The events of one rank's trace as columns.

Times are int64 nanoseconds since the epoch: `baseTimeNanoseconds` + `ts` in microseconds, parsed as
decimals so that no digit is lost. Names, categories and (pid, tid) lanes are interned: an id column
and a list to look it up in. A column that no event of the file fills is one constant seen through a
stride of zero: it costs no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.row_table import cached_per_trace

# Rare arguments of events, stored sparsely: which rows have one, and its value.
#
# Which arguments are kept is listed here; all others stay in the file, to be read again from the
# event's byte offset.

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]
_T = TypeVar("_T", bound=np.generic)

NUMBERS = (
    "bytes",
    "memory bandwidth (GB/s)",
    "wait_on_stream",
    "wait_on_cuda_event_id",
    "wait_on_cuda_event_record_corr_id",
    "device",
    "est. achieved occupancy %",
    "blocks per SM",
    "warps per SM",
    "registers per thread",
    "shared memory",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "Rank",
    "Seq",
    "Src Rank",
    "Dst Rank",
    "Record function id",
    "Sequence number",
    "Fwd thread id",
    "Python module id",
    "graph id",
    "graph node id",
    "step_num",
)
"""Arguments kept as float64 (exact to 2**53); numbers written as strings count."""

TEXTS = (
    "Collective name",
    "dtype",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "In split size",
    "Out split size",
    "Comms Id",
    "Input Dims",
    "Input type",
    "Concrete Inputs",
    "kind",
    "grid",
    "block",
    "hlo_category",
    "Task Type",
)
"""Arguments kept as text: a string as it is, anything else as compact JSON without spaces
("[[64,3],[]]")."""

COUNTER_CATEGORY = "cuda_profiler_range"
"""Every numeric argument of events of this category (CUPTI counters) is kept, whatever its name."""

ALIASES = {"Input dims": "Input Dims"}
"""Spellings of older traces."""


@dataclass(frozen=True)
class SparseNumbers:
    """One numeric argument: ascending rows and their values."""

    rows: Int32
    values: Float64

    def dense(self, length: int, default: float) -> Float64:
        """One value per row of the trace."""
        column = np.full(length, default)
        column[self.rows] = self.values
        return column

    def at(self, rows: NDArray[np.integer], default: float) -> Float64:
        """The values at some rows."""
        return _at(self.rows, self.values, rows, default)

    def select(self, new_row: Int32) -> SparseNumbers:
        """After rows were renumbered: `new_row` holds -1 where a row was left out."""
        moved = new_row[self.rows]
        return SparseNumbers(moved[moved >= 0], self.values[moved >= 0])


@dataclass(frozen=True)
class SparseTexts:
    """One argument as text: ascending rows and the index of each text in `texts`."""

    rows: Int32
    ids: Int32
    texts: tuple[str, ...]

    def at(self, rows: NDArray[np.integer]) -> list[str]:
        """The texts at some rows; "" where there is none."""
        text_ids = _at(self.rows, self.ids, rows, -1)
        return [self.texts[i] if i >= 0 else "" for i in text_ids.tolist()]

    def ids_at(self, rows: NDArray[np.integer]) -> Int32:
        """Indices into `texts` at some rows; -1 where there is none."""
        return np.asarray(_at(self.rows, self.ids, rows, -1), dtype=np.int32)

    def select(self, new_row: Int32) -> SparseTexts:
        """After rows were renumbered: `new_row` holds -1 where a row was left out."""
        moved = new_row[self.rows]
        return SparseTexts(moved[moved >= 0], self.ids[moved >= 0], self.texts)


NO_NUMBERS = SparseNumbers(np.empty(0, dtype=np.int32), np.empty(0))
NO_TEXTS = SparseTexts(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32), ())


@dataclass(frozen=True)
class ArgumentColumns:
    """All kept arguments of a trace, by name."""

    numbers: Mapping[str, SparseNumbers] = field(default_factory=dict)
    texts: Mapping[str, SparseTexts] = field(default_factory=dict)

    def number(self, name: str) -> SparseNumbers:
        """A numeric argument; without rows where no event has it."""
        return self.numbers.get(name, NO_NUMBERS)

    def text(self, name: str) -> SparseTexts:
        """An argument as text; without rows where no event has it."""
        return self.texts.get(name, NO_TEXTS)

    def select(self, new_row: Int32) -> ArgumentColumns:
        """After rows were renumbered."""
        return ArgumentColumns(
            {name: number.select(new_row) for name, number in self.numbers.items()},
            {name: text.select(new_row) for name, text in self.texts.items()},
        )


def _at(have: Int32, values: NDArray[_T], rows: NDArray[np.integer], default: float) -> NDArray[_T]:
    at_rows = np.full(len(rows), default, dtype=values.dtype)
    if len(have):
        # searchsorted points past the end for a row behind the last; the test below rejects it.
        place = np.minimum(np.searchsorted(have, rows), len(have) - 1)
        hit = have[place] == rows
        at_rows[hit] = values[place[hit]]
    return at_rows


Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

RankSource = Literal["distributedInfo", "file name", "order"]

PROFILER = "PyTorch profiler trace"
DEVICE_CATEGORIES = (
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "memcpy",
    "memset",
    "concurrent_kernel",
    "mtia_ccp_events",
)
"""Categories of work on an accelerator's streams (2021 traces write "Kernel", "Memcpy",
"Memset")."""


def nothing(length: int, value: int = -1) -> Int64:
    """A constant column that takes no memory; read-only."""
    return np.broadcast_to(np.int64(value), length)


@dataclass(frozen=True)
class MemoryEvents:
    """Allocator events (`[memory]` instants), in file order."""

    ts: Int64
    """ns since the epoch."""
    address: Int64
    """The block's address; 0 where the trace gives none."""
    bytes: Int64
    """Positive when allocated, negative when freed."""
    allocated: Int64
    """Total allocated on the device after the event; -1 where unknown (2021 traces)."""
    reserved: Int64
    """Total reserved on the device after the event; -1 where unknown."""
    device_type: Int32
    """As PyTorch numbers them: 0 CPU, 1 CUDA/HIP."""
    device: Int32
    """Device index; -1 for the CPU."""

    def __len__(self) -> int:
        return len(self.ts)


def _no_memory() -> MemoryEvents:
    empty, small = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    return MemoryEvents(empty, empty, empty, empty, empty, small, small)


@dataclass(frozen=True)
class TraceColumns:
    """The intervals ("X" events) of one profiler trace, in file order; all columns have one row per
    event."""

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
    event: Int64
    """Position in the file's list of events, from 0, over all events: how people and other tools
    find it again."""
    offset: Int64
    """Byte in the unpacked file where the event's "{" stands; -1 where unknown."""
    stream: Int64
    """Stream on the accelerator; -1 for none (and for 4294967295). Text and HIP handles are
    numbered from 2**30."""
    correlation: Int64
    """Links a launch to its kernels; -1 for none."""
    external_id: Int64
    """Links a kernel or a launch to its operator; -1 for none."""
    python_id: Int64
    python_parent_id: Int64
    """Nesting of python_function events; -1 for none."""
    arguments: ArgumentColumns = field(default_factory=ArgumentColumns)
    memory: MemoryEvents = field(default_factory=_no_memory)
    header: Mapping[str, Any] = field(default_factory=dict)
    """What stands beside the list of events (deviceProperties, distributedInfo, ...), as JSON
    values; hostile."""
    lane_names: Mapping[int, str] = field(default_factory=dict)
    """Lane -> thread_name, where the trace names it."""
    process_labels: Mapping[str, str] = field(default_factory=dict)
    """pid as text -> process label ("CPU", "GPU 0")."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Why events or bytes were lost, and how many."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Events that are no intervals (metadata, flows, instants, counters), by phase letter."""
    format: str = PROFILER
    """What kind of file this was, for people."""
    process_names: Mapping[str, str] = field(default_factory=dict)
    """pid as text -> process_name, where the trace names it."""
    step_name: str = ""
    """Name or pattern of the annotations that the user says are steps; "" to find them."""
    notes: tuple[str, ...] = ()
    """What is unusual about the file among the others: another one says it is the same rank."""

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def end(self) -> Int64:
        """End of each event, ns."""
        return self.ts + self.dur

    @cached_property
    def on_device(self) -> Bool:
        """Mask of work on an accelerator's stream: kernels, copies, fills. Annotations and syncs
        are none."""
        return self.in_category(*DEVICE_CATEGORIES)

    def rows_named(self, predicate: Callable[[str], bool]) -> Int64:
        """Rows whose name is wanted, by start."""
        # Match each distinct name once, not every row.
        ids = [i for i, name in enumerate(self.names) if predicate(name)]
        rows = np.flatnonzero(np.isin(self.name, np.asarray(ids, dtype=np.int32)))
        # Stable: events of one moment keep the file's order.
        return np.asarray(rows[np.argsort(self.ts[rows], kind="stable")], dtype=np.int64)

    def in_category(self, *categories: str) -> Bool:
        """Mask of the events of these categories; upper and lower case are one (older traces write
        "Kernel"). Not to be changed."""
        return _in_category(self, frozenset(categories))

    def name_of(self, row: int) -> str:
        """The event's name."""
        return self.names[int(self.name[row])]

    def category_of(self, row: int) -> str:
        """The event's category, as the trace writes it."""
        return self.categories[int(self.category[row])]

    def names_of(self, rows: Int64) -> Int64:
        """The ids of the names of these rows, in order."""
        return np.flatnonzero(np.bincount(self.name[rows], minlength=1))

    def by_name(self, rows: Int64) -> Iterator[tuple[str, Int64]]:
        """The rows of each name among these."""
        names = self.name[rows]
        for name in self.names_of(rows).tolist():
            yield self.names[name], rows[names == name]

    def select(self, keep: Bool) -> TraceColumns:
        """Only the rows of the mask; names, categories and lanes keep their ids."""
        # Renumber: sparse arguments point to their rows by index.
        new_row = np.where(keep, np.cumsum(keep, dtype=np.int64) - 1, -1).astype(np.int32)
        columns = (
            "ts",
            "dur",
            "name",
            "category",
            "lane",
            "event",
            "offset",
            "stream",
            "correlation",
            "external_id",
        )
        selection: dict[str, Any] = {
            c: getattr(self, c)[keep] for c in (*columns, "python_id", "python_parent_id")
        }
        return replace(self, **selection, arguments=self.arguments.select(new_row))


@cached_per_trace
def _in_category(trace: TraceColumns, categories: frozenset[str]) -> Bool:
    id_mask = np.asarray(
        [category.lower() in categories for category in trace.categories], dtype=np.bool_
    )
    return id_mask[trace.category] if len(id_mask) else np.zeros(len(trace), dtype=np.bool_)
