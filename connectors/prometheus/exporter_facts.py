"""Facts about what runs below services, from what exporters measure.

A disk that has been full all along has no change point: a level is judged by a threshold, each from
a published alert rule (exporter_metrics.toml names it).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from analysis.vocabulary import Window
from analysis.wording.phrases import number
from connectors.evidence_rows import StateRow
from connectors.prometheus.exporter_queries import ExporterAnswer
from connectors.prometheus.series import PrometheusSeries, subject_of
from connectors.vendor_text import short

LEAST_POINTS = 2
"""One point beyond a threshold is as often a scrape that came late."""
STILL_STEPS = 3
"""What was beyond within that many steps of the end is so still."""
MOST_GAP_STEPS = 5
"""A value that dips for fewer steps has not left in between."""
HELD_SHARE = 0.5
"""What was beyond for half of the incident counts, though it is over."""
MOST_FACTS = 500
"""Of one entry."""
EXPIRED = "certificate_expired"
DAY_S = 86_400
_NAMED_BY_OWNER = ("service", "container", "database", "queue")


def fact_rows(
    answers: Iterable[ExporterAnswer],
    spans: Sequence[Window],
    incident: Window,
    services: Collection[str],
    running: Mapping[str, Collection[str]],
) -> list[StateRow]:
    """A row per owner beyond its threshold; of a node one for each service that runs there."""
    rows: list[StateRow] = []
    for answer in answers:
        for series in beyond(answer, incident)[:MOST_FACTS]:
            name = subject_of(series.metric, answer.asked.query)
            row = _row(answer, series, name, spans, incident)
            for service in _services_of(answer, name, services, running):
                rows.append(row._replace(service=service))
    expired = {(row.kind, row.name) for row in rows if row.fact == EXPIRED}
    kept = []
    for row in dict.fromkeys(rows):
        if row.fact != "certificate_expires_soon" or (row.kind, row.name) not in expired:
            kept.append(row)
    return kept


def beyond(answer: ExporterAnswer, incident: Window) -> list[PrometheusSeries]:
    """The series of owners that are in trouble, by the entry's threshold."""
    if answer.metric.fact is None:
        return []
    return [one for one in answer.asked.series if _holds(answer, one, incident)]


def _holds(answer: ExporterAnswer, series: PrometheusSeries, incident: Window) -> bool:
    start, end = incident.start.timestamp(), incident.end.timestamp()
    times = [at for at, _ in _beyond_points(answer, series) if start <= at <= end]
    if answer.metric.holds == "once":
        return bool(times)
    if len(times) < LEAST_POINTS:
        return False
    step_s = answer.asked.step_s
    last_s = end if answer.beyond_only else min(end, series.values[-1][0])
    is_still = times[-1] >= last_s - STILL_STEPS * step_s
    return is_still or len(times) * step_s >= HELD_SHARE * incident.seconds


def _beyond_points(
    answer: ExporterAnswer, series: PrometheusSeries
) -> Iterator[tuple[float, float]]:
    for at, text in series.values:
        value = float(text)
        if math.isfinite(value) and answer.metric.is_beyond(value):
            yield at, value


def _row(
    answer: ExporterAnswer,
    series: PrometheusSeries,
    name: str,
    spans: Sequence[Window],
    incident: Window,
) -> StateRow:
    metric, labels = answer.metric, series.metric
    points = [p for p in _beyond_points(answer, series) if p[0] <= incident.end.timestamp()]
    last, value = points[-1]
    since = _since([at for at, _ in points], answer.asked.step_s, spans[0])
    if metric.fact == EXPIRED:
        # The moment of expiry is known, however long it was watched.
        since = datetime.fromtimestamp(last, UTC) + timedelta(seconds=value * DAY_S)
    said = _said(metric.says, value, labels)
    namespace = labels.get("exported_namespace") or labels.get("namespace")
    return StateRow(
        kind=metric.object_kind,
        name=short(name, 120),
        fact=metric.fact or "",
        namespace=short(namespace, 100) if namespace else None,
        field=metric.signal,
        value=short(said, 200) if said else None,
        since=since,
        query=answer.asked.query.promql,
    )


def _since(times: Sequence[float], step_s: float, first: Window) -> datetime | None:
    """When the last stretch beyond began; None where it was so when the data begin."""
    began = times[-1]
    for at in reversed(times):
        if began - at > MOST_GAP_STEPS * step_s:
            break
        began = at
    if began - first.start.timestamp() <= MOST_GAP_STEPS * step_s:
        return None
    return datetime.fromtimestamp(began, UTC)


def _said(says: str, value: float, labels: Mapping[str, str]) -> str:
    words = {
        "value": number(value, 3),
        "percent": f"{number(100 * value, 3)} %",
        "left": f"{number(value, 2)} days" if value >= 2 else f"{number(24 * value, 2)} h",
    }
    return re.sub(r"\{(\w+)\}", lambda m: words.get(m[1]) or labels.get(m[1], ""), says)


def _services_of(
    answer: ExporterAnswer,
    name: str,
    services: Collection[str],
    running: Mapping[str, Collection[str]],
) -> list[str | None]:
    owner = answer.metric.owner
    if owner == "node":
        return [*sorted(running.get(name, ()))] or [None]
    own = service_in(name, services)
    if own is None and owner in _NAMED_BY_OWNER:
        own = name
    return [own]


def service_in(name: str, services: Iterable[str]) -> str | None:
    """The longest of these services' names that is a part of the name: `data-payments-db-0` is
    payments-db's."""
    parts = _parts(name)
    found = [one for one in services if _is_within(_parts(one), parts)]
    return max(found, key=len, default=None)


def _parts(name: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", name.lower())


def _is_within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    size = len(inner)
    starts = range(len(outer) - size + 1)
    return any(outer[start : start + size] == inner for start in starts)
