"""What a snapshot shows: where memory peaked and who held it, why an allocation failed, what
grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.judgement.thresholds import (
    MIN_STEPS,
    RESERVED_RATIO,
    MemoryRise,
    rise_of,
)
from faultline.analysis.traces.memory_snapshot.history import (
    Ints,
    Levels,
    LineHolder,
    holders_at,
    levels,
    new_holders,
    step_lows,
)
from faultline.analysis.traces.memory_snapshot.reading import ALLOC, FREE, FREED, OOM, Snapshot

LARGE_SHARE = 0.25
"""Share of what the process had or could get, from which one allocation is itself the cause
(our choice)."""
UNUSABLE_SHARE = 0.10
"""Share of the reserved memory that must lie free in pieces to call it fragmented (our choice)."""
IDLE_BYTES = 2**30
"""By how much more must be reserved than was ever active (our choice), beside RESERVED_RATIO."""
MIN_VALLEYS = 8
"""Cycles that must be seen where no optimizer marks the steps (our choice)."""
SETTLING = 2
"""First steps that are left out: the optimizer makes its state in them."""


@dataclass(frozen=True)
class Peak:
    """When most was held."""

    event: int
    of_events: int
    allocated: int
    reserved: int
    holders: tuple[LineHolder, ...]


@dataclass(frozen=True)
class Growth:
    """Memory that every step leaves behind."""

    rise: MemoryRise
    site: str
    """The line that allocated what stays, in at least half of the steps; "" where none stands
    out."""
    site_size: int


@dataclass(frozen=True)
class AllocationFailure:
    """An allocation that failed."""

    requested: int
    device_free: int
    allocated: int
    active: int
    reserved: int
    largest_free: int | None
    """Bytes of the largest free block; None where the snapshot was taken later."""
    cause: str
    """"fragmentation", "growth", "one large allocation", "near the limit"."""
    site: str
    holders: tuple[LineHolder, ...]


@dataclass(frozen=True)
class JudgedSnapshot:
    """All that one snapshot shows."""

    snapshot: Snapshot
    peak: Peak | None
    """None without a history."""
    growth: Growth | None
    failure: AllocationFailure | None
    idle_reserved: int
    """Bytes reserved beyond the most that was ever active, where that is fragmentation; else 0."""
    split_free: int
    """Free bytes in segments' pieces at the snapshot's end."""


def judge(snapshot: Snapshot) -> JudgedSnapshot:
    """Look at everything."""
    free = sum(b.size for b in snapshot.blocks if b.state == "inactive")
    if not any(e.action in (ALLOC, FREE, FREED, OOM) for e in snapshot.events):
        return JudgedSnapshot(snapshot, None, None, None, 0, free)
    over_time = levels(snapshot)
    lows = step_lows(snapshot, over_time.allocated)
    growth = _growth(snapshot, over_time.allocated, lows)
    return JudgedSnapshot(
        snapshot=snapshot,
        peak=_peak(snapshot, over_time),
        growth=growth,
        failure=_failure(snapshot, over_time, growth),
        idle_reserved=_idle(snapshot, over_time, len(lows)),
        split_free=free,
    )


def _peak(snapshot: Snapshot, over_time: Levels) -> Peak:
    at = int(np.argmax(over_time.allocated))
    return Peak(
        event=at,
        of_events=len(snapshot.events),
        allocated=int(over_time.allocated[at]),
        reserved=int(over_time.reserved[at]),
        holders=tuple(holders_at(snapshot, at)),
    )


def _growth(snapshot: Snapshot, allocated: Ints, lows: list[int]) -> Growth | None:
    """Lows that rise from step to step."""
    marked = any(e.in_optimizer for e in snapshot.events)
    lows = lows[SETTLING:]
    rise = rise_of(allocated[lows])
    if rise is None or not rise.grows(MIN_STEPS if marked else MIN_VALLEYS):
        return None
    holders, events = new_holders(snapshot, lows[0])
    # In how many steps these events lie.
    often = [
        h
        for h in holders
        if h.site and len(np.unique(np.searchsorted(lows, events[h.site]))) >= len(lows) / 2
    ]
    top = often[0] if often else None
    return Growth(
        rise=rise,
        site=top.site if top else "",
        site_size=top.size if top else 0,
    )


def _failure(
    snapshot: Snapshot, over_time: Levels, growth: Growth | None
) -> AllocationFailure | None:
    """The last allocation that failed."""
    at = max((i for i, e in enumerate(snapshot.events) if e.action == OOM), default=None)
    if at is None:
        return None
    event = snapshot.events[at]
    active, reserved = int(over_time.active[at]), int(over_time.reserved[at])
    changed = any(e.action in (ALLOC, FREE, FREED) for e in snapshot.events[at + 1 :])
    free_inside = max(reserved - active, 0)
    # For OOM `address` holds the bytes that the device had free. Fragmentation comes first:
    # where enough was free in pieces, growth did not cause the failure.
    if free_inside + event.address >= event.size and free_inside >= UNUSABLE_SHARE * reserved:
        cause = "fragmentation"
    elif growth is not None:
        cause = "growth"
    elif event.size >= LARGE_SHARE * (reserved + event.address):
        cause = "one large allocation"
    else:
        cause = "near the limit"
    return AllocationFailure(
        requested=event.size,
        device_free=event.address,
        allocated=int(over_time.allocated[at]),
        active=active,
        reserved=reserved,
        # Free blocks are known only at the snapshot's end, not at the failure.
        largest_free=None if changed else snapshot.largest_free,
        cause=cause,
        site=event.site,
        holders=tuple(holders_at(snapshot, at)),
    )


def _idle(snapshot: Snapshot, over_time: Levels, steps: int) -> int:
    """Reserved memory that not even the peak of several steps used."""
    most = int(over_time.active.max())
    idle = snapshot.reserved - most
    return (
        idle
        if steps >= MIN_STEPS and idle >= IDLE_BYTES and snapshot.reserved >= RESERVED_RATIO * most
        else 0
    )
