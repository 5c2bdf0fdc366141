"""What a signal measures, read from its name: the names of metrics differ between vendors, their
words do not.

The words are those of the Prometheus naming guide, the OpenTelemetry semantic conventions and
CloudWatch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from faultline.analysis.kinds.place_names import PLACE_LABELS


class SignalClass(StrEnum):
    """The families of signals that behave alike in an incident."""

    LATENCY = "latency"
    ERRORS = "errors"
    AVAILABILITY = "availability"
    RESTARTS = "restarts"
    QUEUE = "queue"
    CPU = "cpu"
    MEMORY = "memory"
    DISK = "disk"
    NETWORK = "network"
    TRAFFIC = "traffic"
    LIMIT = "limit"
    LOSS = "loss"
    HIT_RATIO = "hit_ratio"
    """Of a cache."""
    CONNECTIONS = "connections"
    """Slots of a pool: connections, sessions, threads, file descriptors."""
    CERTIFICATE = "certificate"
    JOB = "job"
    """Work that runs once or on a schedule: backups, batch jobs."""
    GPU = "gpu"
    HARDWARE = "hardware"
    OTHER = "other"


SYMPTOMS = frozenset(
    {SignalClass.LATENCY, SignalClass.ERRORS, SignalClass.AVAILABILITY, SignalClass.RESTARTS}
)
"""What a caller feels; these travel from callee to caller."""
SCRAPES = "scrape_availability"
"""The share of a service's targets that Prometheus could scrape, by `up`. A target that it cannot
scrape may serve its requests all the same."""
RESOURCES = frozenset({SignalClass.CPU, SignalClass.MEMORY, SignalClass.DISK})
"""What a service runs out of by itself."""

# The first match decides, so special words stand before general ones.
_WORDS = (
    (SignalClass.LIMIT, r"(^|_)(limit|quota|capacity_total|requested|learning_rate|lr)(_|$)"),
    # A sum of seconds grows with the requests as well as with their duration, so it tells neither.
    (SignalClass.OTHER, r"(seconds|duration)_sum$"),
    (SignalClass.MEMORY, r"gc_(pause|time|duration)"),
    (SignalClass.HIT_RATIO, r"hits?_?(ratio|rate|percent)"),
    (SignalClass.RESTARTS, r"restart|oom|crash|evict"),
    (
        SignalClass.ERRORS,
        r"err|5xx|4xx|40[0-9]|50[0-9]|fail|exception|timeout|reject|throttle_ratio|dropped"
        r"|unhealthy",
    ),
    (SignalClass.AVAILABILITY, r"availab|success|ready|uptime|healthy|apdex"),
    (
        SignalClass.CONNECTIONS,
        r"(?<!re)(connections|conn|hikaricp)(_|$)(?!.*(lat|dur|time|sec))"
        r"|busy_(threads|workers)|active_requests|pool_(util|usage|in_use|busy)",
    ),
    (
        SignalClass.QUEUE,
        r"queue|backlog|lag|depth|buffer|pending|oldest|saturation|inflight|lock_?wait|deadlock"
        r"|longest_(transaction|query)|blocked",
    ),
    (
        SignalClass.LATENCY,
        r"lat(ency)?(_?p?\d+)?$|latency|duration|response_?time|elapsed|ttft|step_time|(^|_)p\d\d"
        r"|requests?_seconds(_max|_mean|_avg)?$",
    ),
    (SignalClass.CPU, r"cpu|throttl|load_?(avg|1|5)"),
    (SignalClass.MEMORY, r"mem|heap|rss|swap|working_set"),
    (SignalClass.NETWORK, r"net|rx|tx|packet|retrans|bandwidth"),
    (
        SignalClass.TRAFFIC,
        r"request|rps|qps|workload|traffic|throughput|per_(sec|second|min|minute)$|invocations"
        r"|calls",
    ),
    (SignalClass.DISK, r"disk|sysread|syswrite|iops|fs_|filesystem|volume"),
    (SignalClass.LOSS, r"(^|_)(loss|perplexity)$"),
)
_HEADROOM = re.compile(r"(^|_)(mem_?)?(free|avail(able)?|remaining|idle|headroom|unused)(_|$)")
_PATTERNS = tuple((kind, re.compile(words)) for kind, words in _WORDS)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=4096)
def classify(signal: str) -> SignalClass:
    """The class of a signal by its name; OTHER when no word is known."""
    name = _words(signal)
    kinds = [kind for kind, pattern in _PATTERNS if pattern.search(name)] or [SignalClass.OTHER]
    if kinds[0] is SignalClass.AVAILABILITY and is_headroom(signal):  # memory that is available
        return next((kind for kind in kinds if kind in RESOURCES), kinds[0])
    return kinds[0]


@lru_cache(maxsize=4096)
def is_headroom(signal: str) -> bool:
    """Whether the signal counts what is left of a resource, so that a fall is the bad move: free
    memory, idle CPU."""
    return bool(_HEADROOM.search(_words(signal)))


def _words(signal: str) -> str:
    return _CAMEL.sub("_", signal).lower().replace(".", "_").replace("-", "_")


def is_bad(kind: SignalClass, direction: str, *, headroom: bool = False) -> bool:
    """Whether a move in `direction` ("up" or "down") is the kind of move an incident makes."""
    if headroom and kind in RESOURCES:
        return direction == "down"
    if kind in (SignalClass.AVAILABILITY, SignalClass.HIT_RATIO):
        return direction == "down"
    if kind in SYMPTOMS or kind in (
        SignalClass.QUEUE,
        SignalClass.CPU,
        SignalClass.DISK,
        SignalClass.LOSS,
        SignalClass.CONNECTIONS,
    ):
        return direction == "up"
    return kind is not SignalClass.LIMIT


# What an alert rule watches: the signal, whose it is, where, and from what value on.

QueryLanguage = Literal["promql", "logql", "datadog", "metric", "nrql", "kql", "mql"]
Comparison = Literal[">", ">=", "<", "<=", "==", "!="]


class SignalSource(StrEnum):
    """Where the signal of an alert was read, as an answer says it."""

    NAMED = "named by the alert"
    EXPRESSION = "from the rule's expression"
    METRIC = "from the rule's metric"
    TITLE = "from the title"
    TEXT = "from the description"
    SENDER = "what its sender reports"
    UNKNOWN = "unknown"


class AlertQuery(BaseModel):
    """What the monitor that sent an alert computes; only what the alert or its vendor says.

    `text` is the expression or the monitor's query; of language "metric" it is the metric's name,
    and the other fields hold the rest of the condition. Of New Relic's, Azure's and Google Cloud's
    languages (nrql, kql, mql) the text is what is measured.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    language: QueryLanguage
    text: str
    namespace: str | None = None
    statistic: str | None = None
    comparison: Comparison | None = None
    threshold: float | None = None
    window_s: float | None = None
    holds_for_s: float | None = None
    """How long the condition must hold before the alert fires."""
    dimensions: Mapping[str, str] = Field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    """Of language "metric": the metrics that `text` computes with, where it is an expression."""
    unit: str | None = None
    """The unit of the threshold, where the vendor's documentation says it."""


class WatchedSignal(BaseModel):
    """What an alert watches. Fields that nothing tells are None or empty."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    signal_class: SignalClass = SignalClass.OTHER
    source: SignalSource = SignalSource.UNKNOWN
    metric: str | None = None
    """The metric's name as the rule has it; of a ratio, the one above the line."""
    quantile: float | None = None
    service: str | None = None
    """As the rule's selectors name it."""
    service_label: str | None = None
    """The label or dimension that names the service of an alert that fires."""
    keeps_labels: bool = False
    """Whether alerts carry all labels of the series, because the rule adds nothing up."""
    place: Mapping[str, str] = Field(default_factory=dict)
    """Cluster, region, namespace, node, pod, version and the like that the alert fixes."""
    comparison: Comparison | None = None
    threshold: float | None = None
    unit: str | None = None
    window_s: float | None = None
    """Over how long the rule averages or counts."""
    holds_for_s: float | None = None


# Labels that name a part of a service: a version of it, or where some of its instances run.

PART_LABELS: Mapping[str, tuple[str, ...]] = {
    "version": (
        "version",
        "service_version",
        "service.version",
        "destination_version",
        "app_kubernetes_io_version",
    ),
    "cluster": PLACE_LABELS["cluster"],
    "region": PLACE_LABELS["region"],
    "tenant": ("tenant", "tenant_id"),
    "pod": ("pod", "pod_name", "k8s_pod_name", "k8s.pod.name", "kubernetes_pod_name"),
    "instance": ("instance",),
    "node": (
        "node",
        "k8s_node_name",
        "k8s.node.name",
        "kubernetes_node",
        "host",
        "host_name",
        "host.name",
    ),
    "zone": (
        "zone",
        "availability_zone",
        "availability-zone",
        "cloud.availability_zone",
        "topology_kubernetes_io_zone",
    ),
}
"""By what they say, the most telling first: a service that fails in only one version is
identified by that, and one pod of it before the node it happens to run on. Prometheus' own label
`instance` is whatever it scrapes."""


def parts_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The parts that a series is of, by the name of their kind."""
    values_by_kind = {}
    for kind, names in PART_LABELS.items():
        value = next((labels[name] for name in names if labels.get(name)), None)
        if value is not None:
            values_by_kind[kind] = value
    return values_by_kind


PEER = "peer"
"""The label in which the rows of a caller's calls name the callee, once it is known by name."""
