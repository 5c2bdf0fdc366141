"""Which of the collected series is the one that an alert watches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from faultline.analysis.alert_signal.rule_texts import QueryReading, is_exporter, normalized
from faultline.analysis.kinds.signals import SignalClass, WatchedSignal, about_service, classify

_QUANTILE = re.compile(r"_p?(50|75|90|95|99|999)_")
USUAL_QUANTILE = 0.99
"""Alerts on latency that say no quantile mean slow requests, not the median."""
_SHARE = re.compile(r"_(ratio|share|rate|percent\w*|pct)_")
_FACTORS = {
    ("s", "ms"): 1000.0,
    ("ms", "s"): 0.001,
    ("ratio", "%"): 100.0,
    ("%", "ratio"): 0.01,
}
"""What a threshold is multiplied by, from its unit to the series'."""
_ALIKE = {
    SignalClass.AVAILABILITY: (SignalClass.AVAILABILITY, SignalClass.RESTARTS),
    SignalClass.CONNECTIONS: (SignalClass.CONNECTIONS, SignalClass.QUEUE),
}


@dataclass(frozen=True)
class AlertingSeries:
    """A collected signal of a service and its unit."""

    signal: str
    unit: str | None


def alerting_series(
    metrics: pl.DataFrame, service: str, watched: WatchedSignal, title: str
) -> AlertingSeries | None:
    """The service's series that the alert watches: the metric by its name, else the one of its
    class that fits best; None where there is none."""
    if not metrics.height:
        return None
    rows = metrics.filter(pl.col("service") == service)
    if "labels" in rows.columns:
        rows = rows.filter(about_service())
    rows = rows.select("signal", "unit")
    series: list[AlertingSeries] = []
    for signal, unit in rows.unique(subset="signal").sort("signal").iter_rows():
        series.append(AlertingSeries(signal, unit))
    metric_name = normalized(watched.metric or "")
    for candidate in series:
        # A rule without a metric normalizes to `__`, which must match no series.
        if metric_name != "__" and normalized(candidate.signal) == metric_name:
            return candidate
    if watched.signal_class is SignalClass.OTHER:
        return None
    for signal_class in _ALIKE.get(watched.signal_class, (watched.signal_class,)):
        of_class = [series for series in series if classify(series.signal) is signal_class]
        if of_class:
            return _closest(of_class, watched, title)
    return None


def _closest(
    candidates: Sequence[AlertingSeries], watched: WatchedSignal, title: str
) -> AlertingSeries:
    if watched.signal_class is SignalClass.LATENCY:
        quantile = watched.quantile or USUAL_QUANTILE
        return min(
            candidates, key=lambda series: (abs(_quantile(series.signal) - quantile), series.signal)
        )
    parts = set(normalized(f"{watched.metric or ''} {title}").split("_"))

    def fit(candidate: AlertingSeries) -> tuple[bool, int, str]:
        words = normalized(candidate.signal)
        # Shares do not grow with traffic: of two series of one class they say more.
        is_share = _SHARE.search(words) is not None
        return not is_share, -len(parts.intersection(words.split("_"))), candidate.signal

    return min(candidates, key=fit)


def _quantile(signal: str) -> float:
    """The quantile that a series' name says; a mean lies near the median."""
    match = _QUANTILE.search(normalized(signal))
    if match is None:
        return 0.5
    return 0.999 if match[1] == "999" else float(match[1]) / 100


def in_unit(watched: WatchedSignal, series: AlertingSeries) -> float | None:
    """The rule's threshold in the unit of the series; None where a unit is unknown, since a number
    in the wrong unit misleads."""
    if watched.threshold is None:
        return None
    if watched.unit and watched.unit == series.unit:
        return watched.threshold
    factor = _FACTORS.get((watched.unit or "", series.unit or ""))
    return None if factor is None else watched.threshold * factor


# Whose signal an alert watches and where: by the rule's selectors and the alert's labels.

SERVICE_LABELS = (
    "service", "service_name", "app", "app_kubernetes_io_name", "destination_service_name",
    "destination_workload", "deployment", "statefulset", "daemonset", "kube_deployment",
    "kube_stateful_set", "kube_daemon_set", "kube_service", "workload", "ServiceName", "Service",
    "service.name", "container", "container_name", "consumergroup", "consumer_group", "queue",
    "topic", "job", "job_name", "cronjob", "FunctionName", "functionname", "TargetGroup",
    "LoadBalancer", "LoadBalancerName", "QueueName", "queuename", "DBInstanceIdentifier",
    "dbinstanceidentifier", "DBClusterIdentifier", "dbclusteridentifier", "ClusterIdentifier",
    "clusteridentifier", "CacheClusterId", "cacheclusterid", "DomainName", "TableName",
    "StreamName", "TopicName", "ApiName", "ApiId", "NatGatewayId", "FileSystemId",
    "Service Name", "DistributionId", "BucketName", "AutoScalingGroupName", "ClusterName",
    "database_id", "pod", "pod_name",
)  # fmt: skip
"""Labels and dimensions that name a service or the resource that stands for one, the most telling
first."""
PLACE_LABELS = (
    "cluster", "cluster_name", "kube_cluster_name", "k8s_cluster_name", "region", "aws_region",
    "zone", "availability_zone", "availability-zone", "az", "datacenter", "dc", "site", "env",
    "environment", "deployment_environment_name", "namespace", "kube_namespace",
    "kubernetes_namespace", "node", "host", "hostname", "instance", "pod", "pod_name",
    "container", "version", "tenant", "tenant_id", "shard", "InstanceId", "aws_account",
)  # fmt: skip
"""Labels that say where: an alert that fixes one is about that place alone."""
_SERVICE_RANK = {label: rank for rank, label in enumerate(SERVICE_LABELS)}
_KUBERNETES_OBJECT = re.compile(
    r"kube_(deployment|statefulset|daemonset|poddisruptionbudget|horizontalpodautoscaler|cronjob"
    r"|persistentvolumeclaim|ingress|service|hpa)_"
)
_KUBERNETES_HOST = re.compile(r"kube_(node|namespace|resourcequota|persistentvolume)_|node_")
_POD_SUFFIX = re.compile(r"(?:-[a-f0-9]{6,10})?-[a-z0-9]{5}$|-\d{1,3}$")


def literal_service(reading: QueryReading) -> str | None:
    """The service that the rule's selectors name; the name of an exporter is nobody's."""
    top: tuple[int, str] | None = None
    for selection in reading.measured:
        for label, value in selection.equal.items():
            rank = _SERVICE_RANK.get(label)
            if rank is None or is_exporter(value):
                continue
            if top is None or rank < top[0]:
                top = rank, value
    return top[1] if top else None


def naming_label(reading: QueryReading) -> str | None:
    """The label that names the service once the alert fires; None where no label stands out."""
    if reading.grouped is not None:
        return first_naming(reading.grouped)
    for selection in reading.measured:
        match = _KUBERNETES_OBJECT.match(selection.metric)
        if match:
            return match[1]
        if selection.metric.startswith("kube_pod_container"):
            return "container"
    return None


def keeps_service(reading: QueryReading) -> bool:
    """Whether an alert carries the series' own labels, and they are not those of an exporter."""
    if reading.grouped is not None:
        return False
    for selection in reading.measured:
        about_hosts = _KUBERNETES_HOST.match(selection.metric) is not None
        # Such exporters measure others, so the labels of their series name the exporter.
        if about_hosts and (
            selection.metric.startswith("kube_") or is_exporter(selection.equal.get("job", ""))
        ):
            return False
    return True


def first_naming(labels: Iterable[str]) -> str | None:
    """The most telling of the labels that name a service."""
    ranked_labels = [label for label in labels if label in _SERVICE_RANK]
    return min(ranked_labels, key=_SERVICE_RANK.__getitem__, default=None)


def service_in(labels: Mapping[str, str], preferred: str | None) -> str | None:
    """The service that the labels of a firing alert name."""
    if preferred and labels.get(preferred):
        return _workload(preferred, labels[preferred])
    named = {label for label, value in labels.items() if value and not is_exporter(value)}
    label = first_naming(named)
    return _workload(label, labels[label]) if label else None


def place_in(*sources: Mapping[str, str]) -> dict[str, str]:
    """Where the alert is, by labels and selectors; the first source counts most."""
    place: dict[str, str] = {}
    for labels in sources:
        for label in PLACE_LABELS:
            if labels.get(label):
                place.setdefault(label, labels[label])
    return place


def _workload(label: str, value: str) -> str:
    """A pod's name without what Kubernetes appends to that of its Deployment or StatefulSet."""
    if label not in ("pod", "pod_name"):
        return value
    # Keep a name that consists of such a suffix alone.
    return _POD_SUFFIX.sub("", value) or value
