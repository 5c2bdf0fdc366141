"""Which GPU series are asked of Prometheus: those of the job (or of the host, or the service's
pods), and not too many.

One small query tells which GPUs there are. A job of more than `MOST_GPUS` is asked by host: those
whose GPUs stand out in any signal, and others beside them to compare with; what was left out is
said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.errors import FaultlineError
from faultline.analysis.metrics import series as gs
from faultline.analysis.vocabulary import Alert, JobIdentity, Window
from faultline.connectors.shared.contract.base import Missing, Request
from faultline.connectors.shared.training.gpu_metrics import (
    LABELS,
    LEAST_POINTS,
    MOST_GPUS,
    PROMETHEUS,
    ROWS_PER_WINDOW,
    GpuMetricNames,
    about_gpus,
    named,
)
from faultline.connectors.vendors.prometheus.gpu_matchers import (
    HOST_SPELLINGS,
    host_pattern,
    pod_pattern,
    selector,
)
from faultline.connectors.vendors.prometheus.gpu_outliers import Ask, GpuGroup, only_outliers
from faultline.connectors.vendors.prometheus.promql import JOB_LABELS, PromQuery, quoted
from faultline.connectors.vendors.prometheus.series import PrometheusSeries

MOST_SERVICES = 5
"""Services of the scope whose pods are looked for."""
ANCHORS = (gs.UTILIZATION, gs.TEMPERATURE, gs.SM_CLOCK, gs.POWER)
"""Signals that every exporter has for every GPU; the first there is tells which GPUs there are."""
COUNTED = 8
"""Points at which GPUs are counted over the windows."""
_IDENTITY = ("gpu", "mig", "uuid")
"""Which labels tell GPUs of one host apart, by their names in a case."""
_NO_GPUS = (
    "no GPU series belongs to {}: looked for its hosts, for the labels "
    "hpc_job, training_job and job_name, and for "
    "pods that begin with its name"
)

LabelsOf = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""The labels that any of these metrics carry."""


@dataclass(frozen=True)
class GpuQueries:
    """What to ask, and what could not be found."""

    queries: tuple[PromQuery, ...] = ()
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True)
class _Place:
    """Where series may be: matchers, each of which finds some of them, and the name that their rows
    get (None: the host's)."""

    where: tuple[str, ...]
    subject: str | None


async def gpu_queries(
    request: Request, names: frozenset[str], ask: Ask, labels_of: LabelsOf
) -> GpuQueries:
    """The queries for one request. A server that does not answer gives a gap."""
    existing = [signal for signal in PROMETHEUS if names.intersection(signal.metrics)]
    is_expected = request.scope.job is not None or about_gpus(request.alert)
    anchor = _anchor(existing)
    if anchor is None:
        return _no_queries("no metric of dcgm-exporter or Dynolog exists there", is_expected)
    of_gpus = [signal for signal in existing if signal.signal in gs.OF_A_GPU]
    of_hosts = [signal for signal in existing if signal.signal in gs.OF_A_HOST]
    try:
        labels = await labels_of(_metrics_of(of_gpus, names))
        outliers = await _find(request, anchor, names, labels, ask)
        if outliers is None:
            return _no_queries(_NO_GPUS.format(_whose(request)), is_expected)
        if len(outliers.gpus) > MOST_GPUS:
            outliers = await only_outliers(outliers, existing, names, request.scope.incident, ask)
        queries = [_query(signal, names, labels, outliers) for signal in of_gpus]
        queries += await _host_queries(of_hosts, names, outliers, labels_of)
    except FaultlineError as error:
        return GpuQueries(missing=(_gap(str(error)),))
    return GpuQueries(tuple(queries))


def _anchor(existing: Sequence[GpuMetricNames]) -> GpuMetricNames | None:
    for anchor in ANCHORS:
        for metric_name in existing:
            if metric_name.signal == anchor:
                return metric_name
    return None


def _metrics_of(signals: Sequence[GpuMetricNames], names: frozenset[str]) -> list[str]:
    return [metric for signal in signals for metric in signal.metrics if metric in names]


def _no_queries(reason: str, is_expected: bool) -> GpuQueries:
    """No queries; that is a gap only where the alert is about a job or about GPUs."""
    return GpuQueries(missing=(_gap(reason),) if is_expected else ())


def _gap(reason: str) -> Missing:
    return Missing("metrics", "GPU metrics", reason)


def _whose(request: Request) -> str:
    if request.scope.job:
        return f"the job {request.scope.job}"
    return "what the alert names"


async def _find(
    request: Request,
    anchor: GpuMetricNames,
    names: frozenset[str],
    server_labels: Sequence[str],
    ask: Ask,
) -> GpuGroup | None:
    """The GPUs of the first place that has any."""
    hosts = [label for label in LABELS["host"] if label in server_labels]
    identity = [*hosts, *_labels_for(_IDENTITY, server_labels)]
    spans = (*request.scope.baseline, request.scope.incident)
    # Over all windows: a GPU that fell off the bus has no series at the end.
    full = Window(start=min(s.start for s in spans), end=max(s.end for s in spans))
    for place in _places(request, server_labels):
        text = f"count by ({', '.join(identity)}) ({selector(anchor, names, place.where)})"
        series = await ask(text, full, COUNTED)
        if series:
            gpus = tuple(series.metric for series in series)
            return GpuGroup(place.where, place.subject, gpus, _host_label(hosts, series))
    return None


def _host_label(hosts: Sequence[str], series: Sequence[PrometheusSeries]) -> str:
    """The first label that names the host of all series."""
    for label in hosts:
        if all(series.metric.get(label) for series in series):
            return label
    return hosts[0] if hosts else "instance"


def _labels_for(kinds: Sequence[str], server_labels: Sequence[str]) -> list[str]:
    """The labels by which the server says these things, of those that it has."""
    return [label for kind in kinds for label in LABELS[kind] if label in server_labels]


def _places(request: Request, server_labels: Sequence[str]) -> Iterator[_Place]:
    """Where the series may be, most certain first."""
    if request.scope.job is None:
        if about_gpus(request.alert):
            host = _host_of(request.alert)
            if host is None:
                yield _Place((), None)
            else:
                yield from _on_hosts(server_labels, [host], None)
        for service in request.scope.services[:MOST_SERVICES]:
            yield from _in_pods(server_labels, service)
        return
    yield from _places_of_job(request.scope.job, request.scope.training, server_labels)


def _host_of(alert: Alert) -> str | None:
    for label in LABELS["host"]:
        if alert.labels.get(label):
            return alert.labels[label]
    return None


def _places_of_job(
    job: str, identity: JobIdentity | None, server_labels: Sequence[str]
) -> Iterator[_Place]:
    if identity is not None and identity.hosts:
        yield from _on_hosts(server_labels, identity.hosts, job)
    if identity is not None and identity.slurm_job_id and "hpc_job" in server_labels:
        yield _Place((f'hpc_job="{quoted(identity.slurm_job_id)}"',), job)
    for label in JOB_LABELS:
        if label in server_labels:
            yield _Place((f'{label}="{quoted(job)}"',), job)
    yield from _in_pods(server_labels, job)
    # The node of one rank is all that is known of the hosts, so it comes after what finds them all.
    if identity is not None and identity.node and not identity.hosts:
        yield from _on_hosts(server_labels, [identity.node], job)


def _in_pods(server_labels: Sequence[str], subject: str) -> Iterator[_Place]:
    pattern = pod_pattern(subject)
    for label in _labels_for(("pod",), server_labels):
        yield _Place((f'{label}=~"{pattern}"',), subject)


def _on_hosts(
    server_labels: Sequence[str], hosts: Sequence[str], subject: str | None
) -> Iterator[_Place]:
    pattern = host_pattern(hosts)
    # The hosts are too many for one matcher: another label has to find their GPUs.
    if pattern is None:
        return
    labels = _labels_for(("host",), server_labels)
    # One exporter may use both spellings: only together they find all series.
    spelt = tuple(f'{label}=~"{pattern}"' for label in labels if label in HOST_SPELLINGS)
    if spelt:
        yield _Place(spelt, subject)
    for label in labels:
        if label not in HOST_SPELLINGS:
            yield _Place((f'{label}=~"{pattern}"',), subject)


def _query(
    signal: GpuMetricNames, names: frozenset[str], server_labels: Sequence[str], gpu_group: GpuGroup
) -> PromQuery:
    # A port belongs to a host's network, not to a GPU.
    kinds = [kind for kind in LABELS if kind != "port"]
    if signal.signal != gs.XID_EVENTS:
        # Only the counter of errors has a series for each error; elsewhere the label would split
        # the series of one GPU.
        kinds.remove("xid")
    by = ", ".join(_labels_for(kinds, server_labels))
    text = f"{signal.how} by ({by}) ({selector(signal, names, gpu_group.where)})"
    return _bounded(signal, text, gpu_group, of="gpu")


def _bounded(signal: GpuMetricNames, text: str, gpu_group: GpuGroup, *, of: str) -> PromQuery:
    """The query in the signal's unit, with fewer points the more GPUs there are."""
    if signal.scale != 1:
        text += f" * {signal.scale:.12g}"
    return PromQuery(
        signal.signal,
        gs.SIGNALS[signal.signal].unit or None,
        text,
        only=gpu_group.subject,
        of=of,
        points=max(LEAST_POINTS, ROWS_PER_WINDOW // max(1, len(gpu_group.gpus))),
        cut=gpu_group.cut,
    )


async def _host_queries(
    signals: Sequence[GpuMetricNames],
    names: frozenset[str],
    gpu_group: GpuGroup,
    labels_of: LabelsOf,
) -> list[PromQuery]:
    """Network counters of the machines that the GPUs are in."""
    hosts = _hosts_of(gpu_group.gpus)
    pattern = host_pattern(hosts) if hosts else None
    if not signals or pattern is None:
        return []
    server_labels = await labels_of(_metrics_of(signals, names))
    labels = [label for label in LABELS["host"] if label in server_labels]
    if not labels:
        return []
    by = ", ".join([*labels, *(label for label in ("device", "port") if label in server_labels)])
    where = [f'{label}=~"{pattern}"' for label in labels]
    queries = []
    for signal in signals:
        text = f"{signal.how} by ({by}) ({selector(signal, names, where)})"
        queries.append(_bounded(signal, text, gpu_group, of="host"))
    return queries


def _hosts_of(gpus: Sequence[Mapping[str, str]]) -> list[str]:
    hosts = []
    for gpu in gpus:
        host = named(gpu).get("host")
        if host and host not in hosts:
            hosts.append(host)
    return hosts
