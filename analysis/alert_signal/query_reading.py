"""What any reader of rules finds in a rule, whatever its language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from faultline.analysis.kinds.watched_signals import Comparison


@dataclass(frozen=True)
class MetricSelection:
    """A metric and what is selected of its series: label to value, texts that name one value
    apart from patterns."""

    metric: str
    equal: Mapping[str, str] = field(default_factory=dict)
    alike: Mapping[str, str] = field(default_factory=dict)
    """Label to a regular expression that may match several values."""

    @property
    def words(self) -> str:
        """The metric's name with the values that decide what is counted."""
        values = [_DOMAIN.sub("", self.metric)]
        for label, value in (*self.equal.items(), *self.alike.items()):
            # "job" and the like say where something is measured, not what.
            if label not in _WHOSE:
                values.append(f"{label} {value}" if label in _TELLING else value)
        return _CODES.sub(r"\1xx", " ".join(values))


@dataclass(frozen=True)
class QueryReading:
    """A rule's query, taken apart.

    `measured` are the metrics above the line of a ratio, `divisors` those below. `grouped` are
    the labels that an alert keeps: None means all, an empty tuple none.
    """

    measured: tuple[MetricSelection, ...] = ()
    divisors: tuple[MetricSelection, ...] = ()
    functions: frozenset[str] = frozenset()
    quantile: float | None = None
    complement: bool = False
    """One minus something: what is left of it."""
    since: bool = False
    """The clock minus a time stamp: how long ago something was."""
    until: bool = False
    """A time stamp minus the clock: how long something still lasts."""
    percent: bool = False
    """A share that is multiplied by 100."""
    grouped: tuple[str, ...] | None = None
    comparison: Comparison | None = None
    threshold: float | None = None
    window_s: float | None = None


_WHOSE = frozenset(
    {
        "job", "instance", "namespace", "cluster", "pod", "container", "service", "app", "env",
        "environment", "region", "zone", "host", "node", "team", "project", "project_id",
        "monitored_resource", "handler", "route", "le", "location", "cluster_name",
        "namespace_name", "service_name", "service_namespace", "deployment_environment_name",
        "job_name", "device", "fstype", "mountpoint", "topic", "consumergroup", "group",
    }
)  # fmt: skip
_TELLING = frozenset({"condition", "code", "status_code"})
"""Labels whose own name adds a word to their value."""

_DOMAIN = re.compile(r"^\w+[._]googleapis[._]com[:/]")
"""What Google puts before the names of metrics."""
_CODES = re.compile(
    r"(?<![\w.])\^?\[?([45])5?\]?(?:\.[.*+]|\\d\\d|\[0-9\](?:\[0-9\]|\{2\})|\d\d\b)\$?"
)
"""How rules write all HTTP statuses of one kind: `5..`, `5.*`, `5[0-9]{2}`."""
_EXPORTERS = re.compile(
    r"(?i)^(kube-?state-?metrics|kubelet|c?advisor|node([-_ ]?exporter)?|.*[-_]exporter"
    r"|kubernetes-(pods|nodes|cadvisor|service-endpoints)|blackbox.*|integrations/(unix|node_exporter"
    r"|kubernetes/.*)|federate|pushgateway|otel-collector|ksm)$"
)
_PATTERN = re.compile(r"[\[\](){}|*+?^$\\]|\.[*+?]")


def is_exporter(name: str) -> bool:
    """Whether a name is of an exporter, which measures others: its own name says nothing about
    whose signal it is."""
    return _EXPORTERS.match(name) is not None


def single_value(pattern: str) -> str | None:
    """The one value that a regular expression matches, where it is plain text."""
    # Prometheus anchors every pattern itself, so anchors say nothing.
    inner = pattern.removeprefix("^").removesuffix("$").replace("\\.", ".")
    if not inner or ".." in inner or _PATTERN.search(inner):
        return None
    return inner


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def duration_s(text: str) -> float | None:
    """Seconds of a duration such as "1h30m"; None for what is none."""
    if not re.fullmatch(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+", text):
        return None
    return sum(float(count) * _UNITS[unit] for count, unit in _DURATION.findall(text)) or None
