"""Which GPU series are asked of Prometheus: those of the job (or of the host, or the service's
pods), and not too many.

One small query tells which GPUs there are. A job of more than `MOST_GPUS` is asked by host: those
whose GPUs stand out in any signal, and others beside them to compare with; what was left out is
said.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.errors import FaultlineError
from analysis.metrics import gpu_signals as gs
from analysis.vocabulary import Alert, Window
from connectors.base import Missing, Request
from connectors.gpu_metrics import LABELS, PROMETHEUS, GpuMetricNames, named
from connectors.prometheus.promql import (
    JOB_LABELS,
    LONGEST_MATCHER,
    PromQuery,
    duration,
    one_of,
    quoted,
)
from connectors.prometheus.series import PrometheusSeries

MOST_GPUS = 128
"""Up to so many GPUs all are asked: 16 machines of 8."""
ROWS_PER_WINDOW = 5000
"""Rows of one signal in one window; the step grows with the number of GPUs."""
LEAST_POINTS = 20
STANDING_OUT = 8
"""GPUs that each signal may name as standing out."""
MOST_SERVICES = 5
"""Services of the scope whose pods are looked for."""
ANCHORS = (gs.UTILIZATION, gs.TEMPERATURE, gs.SM_CLOCK, gs.POWER)
"""Signals that every exporter has for every GPU; the first there is tells which GPUs there are."""
ABOUT_GPUS = re.compile(r"(?i)(?:\b|_)(?:gpus?|dcgm|xid|nvlink|ecc|cuda|nccl|infiniband)(?:\b|_)")
COUNTED = 8
"""Points at which GPUs are counted over the windows."""

Ask = Callable[[str, Window, int], Awaitable[Sequence[PrometheusSeries]]]
"""Asks an expression over a window at so many points."""
LabelsOf = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""The labels that any of these metrics carry."""


@dataclass(frozen=True)
class GpuQueries:
    """What to ask, and what could not be found."""

    queries: tuple[PromQuery, ...] = ()
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True)
class _Place:
    """Series of somebody: matchers, one of which finds them, and the name that their rows get
    (None: the host's)."""

    where: tuple[str, ...]
    subject: str | None


@dataclass(frozen=True)
class _Found:
    """The GPUs of a place: the matchers, the labels of each GPU, and the label that names its
    host."""

    place: _Place
    gpus: tuple[Mapping[str, str], ...]
    host_label: str


_SPELLINGS = ("Hostname", "hostname")
"""dcgm-exporter writes the one for a GPU, the other for a link."""


async def gpu_queries(
    request: Request, names: frozenset[str], ask: Ask, labels_of: LabelsOf
) -> GpuQueries:
    """The queries for one request. A server that does not answer gives a gap."""
    there = [n for n in PROMETHEUS if names.intersection(n.metrics)]
    anchor = next((n for signal in ANCHORS for n in there if n.signal == signal), None)
    asked_for = request.scope.job is not None or about_gpus(request.alert)
    if anchor is None:
        return GpuQueries(
            missing=(_gap("no metric of dcgm-exporter or Dynolog exists there"),)
            if asked_for
            else ()
        )
    try:
        known = await labels_of(
            [m for n in there if n.signal in gs.OF_A_GPU for m in n.metrics if m in names]
        )
        found = await _find(request, anchor, names, known, ask)
        if found is None:
            return GpuQueries(
                missing=(_gap(_NOT_FOUND.format(_whose(request))),) if asked_for else ()
            )
        cut, where = None, found.place.where
        if len(found.gpus) > MOST_GPUS:
            found, cut, where = await _fewer(found, there, names, request.scope.incident, ask)
        queries = [
            _query(n, names, known, where, found, cut) for n in there if n.signal in gs.OF_A_GPU
        ]
        queries += await _host_queries(
            [n for n in there if n.signal in gs.OF_A_HOST], names, found, cut, labels_of
        )
    except FaultlineError as error:
        return GpuQueries(missing=(_gap(str(error)),))
    return GpuQueries(tuple(queries))


def about_gpus(alert: Alert) -> bool:
    """Whether the alert speaks of a GPU, by its labels or its words."""
    if any(alert.labels.get(label) for label in (*LABELS["gpu"], *LABELS["uuid"])):
        return True
    words = (alert.title, alert.signal or "", alert.labels.get("alertname", ""))
    return any(ABOUT_GPUS.search(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word[:500])) for word in words)


def _gap(reason: str) -> Missing:
    return Missing("metrics", "GPU metrics", reason)


_NOT_FOUND = (
    "no GPU series belongs to {}: looked for its hosts, for the labels "
    "hpc_job, training_job and job_name, and for "
    "pods that begin with its name"
)


def _whose(request: Request) -> str:
    return f"the job {request.scope.job}" if request.scope.job else "what the alert names"


async def _find(
    request: Request, anchor: GpuMetricNames, names: frozenset[str], known: Sequence[str], ask: Ask
) -> _Found | None:
    """The first place that has GPUs."""
    hosts = [label for label in LABELS["host"] if label in known]
    identity = [
        *hosts,
        *(label for k in ("gpu", "mig", "uuid") for label in LABELS[k] if label in known),
    ]
    spans = (*request.scope.baseline, request.scope.incident)
    whole = Window(start=min(s.start for s in spans), end=max(s.end for s in spans))
    for place in _places(request, known):
        text = f"count by ({', '.join(identity)}) ({_selector(anchor, names, place.where)})"
        series = await ask(text, whole, COUNTED)
        if series:
            label = next(
                (h for h in hosts if all(s.metric.get(h) for s in series)),
                hosts[0] if hosts else "instance",
            )
            return _Found(place, tuple(s.metric for s in series), label)
    return None


def _places(request: Request, known: Sequence[str]) -> list[_Place]:
    """Where the series may be, most certain first."""
    scope, job = request.scope, request.scope.training
    hosts = [label for label in LABELS["host"] if label in known]
    pods = [label for label in LABELS["pod"] if label in known]
    places: list[_Place] = []
    if scope.job is None:
        node = next(
            (request.alert.labels[h] for h in LABELS["host"] if request.alert.labels.get(h)), None
        )
        if about_gpus(request.alert):
            places += _on_hosts(hosts, [node], None) if node else [_Place((), None)]
        services = scope.services[:MOST_SERVICES]
        return places + [_Place((f'{p}=~"{_pods_of(s)}"',), s) for s in services for p in pods]
    if job is not None and job.hosts:
        places += _on_hosts(hosts, job.hosts, scope.job)
    if job is not None and job.slurm_job_id and "hpc_job" in known:
        places.append(_Place((f'hpc_job="{quoted(job.slurm_job_id)}"',), scope.job))
    places += [
        _Place((f'{label}="{quoted(scope.job)}"',), scope.job)
        for label in JOB_LABELS
        if label in known
    ]
    places += [_Place((f'{p}=~"{_pods_of(scope.job)}"',), scope.job) for p in pods]
    if job is not None and job.node and not job.hosts:
        places += _on_hosts(hosts, [job.node], scope.job)
    return places


def _on_hosts(labels: Sequence[str], hosts: Sequence[str], subject: str | None) -> list[_Place]:
    pattern = host_pattern(hosts)
    if pattern is None:
        return []
    spelt = [label for label in labels if label in _SPELLINGS]
    alike = [tuple(spelt)] if spelt else []
    alike += [(label,) for label in labels if label not in _SPELLINGS]
    return [_Place(tuple(f'{label}=~"{pattern}"' for label in one), subject) for one in alike]


def _pods_of(name: str) -> str:
    """Pods are named after what runs in them: `llm-1-worker-3`, `chat-6d5f-x2x9l`."""
    return f"(?:{one_of([name])})(?:-.*)?"


def host_pattern(hosts: Iterable[str]) -> str | None:
    """A matcher's value for these machines, with or without domain and port; None where it would be
    too long."""
    shorts = [h if re.fullmatch(r"[\d.]+|.*:.*", h) else h.partition(".")[0] for h in hosts]
    unique = list(dict.fromkeys(shorts))
    prefix = _common_start(unique) if len(unique) > 1 else ""
    rest = one_of(u[len(prefix) :] for u in unique)
    start = f"{one_of([prefix])}(?:{rest})" if prefix else f"(?:{rest})"
    text = rf"(?i:\\[?{start}\\]?)(?:\\.[^:]*)?(?::[0-9]+)?"
    return text if len(text) <= LONGEST_MATCHER else None


def _common_start(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    alike = (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(alike, min(len(first), len(last)))]


def _selector(one: GpuMetricNames, names: frozenset[str], where: Sequence[str]) -> str:
    """The metrics of one signal that exist, in one of these places."""
    there = [m for m in one.metrics if m in names]
    return " or ".join(
        _braced(there, [m for m in (one.matcher, place) if m]) for place in where or ("",)
    )


def _braced(metrics: Sequence[str], matchers: Sequence[str]) -> str:
    if len(metrics) == 1:
        return f"{metrics[0]}{{{','.join(matchers)}}}" if matchers else metrics[0]
    return "{" + ",".join([f'__name__=~"{"|".join(metrics)}"', *matchers]) + "}"


def _query(
    one: GpuMetricNames,
    names: frozenset[str],
    known: Sequence[str],
    where: Sequence[str],
    found: _Found,
    cut: str | None,
) -> PromQuery:
    kept = [k for k in LABELS if k != "port" and (k != "xid" or one.signal == gs.XID_EVENTS)]
    by = [label for k in kept for label in LABELS[k] if label in known]
    text = f"{one.how} by ({', '.join(by)}) ({_selector(one, names, where)})"
    return _made(one, text, found, cut, "gpu")


def _made(one: GpuMetricNames, text: str, found: _Found, cut: str | None, of: str) -> PromQuery:
    text += f" * {one.scale:.12g}" if one.scale != 1 else ""
    points = max(LEAST_POINTS, ROWS_PER_WINDOW // max(1, len(found.gpus)))
    return PromQuery(
        one.signal,
        gs.SIGNALS[one.signal].unit or None,
        text,
        only=found.place.subject,
        of=of,
        points=points,
        cut=cut,
    )


async def _host_queries(
    there: Sequence[GpuMetricNames],
    names: frozenset[str],
    found: _Found,
    cut: str | None,
    labels_of: LabelsOf,
) -> list[PromQuery]:
    """Network counters of the machines that the GPUs are in."""
    hosts = list(dict.fromkeys(host for gpu in found.gpus if (host := named(gpu).get("host"))))
    pattern = host_pattern(hosts) if hosts else None
    if not there or pattern is None:
        return []
    known = await labels_of([m for n in there for m in n.metrics if m in names])
    labels = [label for label in LABELS["host"] if label in known]
    by = ", ".join([*labels, *(label for label in ("device", "port") if label in known)])
    queries = []
    for one in there:
        every = _selector(one, names, [f'{label}=~"{pattern}"' for label in labels])
        if labels:
            queries.append(_made(one, f"{one.how} by ({by}) ({every})", found, cut, "host"))
    return queries


async def _fewer(
    found: _Found,
    there: Sequence[GpuMetricNames],
    names: frozenset[str],
    incident: Window,
    ask: Ask,
) -> tuple[_Found, str, tuple[str, ...]]:
    """The GPUs of the machines that stand out, and of enough others; what that leaves out; the
    matchers."""
    at_end = Window(start=incident.end, end=incident.end)
    votes: Counter[str] = Counter()
    texts = _rankings(found, there, names, incident)
    for answer in await asyncio.gather(*(ask(text, at_end, 1) for text in texts)):
        votes.update(
            next((s.metric[h] for h in _spellings(found.host_label) if s.metric.get(h)), "")
            for s in answer
        )
    by_host: dict[str, list[Mapping[str, str]]] = {}
    for gpu in found.gpus:
        by_host.setdefault(gpu.get(found.host_label, ""), []).append(gpu)
    others = [host for host in by_host if host not in votes]
    spread = others[:: max(1, len(others) * 16 // MOST_GPUS)]
    kept: list[str] = []
    room = MOST_GPUS
    # half of the room is for machines to compare with
    for hosts, least in (
        ([h for h, _ in votes.most_common()], MOST_GPUS // 2),
        (spread, 0),
        (others, 0),
    ):
        for host in hosts:
            if host in by_host and host not in kept and room - len(by_host[host]) >= least:
                kept.append(host)
                room -= len(by_host[host])
    kept = kept or list(by_host)[:1]
    gpus = tuple(gpu for host in kept for gpu in by_host[host])[:MOST_GPUS]
    only = [f'{label}=~"{one_of(kept)}"' for label in _spellings(found.host_label)]
    places = found.place.where or ("",)
    where = tuple(
        ",".join(filter(None, (place, host)))
        for place in places
        for host in only
        if _agree(place, host)
    )
    cut = (
        f"{len(found.gpus):,} GPUs on {len(by_host):,} hosts: only those of "
        f"{len(kept)} hosts were read, the ones that "
        f"stand out most and some to compare with"
    )
    return _Found(found.place, gpus, found.host_label), cut, where


def _spellings(label: str) -> tuple[str, ...]:
    return _SPELLINGS if label in _SPELLINGS else (label,)


def _agree(place: str, host: str) -> bool:
    """Not one spelling beside the other: no series has both."""
    used = {label for label in _SPELLINGS if f"{label}=" in (place[:9], host[:9])}
    return len(used) < 2


def _rankings(
    found: _Found, there: Sequence[GpuMetricNames], names: frozenset[str], incident: Window
) -> list[str]:
    """Queries for the GPUs that stand out most, by signal."""
    where, label, most = found.place.where, found.host_label, STANDING_OUT
    over = duration(max(60.0, incident.seconds))
    by = f"by ({', '.join((*_spellings(label), *LABELS['gpu']))})"
    texts = []
    for one in (n for n in there if n.signal in gs.OF_A_GPU):
        for metric, place in ((m, w) for m in one.metrics if m in names for w in where or ("",)):
            x = _braced([metric], [place] if place else [])
            kind = gs.SIGNALS[one.signal].kind
            if one.signal in (gs.SM_CLOCK, gs.UTILIZATION):
                texts.append(f"bottomk({most}, avg {by} (avg_over_time({x}[{over}])))")
                texts.append(f"topk({most}, max {by} ({x} offset {over}) unless max {by} ({x}))")
            elif one.signal == gs.TEMPERATURE:
                texts.append(f"topk({most}, max {by} (max_over_time({x}[{over}])))")
            elif kind == "bitmask":
                texts.append(f"topk({most}, max {by} (max_over_time({x}[{over}])) >= 8)")
            elif kind == "counter":
                texts.append(f"topk({most}, sum {by} (increase({x}[{over}])) > 0)")
            elif kind == "code":
                new = f"(max {by} ({x}) > 0) unless max {by} ({x} offset {over})"
                texts.append(f"topk({most}, max {by} (changes({x}[{over}])) > 0)")
                texts.append(f"topk({most}, {new})")
            elif kind == "flag":
                texts.append(f"topk({most}, max {by} ({x}) > 0)")
    return texts
