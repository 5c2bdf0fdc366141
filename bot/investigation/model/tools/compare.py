"""`compare`: the parts of a service beside each other: its pods, zones, versions, hosts, ranks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import polars as pl
from pydantic import Field

from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.kinds.signals import PART_LABELS
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import levels, times
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    case_service,
    first_of,
    from_evidence,
    observation,
    short_names,
)
from faultline.bot.investigation.model.tools.metric_rows import SeriesSummary, labels_in, summaries
from faultline.bot.runtime.threads import in_thread

NO_PLACES = frozenset({"labels"})


class CompareArguments(Arguments):
    signal: str = Field(description="The signal's name, or a part of it.")
    service: str | None = Field(
        default=None, description="Whose parts to compare; null compares services or hosts."
    )
    by: str | None = Field(
        default=None,
        description="A label, or version, cluster, region, tenant, pod, instance, node or zone. "
        "Null: what tells the parts apart.",
    )


async def compare(model_session: ModelSession, arguments: CompareArguments) -> CallResult:
    """Each part with its own baseline and the median of the others, the most different first."""
    service = case_service(model_session, arguments.service) if arguments.service else None
    rows, by = await in_thread(_compared, model_session, arguments, service)
    shown, cut = first_of(rows, "narrow with signal, service or by")
    return CallResult(shown, from_evidence(model_session.case.evidence, "metrics"), f"by {by}", cut)


def _compared(
    model_session: ModelSession, arguments: CompareArguments, service: str | None
) -> tuple[list[Row], str]:
    metrics = model_session.case.metrics
    name = pl.col("signal").str.to_lowercase()
    metrics = metrics.filter(name.str.contains(arguments.signal.lower(), literal=True))
    if service is not None:
        metrics = metrics.filter(pl.col("service") == service)
    # An exact name wins over longer ones that contain it.
    exact = metrics.filter(pl.col("signal") == arguments.signal)
    series_summaries = summaries(model_session.case, exact if exact.height else metrics)
    if not series_summaries:
        raise InvalidCall("no such signal; `data` and `series` name those that there are")
    by = _by(series_summaries, arguments.by) if service is not None or arguments.by else "service"
    rows: list[tuple[float, Row]] = []
    groups: dict[tuple[str, str], list[SeriesSummary]] = defaultdict(list)
    for series_summary in series_summaries:
        # Only values of one unit can be compared.
        groups[series_summary.signal, series_summary.unit or ""].append(series_summary)
    for parts in groups.values():
        rows += _compare_parts(model_session, parts, by)
    if not rows:
        raise InvalidCall(f"fewer than two parts by {by} have points in the incident")
    rows.sort(key=lambda row: -row[0])
    return [row for _, row in rows], by


def _by(series_summaries: Sequence[SeriesSummary], requested_label: str | None) -> str:
    """The label by which the series differ: the one that was asked for, or the one with most
    values."""
    values: dict[str, set[str]] = defaultdict(set)
    for series_summary in series_summaries:
        for label, value in labels_in(series_summary.labels).items():
            values[label].add(value)
    several = {
        n: label_values
        for n, label_values in values.items()
        if len(label_values) > 1 and n not in NO_PLACES
    }
    if requested_label is not None:
        matching_labels = [
            label
            for label in (*PART_LABELS.get(requested_label, ()), requested_label)
            if label in several
        ]
        if matching_labels:
            return matching_labels[0]
        there = short_names(several) or "none"
        raise InvalidCall(
            f"the series do not differ by {requested_label}; labels that differ: {there}"
        )
    if not several:
        raise InvalidCall("the series have no labels that differ: there are no parts to compare")
    # Sorted: of labels with as many values, the same one wins in every run.
    return max(sorted(several), key=lambda label: len(several[label]))


def _compare_parts(
    model_session: ModelSession, series: Sequence[SeriesSummary], by: str
) -> list[tuple[float, Row]]:
    parts = []
    for series_summary in series:
        value = (
            series_summary.service if by == "service" else labels_in(series_summary.labels).get(by)
        )
        if value and series_summary.now is not None:
            parts.append((value, series_summary))
    if len({value for value, _ in parts}) < 2:
        return []
    rows = []
    for value, part in parts:
        other_levels = [float(o.now) for v, o in parts if v != value and o.now is not None]
        elsewhere = float(np.median(other_levels))
        finding, away = _finding(model_session, part, by, value, elsewhere)
        rows.append((away, Row(finding.sentence, finding=finding)))
    return [*_of_groups(model_session, parts, by), *rows]


def _of_groups(
    model_session: ModelSession, parts: Sequence[tuple[str, SeriesSummary]], by: str
) -> list[tuple[float, Row]]:
    """Where a zone or a version has several series, each as a whole: its median series."""
    by_value: dict[str, list[SeriesSummary]] = defaultdict(list)
    for value, part in parts:
        by_value[value].append(part)
    if by == "service" or max(map(len, by_value.values())) < 2:
        return []
    rows = []
    for value, group in by_value.items():
        here = float(np.median([part.now for part in group if part.now is not None]))
        elsewhere = [part.now for v, part in parts if v != value and part.now is not None]
        shown_here, shown_elsewhere = levels(here, float(np.median(elsewhere)), group[0].shown_unit)
        worse = sum(part.departed for part in group)
        services = {part.service for part in group}
        whose = f"{plain(group[0].service)} " if len(services) == 1 else ""
        phrase = (
            f"{whose}{plain(group[0].signal)}, all {len(group)} series of {plain(by, 40)} "
            f"{plain(value, 80)}: median {shown_here} here, {shown_elsewhere} at the others; "
            f"{worse} of them left their usual variation"
        )
        finding = observation(
            group[0].service if len(services) == 1 else value,
            group[0].signal,
            f"{phrase}.",
            ObservationDetails(about="comparison", unit=group[0].unit, labels={by: value}),
            evidence=model_session.case.evidence_ids("metrics"),
            numbers={"here": here, "elsewhere": float(np.median(elsewhere)), "departed": worse},
        )
        # Wholes before their parts.
        rows.append((math.inf, Row(phrase, finding=finding)))
    return rows


def _finding(
    model_session: ModelSession, part: SeriesSummary, by: str, value: str, elsewhere: float
) -> tuple[Finding, float]:
    here = part.now if part.now is not None else 0.0
    shown_here, shown_elsewhere = levels(here, elsewhere, part.shown_unit)
    other_labels = {k: v for k, v in labels_in(part.labels).items() if k != by}
    beside = f" ({', '.join(f'{k} {v}' for k, v in other_labels.items())})" if other_labels else ""
    phrase = f"{plain(part.service)} {plain(part.signal)}, {plain(by, 40)} {plain(value, 80)}"
    phrase += f"{beside}: "
    phrase += f"{shown_here} here, {shown_elsewhere} at the others"
    numbers = part.numbers | {"here": here, "elsewhere": elsewhere}
    away = abs(here - elsewhere)
    if here > 0 and elsewhere > 0:
        numbers["times_the_others"] = here / elsewhere
        phrase += f" ({times(here / elsewhere)})"
        # As logarithms, half and double are equally far away.
        away = abs(float(np.log(here / elsewhere)))
    finding = observation(
        part.service,
        part.signal,
        f"{phrase}; it {part.moved()}.",
        ObservationDetails(
            about="comparison",
            direction=part.direction,
            departed=part.departed if part.departure is not None else None,
            unit=part.unit,
            labels=labels_in(part.labels) or {by: value},
        ),
        evidence=model_session.case.evidence_ids("metrics"),
        numbers=numbers,
        onset=part.departure.onset if part.departed and part.departure is not None else None,
        series=part.place,
    )
    return finding, away


def _offered(model_session: ModelSession) -> bool:
    """Whether some signal has several series."""
    metrics = model_session.case.metrics
    if not metrics.height:
        return False
    several = metrics.group_by("signal").agg(pl.struct("service", "labels").n_unique().alias("n"))
    return bool((several["n"] > 1).any())


COMPARE = Tool(
    "compare",
    "A signal's parts beside each other: pods, zones, versions, hosts, ranks, or services.",
    CompareArguments,
    compare,
    _offered,
)
