"""What would have to be known for an answer: what could change it, the most telling first, and what
to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import polars as pl

from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.case.folder import Case
from faultline.analysis.case.gap_groups import GapGroup, grouped
from faultline.analysis.case.windows import log_windows, metric_windows, span_windows
from faultline.analysis.kinds.finding_kinds import (
    ALERT_QUERY_GONE,
    LOG_NEW,
    LOG_SURGE,
    METRIC_SHIFT,
    TRACES_INCONCLUSIVE,
)
from faultline.analysis.metrics.alert_history import STOPPED
from faultline.analysis.metrics.alert_threshold import read_threshold
from faultline.analysis.requests.topology import Topology, case_calls
from faultline.analysis.vocabulary import Cause, Finding, Gap
from faultline.analysis.wording.amounts import SECONDS, amount
from faultline.analysis.wording.phrases import listed, number, plain, rounded

INCONCLUSIVE = TRACES_INCONCLUSIVE.name
ALERT_QUERY_SOURCE = "alert query"
"""The source of a gap where no server could be asked."""
MOST = 6
SUSPECTS = 3
TELLS = {
    "metrics": 1.0,
    "spans": 0.9,
    "logs": 0.8,
    "changes": 0.6,
    "states": 0.4,
    "topology": 0.4,
    "monitors": 0.3,
    "alert": 0.3,
    "traces": 0.2,
}
"""How much one kind of evidence tells about a cause: the order of what carries the recorded faults
(a training job's traces tell as much as its metrics)."""
TRACES_OF_A_JOB = 1.0
COVERED_ELSEWHERE = 0.25
"""A gap in a kind that another source gave matters a quarter, unless it is about the alerting
service or a suspect."""
MATTERS = 0.3
HOW_TO_GET = {
    "metrics": "metrics of the affected services over the incident and a baseline before it",
    "spans": "spans of the affected requests over the incident and a baseline before it",
    "logs": "logs of the affected services over the incident and a baseline before it",
}
ADVICE = (
    (
        r"permi|denied|forbidden|unauthori[sz]ed|credential|\b40[13]\b|not allowed",
        "Give {source} the right to read them",
    ),
    (
        r"limit|budget|too (many|much|large)|bytes|throttl|\b429\b",
        "Ask for fewer services or a shorter window",
    ),
    (
        r"not set|not configured|does not say|no \S+ is set|not usable",
        "Name what is missing in the settings",
    ),
    (r"not found|no such|\b404\b|there is no|is called", "Check the name that {source} has for it"),
    (
        r"no answer|time[d ]?\s?out|deadline|unreach|refused|reset|\b5\d\d\b",
        "Check that {source} can be reached, and ask again",
    ),
)
"""What to do by the words of the reason; the first that fits."""


def comparable(case: Case) -> set[str]:
    """The tables that have rows in both the baseline and the incident window."""
    tables = {
        "metrics": (case.metrics.filter(pl.col("value").is_finite()), metric_windows, "time"),
        "logs": (case.logs, log_windows, "time"),
        "spans": (case.spans, span_windows, "start"),
    }
    names = set()
    for name, (table, windows_of, time) in tables.items():
        if table.height and windows_of(case).both_in(table, time):
            names.add(name)
    return names


def has_service_rows(case: Case) -> bool:
    """Whether any row that was collected is about the alerting service; true for an alert that
    names none."""
    service = case.alert.service
    if service is None or case.trace_files:
        # Traces are about ranks, which the alert does not name as its service.
        return True
    tables = (case.metrics, case.logs, case.spans)
    return any((table["service"] == service).any() for table in tables)


def missing_evidence(
    case: Case, compared: set[str], findings: Sequence[Finding] = (), causes: Sequence[Cause] = ()
) -> tuple[str, ...]:
    """At most six entries, the most telling first: about the alert's own signal, then gaps, then
    kinds never asked."""
    sentences = list(_about_the_alert(case, compared, findings))
    weights = {gap.id: _weight(case, gap, compared, causes) for gap in case.gaps}
    # What the alert's own query lacks is said first, by itself.
    other_gaps = [gap for gap in case.gaps if gap.kind != "alert_query"]
    telling = [gap for gap in other_gaps if weights[gap.id] >= MATTERS]
    telling.sort(key=lambda gap: -weights[gap.id])
    weighed = [(weights[group.gaps[0].id], _gap_sentence(group)) for group in grouped(telling)]
    weighed += _unqueried_kinds(case, compared)
    weighed.sort(key=lambda pair: -pair[0])
    sentences += [text for weight, text in weighed if weight >= MATTERS]
    if not case.scope.baseline and not compared:
        sentences.append("Needed: a baseline window from before the incident.")
    return tuple(dict.fromkeys(sentences))[:MOST]


def _unqueried_kinds(case: Case, compared: set[str]) -> Iterator[tuple[float, str]]:
    """The tables that could not be compared and have no known gap, with their weight."""
    gaps = {gap.kind for gap in case.gaps}
    for kind, text in HOW_TO_GET.items():
        # A training job has no spans.
        if kind == "spans" and case.trace_files:
            continue
        if kind not in compared and kind not in gaps:
            yield TELLS[kind], f"Needed: {text}."


def unshown(case: Case) -> str | None:
    """Said when the alert observed what the collected series does not show."""
    reading = read_threshold(case)
    if reading is None or reading.shown or reading.observed is None:
        return None
    name = f"{plain(case.alert.service or '')} {plain(case.alert.signal or '')}"
    return (
        f"The alert saw {number(rounded(reading.observed))}, and the collected {name} never comes "
        "near it: "
        "ask for it with the monitor's own resolution and aggregation."
    )


def _about_the_alert(case: Case, compared: set[str], findings: Sequence[Finding]) -> Iterator[str]:
    for gap in case.gaps:
        # Whatever else was collected, what fired was not looked at.
        if gap.kind == "alert_query":
            source = "" if gap.source == ALERT_QUERY_SOURCE else f" from {plain(gap.source, 60)}"
            reason = plain(gap.reason, 200).rstrip(".")
            yield f"No answer to the alert's own query{source}: {reason}."
    for finding in findings:
        if finding.kind in (STOPPED, INCONCLUSIVE, ALERT_QUERY_GONE.name):
            yield f"{finding.sentence.rstrip('.')}. {finding.details.fix or ''}".rstrip()
    if compared and not has_service_rows(case):
        service = plain(case.alert.service or "")
        yield f"Nothing that was collected is about {service}, which alerts."
    sentence = unshown(case)
    if sentence is not None:
        yield sentence


def _weight(case: Case, gap: Gap, compared: set[str], causes: Sequence[Cause]) -> float:
    """How much the missing item could tell."""
    tells = TELLS.get(gap.kind, 0.0)
    if gap.kind == "traces" and (case.trace_files or case.scope.job or case.alert.job):
        tells = TRACES_OF_A_JOB
    # Whether another source gave this kind of evidence.
    kind = gap.kind
    tables = {"changes": case.changes, "topology": case.topology, "monitors": case.monitors}
    is_covered = tables[kind].height > 0 if kind in tables else kind in compared
    if is_covered and not _concerns(case, gap, causes):
        return tells * COVERED_ELSEWHERE
    return tells


def _concerns(case: Case, gap: Gap, causes: Sequence[Cause]) -> bool:
    """Whether the gap is about the alerting service or one of the first suspects."""
    names = [cause.subject for cause in causes[:SUSPECTS]]
    if case.alert.service is not None:
        names.append(case.alert.service)
    query = gap.query.casefold()
    return any(name.casefold() in query for name in names)


def _gap_sentence(group: GapGroup) -> str:
    source = plain(group.source, 40)
    are = "is" if group.kinds in (("topology",), ("alert",)) else "are"
    reason = plain(group.reason, 160).rstrip(".")
    sentence = f"{listed(group.kinds)} from {source} {are} missing: {reason}."
    for words, advice in ADVICE:
        # Reasons are foreign text of any length: search a bounded part of it.
        if re.search(words, group.reason[:1000], re.IGNORECASE):
            return f"{sentence} {advice.format(source=source)}."
    return sentence


# What is said where the sources hold little from before the incident, or nothing.

BEGIN_WITH_DATA = frozenset({METRIC_SHIFT.name, LOG_NEW.name, LOG_SURGE.name})
"""What begins wherever the data does: nothing was counted before, and every line is new."""
FIRST_SAMPLES = timedelta(minutes=2)
"""Sources of one system begin within a few intervals of each other."""


def without_first_samples(case: Case, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, but for those that begin when the data does, where there is nothing to compare
    with."""
    since = case.scope.data_since
    if since is None or not has_no_past(case):
        return list(findings)

    def is_first(finding: Finding) -> bool:
        began = finding.onset
        return began is not None and began <= since + FIRST_SAMPLES

    return [
        finding
        for finding in findings
        if finding.kind not in BEGIN_WITH_DATA or not is_first(finding)
    ]


def has_no_past(case: Case) -> bool:
    """Whether the sources began so late that the windows could not be fitted to what they hold."""
    since = case.scope.data_since
    # A window that could be moved to what the sources hold begins no earlier than they do.
    return since is not None and bool(case.scope.baseline) and case.scope.baseline[0].start < since


def short_history(case: Case) -> str | None:
    """One sentence; None where there is enough to compare with, or nobody knows since when there is
    data."""
    since, began = case.scope.data_since, case.alert.started_at
    if since is None or not case.scope.baseline:
        return None
    begins = f"The data begins at {_clock(since, began)} UTC"
    baseline = case.scope.baseline[0]
    if since >= began:
        return (
            f"{begins}, after the incident: nothing shows what was normal before it. If it began "
            "later, say when."
        )
    if baseline.start < since:
        before = amount((began - since).total_seconds(), SECONDS)
        return (
            f"{begins}, only {before} before the incident: too little to know what is normal. Ask "
            "again about a later time."
        )
    return f"{begins}, so what is normal is known from {amount(baseline.seconds, SECONDS)} alone."


def _clock(time: datetime, near: datetime) -> str:
    """The time of day, with the date where that is another one."""
    return f"{time:%H:%M}" if time.date() == near.date() else f"{time:%Y-%m-%d %H:%M}"


# The sentence for a case where nothing, or only the past, shows the alerting service's calls.

DAY_S = 86_400
HOUR_S = 3_600


def unknown_calls(case: Case, service: str | None, graph: Topology) -> str | None:
    """One sentence; None where calls of the service are known, or nobody
    asks for them. `graph` holds besides the known calls those that metrics and failing lines
    name."""
    if service is None or not _matter(case):
        return None
    name = plain(service)
    edges = {edge for edge in graph.edges if service in edge}
    if not edges:
        return f"Who calls {name}, and whom it calls, is not known."
    learned = [call for call in case_calls(case) if call.learned_in and service in call.pair]
    if edges - {call.pair for call in learned}:
        return None
    return (
        f"Who calls {name} and whom it calls is known from earlier investigations alone"
        f"{_age(case, learned)}: it may have changed since."
    )


def _matter(case: Case) -> bool:
    """Whether calls matter, and no gap says already why they are missing."""
    is_training = case.trace_files or case.scope.job or case.alert.job
    return not is_training and not any(gap.kind == "topology" for gap in case.gaps)


def _age(case: Case, calls: Sequence[ServiceCall]) -> str:
    times = [call.last_seen for call in calls if call.last_seen is not None]
    if not times:
        return ""
    return f", last {_ago((case.scope.incident.end - max(times)).total_seconds())} ago"


def _ago(seconds: float) -> str:
    count, unit = round(seconds / DAY_S), "day"
    if seconds < DAY_S:
        count, unit = max(1, round(seconds / HOUR_S)), "hour"
    return f"{count} {unit}{'' if count == 1 else 's'}"
