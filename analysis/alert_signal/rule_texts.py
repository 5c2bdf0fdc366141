"""What any reader of alert rules needs, whatever the rule's language: where alerts carry their
rule, what a title says, and the class of a signal by words.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from faultline.analysis.kinds.signals import AlertQuery, Comparison, QueryLanguage, SignalClass

# Where alerts carry the rule that sent them: links to Prometheus and Grafana, and Alertmanager's
# notes in other tools' alerts.
#
# A `generatorURL` of Prometheus holds the expression as `g0.expr` of its query; VictoriaMetrics and
# Thanos do the same, some of them behind `#`. Grafana's links to Explore hold it in JSON.

LONGEST_URL = 16_384
_LOGQL = re.compile(r"\}\s*(?:\|[=~]|!=|!~|\|\s*\w)")
_EXPRESSION = re.compile(r'"expr"\s*:\s*("(?:[^"\\]|\\.)*")')
_URL = re.compile(r"https?://[^\s<>|\"]{1,8000}")
_ENTRY = re.compile(r"(?:^|\s)-\s([A-Za-z_]\w{0,127})\s=\s")
LABELS, ANNOTATIONS, SOURCE = "Labels:", "Annotations:", "Source:"
"""Headings of Alertmanager's default text (its template `__text_alert_list`)."""


@dataclass(frozen=True)
class AlertmanagerNote:
    """The first alert of a text in Alertmanager's default form, as PagerDuty and others get it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    query: AlertQuery | None = None


def query_of_url(url: str) -> AlertQuery | None:
    """The expression that a link to a rule or a graph shows."""
    # Links come with foreign text: do not parse any length.
    if len(url) > LONGEST_URL:
        return None
    try:
        # urlsplit raises ValueError for hosts such as `[`.
        parts = urlsplit(url)
    except ValueError:
        return None
    for query_string in (parts.query, parts.fragment.rpartition("?")[2]):
        parameters = parse_qs(query_string)
        for expression in parameters.get("g0.expr", []):
            return query_of_expression(expression)
        for explored in (*parameters.get("left", []), *parameters.get("panes", [])):
            query = query_of_expression(expression_in_json(explored))
            if query is not None:
                return query
    return None


def expression_in_json(text: str) -> str:
    """The first `expr` in the JSON of Grafana's queries; "" where there is none."""
    match = _EXPRESSION.search(text)
    if match is None:
        return ""
    try:
        return str(json.loads(match[1]))
    except ValueError:
        return ""


def query_of_expression(text: str) -> AlertQuery | None:
    """An expression of a rule, in PromQL unless it can only be LogQL."""
    text = text.strip()
    if not text:
        return None
    language: QueryLanguage = "logql" if _LOGQL.search(text) else "promql"
    return AlertQuery(language=language, text=text)


def queries_in(text: str) -> Iterator[AlertQuery]:
    """The expressions that the links of a text hold."""
    for match in _URL.finditer(text):
        query = query_of_url(match[0])
        if query is not None:
            yield query


def alertmanager_note(text: str) -> AlertmanagerNote | None:
    """The first alert of a text as Alertmanager's default template writes it, in lines or on one
    line; None where there is none."""
    _, begins, rest = text.partition(LABELS)
    before, ends, after = rest.partition(SOURCE)
    if not begins or not ends:
        return None
    labels, _, annotations = before.partition(ANNOTATIONS)
    source = after.split(maxsplit=1)
    return AlertmanagerNote(
        labels=_entries(labels),
        annotations=_entries(annotations),
        query=query_of_url(source[0]) if source else None,
    )


def _entries(text: str) -> dict[str, str]:
    # The pieces are what stands before the first name, then names and values in turn.
    _, *pieces = _ENTRY.split(text)
    values = (value.strip() for value in pieces[1::2])
    return dict(zip(pieces[::2], values, strict=True))


# What people write into titles and descriptions: a quantile, a threshold, a window.

_QUANTILE = re.compile(
    r"(?i)\bp(50|75|90|95|99|99\.9|999)\b"
    r"|\b(50|75|90|95|99|99\.9)(?:th|%)?[ -]?(?:percentile|quantile|pctl)"
)
_ABOVE = r"above|over|exceed(?:s|ed|ing)?|greater than|more than|higher than|at least|>=?|≥"
_BELOW = r"below|under|less than|lower than|fewer than|dropped to|<=?|≤"
_UNIT = (
    r"%|percent|ms|milliseconds?|s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?|[KMGT]i?B|bytes"
    r"|/s|rps|qps"
)
_THRESHOLD = re.compile(
    rf"(?i)(?:(?P<above>{_ABOVE})|(?P<below>{_BELOW}))\s*(?:the threshold of\s*|of\s*)?"
    rf"(?P<number>\d+(?:[.,]\d+)*)\s*(?P<unit>(?:{_UNIT})(?![a-z]))?"
)
_WINDOW = re.compile(
    r"(?i)\b(?:for|in|over|within|during|past|last)\s+(?:the\s+)?"
    r"(?:last\s+|past\s+|at least\s+|more than\s+)?"
    r"(?P<count>\d{1,4})\s*(?P<unit>s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?)\b"
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def quantile_in(text: str) -> float | None:
    """The quantile that a text names: 0.99 for "p99" and "99th percentile"."""
    match = _QUANTILE.search(text)
    if match is None:
        return None
    digits = match[1] or match[2]
    return 0.999 if digits == "999" else round(float(digits) / 100, 4)


def threshold_in(text: str) -> tuple[Comparison, float, str | None] | None:
    """Comparison, number and unit of a text such as "p99 above 500 ms"."""
    match = _THRESHOLD.search(text)
    if match is None:
        return None
    comparison: Comparison = ">" if match["above"] else "<"
    unit = match["unit"]
    if unit and unit.lower() == "percent":
        unit = "%"
    # A comma separates thousands.
    return comparison, float(match["number"].replace(",", "")), unit


def without_threshold(text: str) -> str:
    """The text without what it is compared with: "above 500 ms" tells of no status 500."""
    return _THRESHOLD.sub(" ", text)


def window_in(text: str) -> float | None:
    """Seconds of a text such as "for 5 minutes"."""
    match = _WINDOW.search(text)
    if match is None:
        return None
    # The first letter tells the units apart: months are not matched.
    return float(match["count"]) * _SECONDS[match["unit"][0].lower()]


# What any reader of rules finds in a rule, whatever its language.


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
    r"(?i)^(?:.*[-_/])?(kube-?state-?metrics|ksm|kubelet|cadvisor|pushgateway|blackbox|snmp"
    r"|node[-_ ]?exporter|(?:otel|opentelemetry)[-_]?collector)$"
    r"|^(advisor|node|.*[-_]exporter|blackbox.*|federate|grafana-(agent|alloy)(-.*)?|longhorn-.*"
    r"|kubernetes-(pods|nodes|cadvisor|service-endpoints)"
    r"|integrations/(unix|node_exporter|kubernetes/.*))$"
)
"""With what a Helm release puts before them."""
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


# The class of a signal by words: of a metric's name with its selectors, of a title, of a sentence.
#
# Rules differ from the series that a case holds: their names come with the selectors that decide
# what is counted (`code=~"5.."`), and their titles are written by people. Stronger words come
# first: "disk read errors" are about a disk, "failed backups" about a job.

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
LONGEST_TEXT = 600
"""Characters of a text that are looked at: rules say what they are about in their first words."""


def _patterns() -> Iterator[tuple[SignalClass, re.Pattern[str]]]:
    text = Path(__file__).with_name("signal_words.toml").read_text()
    for entry in tomllib.loads(text)["words"]:
        words = "|".join(entry["any"])
        yield SignalClass(entry["of"]), re.compile(rf"_(?:{words})(?=_)")


_PATTERNS = tuple(_patterns())
"""Class and words, the strongest first."""


def class_of(text: str) -> SignalClass:
    """The class that the text's strongest word speaks of; OTHER where none is known."""
    return next(classes_of(text), SignalClass.OTHER)


def classes_of(text: str) -> Iterator[SignalClass]:
    """Every class that the text speaks of, the strongest word first."""
    words = normalized(text)
    for signal_class, pattern in _PATTERNS:
        if pattern.search(words):
            yield signal_class


def says(text: str, signal_class: SignalClass) -> bool:
    """Whether any word of the text is about the class."""
    return signal_class in classes_of(text)


@lru_cache(maxsize=1024)
def normalized(text: str) -> str:
    """The words in small letters, each between two underscores."""
    apart = _CAMEL.sub("_", text[:LONGEST_TEXT]).lower()
    return f"_{_SEPARATORS.sub('_', apart).strip('_')}_"
