"""Which GPUs of a large job are read: those of the machines that stand out, and of others to
compare them with.

Reading every GPU of a job with thousands would exceed what Prometheus answers in time. So the
server ranks them, by signal, and only the machines that it names most often are read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.metrics import series as gs
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.training.gpu_metrics import LABELS, MOST_GPUS, GpuMetricNames
from faultline.connectors.vendors.prometheus.gpu_matchers import HOST_SPELLINGS, braced, spellings
from faultline.connectors.vendors.prometheus.promql import duration, names_pattern
from faultline.connectors.vendors.prometheus.series import PrometheusSeries

STANDING_OUT = 8
"""GPUs that each signal may name as standing out."""
SHORTEST_RANGE_S = 60.0
"""Range over which GPUs are ranked where the incident is shorter: a few scrapes."""

Ask = Callable[[str, Window, int], Awaitable[Sequence[PrometheusSeries]]]
"""Asks an expression over a window at that many points."""


@dataclass(frozen=True)
class GpuGroup:
    """The GPUs of a job, of services or of machines.

    `where` are matchers, each of which finds some of their series; `subject` is the name that
    their rows get (None: the host's), `gpus` the labels of each GPU, `host_label` the label that
    names its host. `cut` says which GPUs were left out.
    """

    where: tuple[str, ...]
    subject: str | None
    gpus: tuple[Mapping[str, str], ...]
    host_label: str
    cut: str | None = None


async def only_outliers(
    gpu_group: GpuGroup,
    signals: Sequence[GpuMetricNames],
    names: frozenset[str],
    incident: Window,
    ask: Ask,
) -> GpuGroup:
    """The GPUs of the machines that stand out, and of enough others."""
    # How often each host is among those that a ranking names.
    rankings = _rankings(gpu_group, signals, names, incident)
    at_end = Window(start=incident.end, end=incident.end)
    votes: Counter[str] = Counter()
    for ranked in await asyncio.gather(*(ask(text, at_end, 1) for text in rankings)):
        votes.update(_host_of(series, gpu_group.host_label) for series in ranked)
    by_host: dict[str, list[Mapping[str, str]]] = {}
    for gpu in gpu_group.gpus:
        by_host.setdefault(gpu.get(gpu_group.host_label, ""), []).append(gpu)
    hosts = _hosts_to_read({host: len(gpus) for host, gpus in by_host.items()}, votes)
    gpus = [gpu for host in hosts for gpu in by_host[host]]
    cut = (
        f"{len(gpu_group.gpus):,} GPUs on {len(by_host):,} hosts: only those of "
        f"{len(hosts)} hosts were read, the ones that "
        f"stand out most and some to compare with"
    )
    where = _where_on_hosts(gpu_group, hosts)
    return GpuGroup(where, gpu_group.subject, tuple(gpus[:MOST_GPUS]), gpu_group.host_label, cut)


def _host_of(series: PrometheusSeries, host_label: str) -> str:
    for label in spellings(host_label):
        if series.metric.get(label):
            return series.metric[label]
    return ""


def _hosts_to_read(sizes: Mapping[str, int], votes: Counter[str]) -> list[str]:
    """The hosts to read, of all with the number of their GPUs."""
    outliers = [host for host, _ in votes.most_common() if host in sizes]
    hosts = [host for host in sizes if host not in votes]
    # Hosts in order of name share racks and switches, so those to compare with are spread over all.
    spread = hosts[:: max(1, len(hosts) * 16 // MOST_GPUS)]
    selected_hosts: list[str] = []
    # Half of the room is for machines to compare with.
    left = _keep(outliers, sizes, selected_hosts, MOST_GPUS, least_left=MOST_GPUS // 2)
    left = _keep(spread, sizes, selected_hosts, left)
    _keep(hosts, sizes, selected_hosts, left)
    return selected_hosts or list(sizes)[:1]


def _keep(
    hosts: Iterable[str],
    sizes: Mapping[str, int],
    selected_hosts: list[str],
    room: int,
    least_left: int = 0,
) -> int:
    """Add the hosts whose GPUs fit; gives how many more GPUs fit."""
    for host in hosts:
        if host not in selected_hosts and room - sizes[host] >= least_left:
            selected_hosts.append(host)
            room -= sizes[host]
    return room


def _where_on_hosts(gpu_group: GpuGroup, hosts: Sequence[str]) -> tuple[str, ...]:
    where = []
    for place in gpu_group.where or ("",):
        for label in spellings(gpu_group.host_label):
            on_host = f'{label}=~"{names_pattern(hosts)}"'
            if _agree(place, on_host):
                where.append(f"{place},{on_host}" if place else on_host)
    return tuple(where)


def _agree(place: str, on_host: str) -> bool:
    """Whether not one spelling stands beside the other: no series has both."""
    used = set()
    for label in HOST_SPELLINGS:
        if place.startswith(f"{label}=") or on_host.startswith(f"{label}="):
            used.add(label)
    return len(used) < 2


def _rankings(
    gpu_group: GpuGroup,
    signals: Sequence[GpuMetricNames],
    names: frozenset[str],
    incident: Window,
) -> Iterator[str]:
    """Queries for the GPUs that stand out most, by signal."""
    over = duration(max(SHORTEST_RANGE_S, incident.seconds))
    labels = (*spellings(gpu_group.host_label), *LABELS["gpu"])
    by = f"by ({', '.join(labels)})"
    for signal in signals:
        if signal.signal not in gs.OF_A_GPU:
            continue
        for metric in signal.metrics:
            if metric not in names:
                continue
            for place in gpu_group.where or ("",):
                yield from _outliers(
                    signal.signal, braced([metric], [place] if place else []), by, over
                )


def _outliers(signal: str, x: str, by: str, over: str) -> Iterator[str]:
    """Queries for the GPUs whose series `x` of a signal stand out."""
    most = STANDING_OUT
    kind = gs.SIGNALS[signal].kind
    if signal in (gs.SM_CLOCK, gs.UTILIZATION):
        yield f"bottomk({most}, avg {by} (avg_over_time({x}[{over}])))"
        # A GPU that fell off the bus has no series any more.
        yield f"topk({most}, max {by} ({x} offset {over}) unless max {by} ({x}))"
    elif signal == gs.TEMPERATURE:
        yield f"topk({most}, max {by} (max_over_time({x}[{over}])))"
    elif kind == "bitmask":
        # Of the clocks' event reasons the bits below 8 are everyday: idle, set clocks, power cap.
        yield f"topk({most}, max {by} (max_over_time({x}[{over}])) >= 8)"
    elif kind == "counter":
        yield f"topk({most}, sum {by} (increase({x}[{over}])) > 0)"
    elif kind == "code":
        yield f"topk({most}, max {by} (changes({x}[{over}])) > 0)"
        # A series that begins with an error never changes, yet is new.
        yield f"topk({most}, (max {by} ({x}) > 0) unless max {by} ({x} offset {over}))"
    elif kind == "flag":
        yield f"topk({most}, max {by} ({x}) > 0)"
