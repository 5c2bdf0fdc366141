"""Collectives by operation, process group and size: bandwidth against the link's peak, and the time
that no computation hides.

Bandwidths are those of nccl-tests (doc/PERFORMANCE.md): algorithm bandwidth is size over time; bus
bandwidth is that times what each link must carry per byte of size, and compares with the hardware's
whatever the number of ranks. Sizes are summed up by powers of two, as nccl-tests steps through
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import BOOL, FLOAT, INT, TEXT, Rows, RowTable
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.costs.call import Accelerator, accelerator_of
from faultline.analysis.traces.per_rank.activity import activity_of
from faultline.analysis.traces.per_rank.collective_calls import (
    CollectiveCalls,
    ProcessGroup,
    collective_calls,
)
from faultline.analysis.traces.per_rank.collective_names import OTHER

UNKNOWN_NAME = "not known"


@dataclass(frozen=True)
class Link:
    """What a group's ranks communicate over."""

    name: str
    """ "NVLink", "Infinity Fabric", or "not known": traces say nothing of network cards."""
    peak_gb_per_s: float | None
    """In one direction."""


UNKNOWN_LINK = Link(UNKNOWN_NAME, None)


@dataclass(frozen=True)
class CollectiveRow:
    """All collectives of one operation, process group and size; ns."""

    operation: str
    group: str
    """Description of the process group, else its name; "" where the trace does not say."""
    ranks: int
    """Ranks of the group (those with a trace, where its size is unknown)."""
    bytes: int
    """As nccl-tests counts size, the median of the calls; 0 where unknown."""
    count: int
    wait: int
    """Mean over the ranks of what each waited, over all of these collectives."""
    worst_wait: int
    """What the longest waiting rank of each waited, over all of these collectives."""
    transfer: int
    """Over all of these collectives."""
    median_transfer: int
    exposed: int
    """Mean over the ranks of the time in which no computation ran, waiting included."""
    hidden: int
    """Mean over the ranks of the time in which computation ran."""
    awaited: int
    """Of the exposed time, that in which computation was launched already and had to wait. In the
    rest the host had launched nothing to overlap with."""
    algorithm_bandwidth: float | None
    """GB/s (10**9), the median of the calls; None where the size or the time is unknown."""
    bus_bandwidth: float | None
    at_least: bool
    """Some ranks have no trace: what is called transfer may hold waiting for them; bandwidths are
    lower bounds."""
    link: Link = UNKNOWN_LINK

    @property
    def link_percent(self) -> float | None:
        """Bus bandwidth of the link's peak. NVLink SHARP can reach more than 100."""
        if self.bus_bandwidth is None or self.link.peak_gb_per_s is None:
            return None
        return 100.0 * self.bus_bandwidth / self.link.peak_gb_per_s


_CALLS = (*TEXT("operation", "group"), *INT("ranks", "bytes", "count"))
_TRANSFER = (
    *INT(transfer_ns="transfer", median_transfer_ns="median_transfer", exposed_ns="exposed"),
    *INT(hidden_ns="hidden", awaited_by_computation_ns="awaited"),
    *FLOAT(algorithm_gb_per_s="algorithm_bandwidth", bus_gb_per_s="bus_bandwidth"),
    *TEXT(link="link.name"),
    *FLOAT(link_gb_per_s="link.peak_gb_per_s"),
    *FLOAT("link_percent"),
    *BOOL("at_least"),
)
TABLE = RowTable(_CALLS, _TRANSFER)
OF_ALL_RANKS = RowTable(_CALLS, INT(wait_ns="wait", worst_wait_ns="worst_wait"), _TRANSFER)


def bus_factor(operation: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth (nccl-tests, PERFORMANCE.md)."""
    if ranks < 2:
        return 1.0
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (
        (ranks - 1) / ranks if operation in ("all_gather", "reduce_scatter", "all_to_all") else 1.0
    )


def link_within(device: Accelerator | None, ranks: int) -> Link:
    """Of a group of this many ranks on one host; not known where its data sheet names none."""
    peak = device.link_peak(ranks) if device is not None else None
    return UNKNOWN_LINK if device is None or peak is None else Link(device.link, peak)


def by_size(*keys: Int64, sizes: Int64) -> Iterator[tuple[list[int], Int64]]:
    """The keys and rows of calls that agree in them and, to a power of two, in size."""
    # -1 collects the calls of unknown size.
    power = np.where(sizes > 0, np.floor(np.log2(np.maximum(sizes, 1))), -1).astype(np.int64)
    distinct, place = np.unique(np.stack((*keys, power)), axis=1, return_inverse=True)
    for number, key in enumerate(distinct.T.tolist()):
        yield key[:-1], np.flatnonzero(place.ravel() == number)


def collective_row(
    operation: str,
    group: ProcessGroup,
    ranks: int,
    sizes: Int64,
    times: CallTimes,
    *,
    link: Link,
    at_least: bool,
) -> CollectiveRow:
    """One row of these calls; `sizes` in bytes, one per call."""
    measurable = (sizes > 0) & (times.transfer > 0)
    rate = (
        # Bytes per ns are GB/s.
        float(np.median(sizes[measurable] / times.transfer[measurable]))
        if measurable.any()
        else None
    )
    took, exposed = (times.took.mean(axis=1).sum(), times.exposed.mean(axis=1).sum())
    return CollectiveRow(
        operation=operation,
        group=group.description or group.name,
        ranks=ranks,
        bytes=int(np.median(sizes)),
        count=len(sizes),
        wait=int(times.wait.mean(axis=1).sum()),
        worst_wait=int(times.wait.max(axis=1).sum()),
        transfer=int(times.transfer.sum()),
        median_transfer=int(np.median(times.transfer)),
        exposed=int(exposed),
        hidden=int(took - exposed),
        awaited=int(times.awaited.mean(axis=1).sum()),
        algorithm_bandwidth=rate,
        bus_bandwidth=rate * bus_factor(operation, ranks) if rate is not None else None,
        at_least=at_least,
        link=link,
    )


@dataclass(frozen=True, eq=False)
class CallTimes:
    """ns of some calls: calls x ranks, but for `transfer`, which has one value per call."""

    took: Int64
    wait: Int64
    exposed: Int64
    awaited: Int64
    transfer: Int64

    def select(self, rows: Int64) -> CallTimes:
        """Of these calls."""
        return CallTimes(
            self.took[rows],
            self.wait[rows],
            self.exposed[rows],
            self.awaited[rows],
            self.transfer[rows],
        )


def rank_rows(
    calls: CollectiveCalls, world_size: int | None, link: Link = UNKNOWN_LINK
) -> list[CollectiveRow]:
    """One rank's collectives, sends and receives, those with the most time first: their durations,
    which hold waiting that one rank's trace cannot tell apart."""
    took = calls.end - calls.start
    times = CallTimes(
        took=took[:, None],
        wait=np.zeros((len(took), 1), dtype=np.int64),
        exposed=calls.exposed[:, None],
        awaited=calls.awaited[:, None],
        transfer=took,
    )
    collective_rows = []
    for (operation, group), mine in by_size(calls.operation, calls.group, sizes=calls.bytes):
        if calls.operations[operation] == OTHER:
            continue
        collective_rows.append(
            collective_row(
                calls.operations[operation],
                calls.groups[group],
                calls.groups[group].size or world_size or 1,
                calls.bytes[mine],
                times.select(mine),
                link=link,
                # One rank's durations hold waiting, so its bandwidths are lower bounds.
                at_least=True,
            )
        )
    return sorted(collective_rows, key=lambda r: -r.transfer)


def rows(trace: TraceColumns) -> Rows:
    """One row for each operation, process group and size. The link is known where the host holds
    the whole world."""
    steps = steps_of(trace)
    calls = collective_calls(trace, steps, activity_of(trace, steps))
    devices, world = trace.header.get("deviceProperties"), trace.world_size
    # The host lists a device for every rank, so it holds the whole world.
    alone = isinstance(devices, list) and world is not None and 1 < world <= len(devices)
    link = link_within(accelerator_of(trace.header), world or 1) if alone else UNKNOWN_LINK
    return TABLE.rows(rank_rows(calls, world, link))
