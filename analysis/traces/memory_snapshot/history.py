"""The allocator's history, played back from the snapshot's end: how much was held at every event,
and what.

A history is a ring whose oldest events are lost, so it is walked backwards from what the segments
hold at its end. Sizes are those asked for, as the history has them; the allocator's own rounding
comes on top.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.memory_snapshot.reading import (
    ALLOC,
    FREE,
    FREED,
    SEGMENT,
    SEGMENT_FREED,
    Snapshot,
)

Ints = NDArray[np.int64]
STEP_GAP = 3
"""Allocations outside of the optimizer that end its work of one step (our choice)."""
VALLEY = 0.20
"""Share of the peak by which the held memory must fall for a cycle, where no optimizer is recorded
(our choice)."""


@dataclass(frozen=True)
class Levels:
    """Bytes after every event."""

    allocated: Ints
    active: Ints
    """With what is freed but still used by a stream."""
    reserved: Ints


@dataclass(frozen=True)
class LineHolder:
    """A line and what it holds."""

    site: str
    size: int
    blocks: int


def levels(snapshot: Snapshot) -> Levels:
    """The levels, from the end backwards."""
    action, size = snapshot.actions(), snapshot.sizes()
    born = np.where(action == ALLOC, size, 0)
    allocated = _backwards(born - np.where(action == FREE, size, 0), snapshot.bytes_in("allocated"))
    # FREE is the request, FREED its completion: in between a stream still uses the block.
    active = _backwards(
        born - np.where(action == FREED, size, 0), snapshot.bytes_in("allocated", "pending")
    )
    mapped = np.where(action == SEGMENT, size, 0) - np.where(action == SEGMENT_FREED, size, 0)
    return Levels(allocated, active, _backwards(mapped, snapshot.reserved))


def _backwards(change: Ints, end: int) -> Ints:
    after = np.cumsum(change[::-1])[::-1]
    # Never below 0, even where the file contradicts itself.
    ints: Ints = np.maximum(end - (after - change), 0)
    return ints


def holders_at(snapshot: Snapshot, index: int) -> list[LineHolder]:
    """The lines that hold memory after event `index`, the largest first. `len(events)` - 1 is the
    snapshot's end."""
    live = {b.address: (b.site, b.requested) for b in snapshot.blocks if b.state == "allocated"}
    born: dict[int, int] = {}
    allocated_by: dict[int, int] = {}
    for i, event in enumerate(snapshot.events):
        if event.action == ALLOC:
            born[event.address] = i
        elif event.action == FREE and event.address in born:
            allocated_by[i] = born.pop(event.address)
    for i in range(len(snapshot.events) - 1, index, -1):
        event = snapshot.events[i]
        if event.action == ALLOC:
            live.pop(event.address, None)
        elif event.action == FREE:
            # The ring may have lost the allocation; then its line is unknown.
            alloc_index = allocated_by.get(i)
            live[event.address] = (
                snapshot.events[alloc_index].site if alloc_index is not None else "",
                event.size,
            )
    return _by_site(live.values())


def new_holders(snapshot: Snapshot, since: int) -> tuple[list[LineHolder], dict[str, list[int]]]:
    """What was allocated after event `since` and is held at the end, by line; and the events that
    allocated it."""
    live = {b.address for b in snapshot.blocks if b.state == "allocated"}
    allocations: list[tuple[str, int]] = []
    events: dict[str, list[int]] = {}
    for i in range(len(snapshot.events) - 1, since, -1):
        event = snapshot.events[i]
        if event.action == ALLOC and event.address in live:
            live.discard(event.address)
            allocations.append((event.site, event.size))
            events.setdefault(event.site, []).append(i)
    return _by_site(allocations), events


def _by_site(allocations: Iterable[tuple[str, int]]) -> list[LineHolder]:
    total: dict[str, int] = {}
    count: dict[str, int] = {}
    for site, size in allocations:
        total[site] = total.get(site, 0) + size
        count[site] = count.get(site, 0) + 1
    return [LineHolder(s, total[s], count[s]) for s in sorted(total, key=lambda s: (-total[s], s))]


def step_lows(snapshot: Snapshot, allocated: Ints) -> list[int]:
    """The event of each step at which least was held: between two runs of the optimizer, else
    between deep falls."""
    ends = _optimizer_ends(snapshot)
    if len(ends) >= 2:
        return [a + 1 + int(np.argmin(allocated[a + 1 : b + 1])) for a, b in pairwise(ends)]
    return _valleys(allocated)


def _optimizer_ends(snapshot: Snapshot) -> list[int]:
    """The last allocation of each run of the optimizer."""
    ends: list[int] = []
    last, gap = -1, 0
    for i, event in enumerate(snapshot.events):
        if event.action != ALLOC:
            continue
        if event.in_optimizer:
            last, gap = i, 0
        elif last >= 0:
            gap += 1
            if gap == STEP_GAP:
                ends.append(last)
                last = -1
    return ends + ([last] if last >= 0 else [])


def _valleys(allocated: Ints) -> list[int]:
    """Lows between falls and rises of VALLEY of the peak."""
    if not len(allocated):
        return []
    # Only falls and rises of this depth count: small waves are no steps.
    depth = VALLEY * float(allocated.max())
    valleys: list[int] = []
    high = low = float(allocated[0])
    low_at, falling = 0, False
    for i, value in enumerate(allocated.tolist()):
        if falling:
            if value < low:
                low, low_at = value, i
            elif value - low >= depth:
                valleys.append(low_at)
                falling, high = False, value
        elif value > high:
            high = value
        elif high - value >= depth:
            falling, low, low_at = True, value, i
    return valleys
