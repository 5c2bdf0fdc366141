"""Facts about what runs below services, from what exporters measure.

A disk that has been full all along has no change point: a level is judged by a threshold, each from
a published alert rule (exporter_metrics.toml names it).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

from faultline.analysis.alert_signal.subjects import workload
from faultline.analysis.vocabulary import Window
from faultline.analysis.wording.amounts import SECONDS, amount
from faultline.analysis.wording.phrases import number
from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.prometheus.exporter_metrics import ExporterMetric
from faultline.connectors.vendors.prometheus.exporter_queries import ExporterAnswer
from faultline.connectors.vendors.prometheus.promql import PromQuery
from faultline.connectors.vendors.prometheus.series import PrometheusSeries, subject_of

LEAST_POINTS = 2
"""One point beyond a threshold is as often a scrape that came late."""
STILL_STEPS = 3
"""What was beyond within that many steps of the end is so still."""
MOST_GAP_STEPS = 5
"""A value that dips for fewer steps has not left in between."""
PERSISTENT_SHARE = 0.5
"""What was beyond for half of the incident counts, though it is over."""
USED_UP = 0.999
MOST_FACTS = 500
"""Of one entry."""
EXPIRED = "certificate_expired"
PROBES_FAILING = "probes_failing"
_SECOND_LEVEL = frozenset({"ac", "co", "com", "edu", "gov", "net", "org"})
_INTERNAL = frozenset({"cluster", "corp", "internal", "lan", "local", "localdomain", "svc", "test"})
DAY_S = 86_400
LONGEST_DAYS = 10_000
_NAMED_BY_OWNER = ("service", "container", "database", "queue", "resolver")


@dataclass(frozen=True)
class OwnerInTrouble:
    """An owner whose value is beyond the threshold, and the points at which it is."""

    answer: ExporterAnswer
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]
    """(time in s, value), until the incident's end."""
    since: datetime | None
    """When the last stretch beyond began; None where it was so when the data begin."""

    @property
    def name(self) -> str:
        """Whose value it is. Many containers are called `app` or `server`: their pod tells more."""
        name = subject_of(self.labels, self.answer.selection.query)
        if self.pod and self.answer.metric.owner == "container":
            return workload("container", {"container": name, "pod": self.pod})
        return name

    @property
    def pod(self) -> str:
        """The pod of a container; "" where the value is of all its pods."""
        return self.labels.get("exported_pod") or self.labels.get("pod") or ""


def in_trouble(
    answers: Iterable[ExporterAnswer], first: Window, incident: Window
) -> list[OwnerInTrouble]:
    """Every owner beyond a threshold in the incident. `first` is the first window that was
    asked."""
    troubles: list[OwnerInTrouble] = []
    for answer in answers:
        if answer.metric.beyond is None or answer.metric.users:
            continue
        owners = []
        answer_series = answer.selection.series
        if answer.metric.fact == PROBES_FAILING:
            answer_series = of_other_companies(answer_series, answer.selection.query)
        for series in answer_series:
            points = _beyond_points(answer.metric, series, incident.end.timestamp())
            has_name = bool(subject_of(series.metric, answer.selection.query))
            if points and has_name and _holds(answer, points, series, incident):
                since = _since(answer, points, first)
                owners.append(OwnerInTrouble(answer, series.metric, points, since))
        troubles += owners[:MOST_FACTS]
    return troubles


def of_other_companies(
    series: Sequence[PrometheusSeries], query: PromQuery
) -> list[PrometheusSeries]:
    """The probes of hosts that nobody else among them shares a domain with. A company probes many
    of its hosts, which fail with its services, and few of each of those that it depends on."""
    domains: dict[str, set[str]] = {}
    for each in series:
        host = subject_of(each.metric, query)
        domains.setdefault(_domain(host), set()).add(host)
    alone = {domain for domain, hosts in domains.items() if domain and len(hosts) == 1}
    return [each for each in series if _domain(subject_of(each.metric, query)) in alone]


def _domain(host: str) -> str:
    """The domain that somebody registered; "" for addresses and names inside a network."""
    labels = host.lower().rstrip(".").split(".")
    if len(labels) < 2 or labels[-1] in _INTERNAL or labels[-1].isdigit() or ":" in host:
        return ""
    is_national = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    return ".".join(labels[-3:] if is_national else labels[-2:])


def owner_names(answers: Iterable[ExporterAnswer]) -> set[str]:
    """The names of services, containers and stores that have series."""
    return {
        subject_of(series.metric, answer.selection.query)
        for answer in answers
        if answer.metric.owner in _NAMED_BY_OWNER
        for series in answer.selection.series
    }


def fact_rows(
    troubles: Iterable[OwnerInTrouble],
    services: Collection[str],
    running: Mapping[str, Collection[str]],
) -> list[StateRow]:
    """A row per owner; of a node one for each service that runs there."""
    rows: list[StateRow] = []
    for trouble in troubles:
        row, metric = _row(trouble), trouble.answer.metric
        if metric.owner == "node":
            there = sorted(running.get(trouble.name, ()))
            rows += [row._replace(service=service) for service in there] or [row]
            continue
        service = service_in(trouble.name, services)
        if metric.owner in _NAMED_BY_OWNER or metric.fact == PROBES_FAILING:
            service = service or short(trouble.name, 120)
        rows.append(row._replace(service=service))
    expired = {(row.kind, row.name) for row in rows if row.fact == EXPIRED}
    remaining_rows = []
    for row in dict.fromkeys(rows):
        if row.fact != "certificate_expires_soon" or (row.kind, row.name) not in expired:
            remaining_rows.append(row)
    return remaining_rows


def _beyond_points(
    metric: ExporterMetric, series: PrometheusSeries, until: float
) -> list[tuple[float, float]]:
    points = []
    for at, text in series.values:
        try:
            value = float(text)
        except ValueError:
            continue
        if metric.is_beyond(value) and 0 <= at <= until and math.isfinite(value):
            points.append((at, value))
    return points


def _holds(
    answer: ExporterAnswer,
    points: Sequence[tuple[float, float]],
    series: PrometheusSeries,
    incident: Window,
) -> bool:
    start, end = incident.start.timestamp(), incident.end.timestamp()
    times = [at for at, _ in points if at >= start]
    if answer.metric.holds == "once":
        return bool(times)
    if len(times) < LEAST_POINTS:
        return False
    step_s = answer.selection.step_s
    # Where only values beyond the threshold were asked, a missing sample means that it is over.
    last_s = end if answer.beyond_only else min(end, series.values[-1][0])
    is_still = times[-1] >= last_s - STILL_STEPS * step_s
    return is_still or len(times) * step_s >= PERSISTENT_SHARE * incident.seconds


def _row(trouble: OwnerInTrouble) -> StateRow:
    answer, labels = trouble.answer, trouble.labels
    metric = answer.metric
    last, value = trouble.points[-1]
    since = trouble.since
    if metric.fact == EXPIRED and abs(value) < LONGEST_DAYS:
        # The moment of expiry is known, however long it was watched.
        since = datetime.fromtimestamp(last, UTC) + timedelta(seconds=value * DAY_S)
    words = {
        "value": number(value, 3),
        "percent": f"{number(100 * value, 3)} %",
        "left": f"{number(value, 2)} days" if value >= 2 else f"{number(24 * value, 2)} h",
    }
    text = re.sub(r"\{(\w+)\}", lambda m: words.get(m[1]) or labels.get(m[1], ""), metric.says)
    if metric.holds == "once":
        text = _with_recurrence(text, trouble)
    namespace = labels.get("exported_namespace") or labels.get("namespace")
    return StateRow(
        kind="Pod" if trouble.pod else metric.object_kind,
        name=short(trouble.pod or trouble.name, 120),
        fact=metric.fact or "",
        namespace=short(namespace, 100) if namespace else None,
        field=metric.signal,
        value=short(text, 200) if text else None,
        since=since,
        query=answer.selection.query.promql,
    )


def _with_recurrence(text: str, trouble: OwnerInTrouble) -> str:
    """An event's words, with how often it happened within the windows, and how far apart."""
    times = [at for at, _ in trouble.points]
    longest_gap = MOST_GAP_STEPS * trouble.answer.selection.step_s
    begins = times[:1] + [at for before, at in pairwise(times) if at - before > longest_gap]
    if len(begins) < 2:
        return text
    since = datetime.fromtimestamp(begins[0], UTC)
    words = f"{len(begins)} times since {since:%H:%M} UTC"
    if len(begins) > 2:
        apart = median(later - earlier for earlier, later in pairwise(begins))
        words += f", about every {amount(apart, SECONDS)}"
    return f"{words}; {text}" if text else words


def _since(
    answer: ExporterAnswer, points: Sequence[tuple[float, float]], first: Window
) -> datetime | None:
    times = [at for at, _ in points]
    if answer.metric.unit == "ratio" and points[-1][1] >= USED_UP:
        # What was almost used up for long does its harm when nothing is left.
        times = [at for at, value in points if value >= USED_UP]
    began = times[-1]
    # From the last one back, until a gap that is too long for a dip.
    for at in reversed(times):
        if began - at > MOST_GAP_STEPS * answer.selection.step_s:
            break
        began = at
    # Beyond since the data begin: it may have begun earlier.
    if began - first.start.timestamp() <= MOST_GAP_STEPS * answer.selection.step_s:
        return None
    return datetime.fromtimestamp(began, UTC)


def service_in(name: str, services: Iterable[str]) -> str | None:
    """The longest of these services' names that is a part of the name: `data-payments-db-0` is
    payments-db's."""
    parts = _parts(name)
    matching_services = [service for service in services if _is_within(_parts(service), parts)]
    return max(matching_services, key=len, default=None)


def _parts(name: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", name.lower())


def _is_within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    size = len(inner)
    starts = range(len(outer) - size + 1)
    return any(outer[start : start + size] == inner for start in starts)
