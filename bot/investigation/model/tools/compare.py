"""`compare`: the parts of a service beside each other: its pods, zones, versions, hosts, ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import polars as pl
from pydantic import Field

from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.kinds.part_labels import PART_LABELS
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import levels, times
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.model.bench import Bench
from faultline.bot.investigation.model.tools.found import (
    Arguments,
    Found,
    NotFound,
    Row,
    Tool,
    first_of,
    from_evidence,
    known_service,
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


async def compare(bench: Bench, asked: CompareArguments) -> Found:
    """Each part with its own baseline and the median of the others, the most different first."""
    service = known_service(bench, asked.service) if asked.service else None
    rows, by = await in_thread(_compared, bench, asked, service)
    shown, cut = first_of(rows, "narrow with signal, service or by")
    return Found(shown, from_evidence(bench.case.evidence, "metrics"), f"by {by}", cut)


def _compared(bench: Bench, asked: CompareArguments, service: str | None) -> tuple[list[Row], str]:
    metrics = bench.case.metrics
    name = pl.col("signal").str.to_lowercase()
    metrics = metrics.filter(name.str.contains(asked.signal.lower(), literal=True))
    if service is not None:
        metrics = metrics.filter(pl.col("service") == service)
    exact = metrics.filter(pl.col("signal") == asked.signal)
    found = summaries(bench.case, exact if exact.height else metrics)
    if not found:
        raise NotFound("no such signal; `data` and `series` name those that there are")
    by = _by(found, asked.by) if service is not None or asked.by else "service"
    rows: list[tuple[float, Row]] = []
    groups: dict[tuple[str, str], list[SeriesSummary]] = defaultdict(list)
    for one in found:
        groups[one.signal, one.unit or ""].append(one)
    for parts in groups.values():
        rows += _beside_others(bench, parts, by)
    if not rows:
        raise NotFound(f"fewer than two parts by {by} have points in the incident")
    rows.sort(key=lambda row: -row[0])
    return [row for _, row in rows], by


def _by(found: Sequence[SeriesSummary], asked: str | None) -> str:
    """The label by which the series differ: the one that was asked for, or the one with most
    values."""
    values: dict[str, set[str]] = defaultdict(set)
    for series_summary in found:
        for label, value in labels_in(series_summary.labels).items():
            values[label].add(value)
    several = {n: own for n, own in values.items() if len(own) > 1 and n not in NO_PLACES}
    if asked is not None:
        known = [label for label in (*PART_LABELS.get(asked, ()), asked) if label in several]
        if known:
            return known[0]
        there = short_names(several) or "none"
        raise NotFound(f"the series do not differ by {asked}; labels that differ: {there}")
    if not several:
        raise NotFound("the series have no labels that differ: there are no parts to compare")
    return max(sorted(several), key=lambda label: len(several[label]))


def _beside_others(
    bench: Bench, series: Sequence[SeriesSummary], by: str
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
    for value, one in parts:
        others = [float(o.now) for v, o in parts if v != value and o.now is not None]
        elsewhere = float(np.median(others))
        finding, away = _finding(bench, one, by, value, elsewhere)
        rows.append((away, Row(finding.sentence, finding=finding)))
    return rows


def _finding(
    bench: Bench, one: SeriesSummary, by: str, value: str, elsewhere: float
) -> tuple[Finding, float]:
    here = one.now if one.now is not None else 0.0
    shown_here, shown_elsewhere = levels(here, elsewhere, one.shown_unit)
    phrase = f"{plain(one.service)} {plain(one.signal)}, {plain(by, 40)} {plain(value, 80)}: "
    phrase += f"{shown_here} here, {shown_elsewhere} at the others"
    numbers = one.numbers | {"here": here, "elsewhere": elsewhere}
    away = abs(here - elsewhere)
    if here > 0 and elsewhere > 0:
        numbers["times_the_others"] = here / elsewhere
        phrase += f" ({times(here / elsewhere)})"
        away = abs(float(np.log(here / elsewhere)))
    finding = observation(
        one.service,
        one.signal,
        f"{phrase}; it {one.moved()}.",
        ObservationDetails(
            about="comparison",
            direction=one.direction,
            departed=one.departed if one.departure is not None else None,
            unit=one.unit,
            labels=labels_in(one.labels) or {by: value},
        ),
        evidence=bench.case.evidence_ids("metrics"),
        numbers=numbers,
        onset=one.departure.onset if one.departed and one.departure is not None else None,
        series=one.place,
    )
    return finding, away


def _offered(bench: Bench) -> bool:
    """Whether some signal has several series."""
    metrics = bench.case.metrics
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
