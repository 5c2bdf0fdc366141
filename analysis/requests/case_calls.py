"""Every call between services that a case tells of: where it is known from, and when it was last
seen.

One pair of services is one call, whoever tells of it. What an earlier investigation learned counts
only where nothing collected now reports the pair, and never against the service catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from faultline.analysis.case.calls import (
    CATALOGUE,
    CLIENT_SPANS,
    METRIC_LABELS,
    NOT_RECORDED,
    SPANS,
    ServiceCall,
)
from faultline.analysis.case.folder import Case
from faultline.analysis.metrics.labels import labels_of
from faultline.analysis.requests.peers import peer_calls
from faultline.analysis.requests.visits import visits_of

LABELS = (
    ("client", "server"),
    ("source_workload", "destination_workload"),
    ("source_app", "destination_app"),
    ("source_service_name", "destination_service_name"),
    ("client_service", "server_service"),
)
"""Caller and callee among a metric's labels: Tempo's service graphs, Istio's standard metrics."""
Pair = tuple[str, str]
_MADE = "known calls"


@dataclass(frozen=True)
class _CallReport:
    """One source's word of a call."""

    pair: Pair
    source: str
    last_seen: datetime | None = None
    learned_in: str | None = None


def case_calls(case: Case) -> tuple[ServiceCall, ...]:
    """The calls of the case, sorted; without self-calls and calls of a nameless service."""
    made: tuple[ServiceCall, ...] | None = case.derived.get(_MADE)
    if made is None:
        made = case.derived[_MADE] = tuple(_calls(case))
    return made


def _calls(case: Case) -> Iterator[ServiceCall]:
    in_table = list(_in_table(case.topology))
    now = [report for report in in_table if report.learned_in is None]
    now += [_CallReport(pair, CATALOGUE) for pair in case.scope.calls]
    now += _in_spans(case)
    # Labels are the weakest source: ask them only where nothing else reports a call.
    if not any(_is_call(report.pair) for report in now):
        now = [_CallReport(pair, METRIC_LABELS) for pair in labelled_edges(case.metrics)]
    pairs = {report.pair for report in now}
    # Who learned that a calls b, and reads in the settings that b calls a, learned it wrongly.
    settled = pairs | {(callee, caller) for caller, callee in case.scope.calls}
    earlier = [report for report in in_table if report.learned_in and report.pair not in settled]
    yield from _merged([*now, *earlier])


def _merged(reports: Iterable[_CallReport]) -> Iterator[ServiceCall]:
    by_pair: dict[Pair, list[_CallReport]] = {}
    for report in reports:
        if _is_call(report.pair):
            by_pair.setdefault(report.pair, []).append(report)
    for pair, pair_reports in sorted(by_pair.items()):
        sources = tuple(sorted({report.source for report in pair_reports}))
        times = [report.last_seen for report in pair_reports if report.last_seen is not None]
        yield ServiceCall(
            caller=pair[0],
            callee=pair[1],
            sources=sources,
            last_seen=max(times, default=None),
            learned_in=pair_reports[0].learned_in,
        )


def _is_call(pair: Pair) -> bool:
    caller, callee = pair
    return bool(caller and callee and caller != callee)


def _in_table(table: pl.DataFrame) -> Iterator[_CallReport]:
    columns = table.select("caller", "callee", "source", "last_seen", "learned_in")
    for caller, callee, source, last_time, learned_in in columns.iter_rows():
        yield _CallReport((caller, callee), source or NOT_RECORDED, last_time, learned_in or None)


def _in_spans(case: Case) -> Iterator[_CallReport]:
    if not case.spans.height:
        return
    yield from _latest_reports(call_edges(case.spans), SPANS)
    yield from _latest_reports(peer_calls(visits_of(case)), CLIENT_SPANS)


def _latest_reports(calls: pl.DataFrame, source: str) -> Iterator[_CallReport]:
    latest = calls.group_by("caller", "callee").agg(pl.col("start").max())
    for caller, callee, last_time in latest.iter_rows():
        yield _CallReport((caller, callee), source, last_time)


def labelled_edges(metrics: pl.DataFrame) -> list[Pair]:
    """(caller, callee) of every series whose labels name both."""
    edges = set()
    for text in metrics["labels"].drop_nulls().unique().to_list():
        labels = labels_of(text)
        for caller, callee in LABELS:
            a, b = labels.get(caller), labels.get(callee)
            if a is not None and b is not None:
                edges.add((a, b))
                break
    return sorted(edges)


def call_edges(spans: pl.DataFrame) -> pl.DataFrame:
    """One row per call between services: caller, callee, operation of the callee, start, and both
    durations (us)."""
    # A span may be sent twice: join only the first, or each call counts twice.
    parents = spans.select(
        "trace_id",
        pl.col("span_id").alias("parent_id"),
        pl.col("service").alias("caller"),
        pl.col("duration_us").alias("caller_us"),
    ).unique(["trace_id", "parent_id"], keep="first", maintain_order=True)
    calls = spans.join(parents, on=["trace_id", "parent_id"], how="inner")
    return calls.filter(pl.col("caller") != pl.col("service")).select(
        "caller",
        pl.col("service").alias("callee"),
        "operation",
        "start",
        "caller_us",
        pl.col("duration_us").alias("callee_us"),
    )
