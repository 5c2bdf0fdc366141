"""X-Ray: an even sample of the traces that pass through a service, in the incident and before it,
and the calls between services.

A sample that preferred failing or slow traces would make both windows look alike. Many more
summaries are read, and they say how many failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import CallRow, nanoseconds
from faultline.connectors.vendors.aws.calls import AwsCalls, objects
from faultline.connectors.vendors.aws.console import service_map_link, traces_link
from faultline.connectors.vendors.aws.evidence import AwsEvidence, cut_note, words
from faultline.connectors.vendors.aws.segments import spans_of
from faultline.connectors.vendors.aws.session import AwsPlace

SLICES = 4
"""A window is asked in that many parts: X-Ray answers from its end, and the first pages would hold
the end alone."""
MOST_PAGES = 2
MOST_SUMMARIES = 400
"""Of one slice."""
MOST_TRACES = 30
"""Of one window, spread evenly over what was found."""
BATCH = 5
"""Trace ids in one BatchGetTraces (X-Ray API reference)."""
MOST_EDGES = 2_000
LONGEST = timedelta(hours=6)
"""Longest time range of the service graph; the latest part of a longer window is asked (X-Ray API
reference)."""
OurName = Callable[[str], str]


async def traces_of(
    calls: AwsCalls, place: AwsPlace, service: str, their_name: str, scope: Scope, ours: OurName
) -> AwsEvidence:
    """Spans of the traces through one service."""
    aws_evidence = AwsEvidence()
    # A scope may name other windows for spans than for metrics.
    baseline = scope.baseline_spans if scope.baseline_spans is not None else scope.baseline
    windows = (scope.incident, *baseline)
    await asyncio.gather(
        *(_of_window(calls, place, their_name, window, ours, aws_evidence) for window in windows)
    )
    if not aws_evidence.rows.get("spans") and not aws_evidence.missing:
        query = f"{place} {expression(their_name)}"
        aws_evidence.lacks("spans", query, f"X-Ray has no traces through {service}")
    return aws_evidence


async def graph_of(calls: AwsCalls, place: AwsPlace, scope: Scope, ours: OurName) -> AwsEvidence:
    """The calls between services during the incident."""
    aws_evidence = AwsEvidence()
    window = _latest(scope.incident)
    query = f"GetServiceGraph {place}"
    try:
        page = await calls.pages(
            place,
            "xray",
            "GetServiceGraph",
            "Services",
            most=MOST_EDGES,
            most_pages=5,
            StartTime=window.start,
            EndTime=window.end,
        )
    except FaultlineError as error:
        aws_evidence.lacks("topology", query, error)
        return aws_evidence
    pairs = edges(objects(page.entries), ours)[:MOST_EDGES]
    observed_nanoseconds = nanoseconds(window.end)
    call_rows = [CallRow(caller, callee, "xray", observed_nanoseconds) for caller, callee in pairs]
    rows = aws_evidence.add("topology", call_rows)
    cut = cut_note(len(page.entries), more=page.more, what="services")
    link = service_map_link(place.region, window)
    aws_evidence.items.append(Item("topology", query, window, link, rows=rows, cut=cut))
    return aws_evidence


def edges(services: Sequence[Mapping[str, Any]], ours: OurName) -> list[tuple[str, str]]:
    """Pairs of caller and callee; the clients at the edge are no services."""
    names = {}
    for service in services:
        if service.get("Name"):
            names[service.get("ReferenceId")] = ours(words(service.get("Name"), 200))
    pairs = []
    for service in services:
        caller = names.get(service.get("ReferenceId"))
        if not caller or service.get("Type") == "client":
            continue
        for edge in objects(service.get("Edges")):
            callee = names.get(edge.get("ReferenceId"))
            if callee and callee != caller:
                pairs.append((caller, callee))
    return list(dict.fromkeys(pairs))


def expression(name: str) -> str:
    """The filter expression for traces through a service."""
    # Foreign name: it must not end the string.
    return 'service("' + name.replace("\\", "").replace('"', "") + '")'


async def _of_window(
    calls: AwsCalls,
    place: AwsPlace,
    their_name: str,
    window: Window,
    ours: OurName,
    aws_evidence: AwsEvidence,
) -> None:
    requested_expression = expression(their_name)
    query = f"GetTraceSummaries {place} {requested_expression}"
    try:
        summaries, more = await _summaries(calls, place, requested_expression, _latest(window))
        trace_ids = [words(summary.get("Id"), 64) for summary in summaries]
        ids = _spread(list(filter(None, trace_ids)), MOST_TRACES)
        answers = await asyncio.gather(
            *(
                calls.call(place, "xray", "BatchGetTraces", TraceIds=ids[first : first + BATCH])
                for first in range(0, len(ids), BATCH)
            )
        )
    except FaultlineError as error:
        aws_evidence.lacks("spans", query, error)
        return
    rows: list[tuple[Any, ...]] = []
    for answer in answers:
        for trace in objects(answer.get("Traces")):
            rows += spans_of(trace, ours)
    aws_evidence.add("spans", rows)
    if not ids:
        return
    if not rows:
        aws_evidence.lacks(
            "spans", f"BatchGetTraces {place} of {requested_expression}", _NO_SEGMENTS
        )
    failing = len([summary for summary in summaries if summary.get("HasFault") is True])
    details = {"traces found": str(len(summaries)), "of them with a fault": str(failing)}
    left = len(summaries) - len(ids)
    cut = None
    if left or more:
        or_more = " or more" if more else ""
        cut = f"{len(ids)} of {len(summaries)}{or_more} traces"
    link = traces_link(place.region, requested_expression, window)
    item = Item("spans", query, window, link, rows=len(rows), cut=cut, details=details)
    aws_evidence.items.append(item.holding(rows))


async def _summaries(
    calls: AwsCalls, place: AwsPlace, filter_expression: str, window: Window
) -> tuple[list[Mapping[str, Any]], bool]:
    """Summaries from all parts of the window, in the order of time that X-Ray gives."""
    length = (window.end - window.start) / SLICES
    parts = [(window.start + n * length, window.start + (n + 1) * length) for n in range(SLICES)]
    pages = await asyncio.gather(
        *(
            calls.pages(
                place,
                "xray",
                "GetTraceSummaries",
                "TraceSummaries",
                most=MOST_SUMMARIES,
                most_pages=MOST_PAGES,
                StartTime=start,
                EndTime=end,
                FilterExpression=filter_expression,
            )
            for start, end in parts
        )
    )
    # A trace may come with two parts of the window.
    unique = {summary.get("Id"): summary for page in pages for summary in objects(page.entries)}
    return list(unique.values()), any(page.more for page in pages)


def _spread(ids: Sequence[str], most: int) -> list[str]:
    """At most that many, evenly from all."""
    if len(ids) <= most:
        return list(ids)
    return [ids[number * len(ids) // most] for number in range(most)]


def _latest(window: Window) -> Window:
    return Window(start=max(window.start, window.end - LONGEST), end=window.end)


_NO_SEGMENTS = (
    "X-Ray lists traces and has no segments of them: with Transaction "
    "Search they lie in the log group aws/spans"
)
