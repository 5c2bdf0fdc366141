"""One request's spans as a tree with bars on one axis, its critical path marked.

The critical path runs backwards from the end of the root: at each moment it lies in the child that
ended last before it, and where no child runs, in the span itself (Zhang et al., CRISP: Critical
Path Analysis of Large-Scale Microservice Architectures, USENIX ATC 2022). Children are taken as
lying within their parents, whatever their clocks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import span_windows
from faultline.analysis.requests.error_origin import FAILED
from faultline.analysis.vocabulary import Finding

MAX_SHOWN = 250
"""Spans of one tree that are shown: the roots first, then those with errors, of the subject, on the
critical path."""
MAX_READ = 5_000
MAX_DEPTH = 12
"""Deeper spans are shown at this depth."""
SLOW = 0.9
"""The request that stands for the slow ones is the one at this quantile: the slowest of all may be
stuck elsewhere."""
MAX_ATTRIBUTES = 4_000

_FAILED = pl.col("status").fill_null("").str.contains(FAILED)

Why = Literal["during the incident", "failed", "before"]


@dataclass(frozen=True)
class SpanRow:
    """One span. `x` and `width` are percent of the request; `depth` is that in the tree, up to
    `MAX_DEPTH`."""

    id: str
    service: str
    operation: str
    depth: int
    x: float
    width: float
    us: float
    self_us: float
    offset_us: float
    failed: bool
    critical: bool
    subject: bool
    status: str
    attributes: str


@dataclass(frozen=True)
class Trace:
    """A request to choose, and why it is offered."""

    id: str
    why: Why
    us: float


@dataclass(frozen=True)
class SpanTree:
    """The spans of one request in the tree's order."""

    trace_id: str
    start: datetime
    us: float
    rows: tuple[SpanRow, ...]
    left_out: int
    services: int


@dataclass
class _Node:
    row: Mapping[str, Any]
    begin: float
    end: float
    children: list[_Node]
    depth: int = 0
    critical: bool = False
    self_us: float = 0.0


def example_traces(case: Case, finding: Finding) -> tuple[Trace, ...]:
    """Requests that show the finding: one that is slow as many now are, one that failed, one from
    before."""
    if finding.series.get("table") != "spans" or not case.spans.height:
        return ()
    rows = case.spans
    for column in ("service", "operation"):
        if column in finding.series:
            rows = rows.filter(pl.col(column) == finding.series[column])
    windows = span_windows(case)
    now, before = rows.filter(windows.in_search("start")), rows.filter(windows.in_baseline("start"))
    failed = now.filter(_FAILED)
    traces: list[Trace] = []
    for part, quantile, why in (
        (now, SLOW, "during the incident"),
        (failed, 0.5, "failed"),
        (before, 0.5, "before"),
    ):
        trace = _at_quantile(part, quantile)
        if trace is not None and trace[0] not in {t.id for t in traces}:
            traces.append(Trace(trace[0], why, trace[1]))  # type: ignore[arg-type]
    if "error" in finding.kind:
        traces.sort(key=lambda t: t.why != "failed")
    return tuple(traces)


def _at_quantile(rows: pl.DataFrame, quantile: float) -> tuple[str, float] | None:
    rows = rows.filter(pl.col("duration_us").is_finite() & (pl.col("trace_id") != "")).sort(
        "duration_us", "trace_id"
    )
    if not rows.height:
        return None
    row = rows.row(min(rows.height - 1, int(quantile * rows.height)), named=True)
    return row["trace_id"], row["duration_us"]


def span_tree(case: Case, finding: Finding, trace_id: str) -> SpanTree | None:
    """The tree of a request; None when the case holds no span of it."""
    # Exporters may deliver a span twice.
    spans = case.spans.filter(pl.col("trace_id") == trace_id).unique(
        "span_id", keep="first", maintain_order=True
    )
    spans = spans.head(MAX_READ).with_columns(_FAILED.alias("failed"))
    if not spans.height:
        return None
    roots = _nodes(spans)
    nodes = list(_walk(roots))
    # A request has several roots where the span above them was not recorded.
    longest = max(roots, key=lambda n: n.end - n.begin)
    _mark_critical(longest)
    begin, end = min(n.begin for n in nodes), max(n.end for n in nodes)
    # A request without length would divide by zero.
    length = max(end - begin, 1.0)
    shown_ids = _shown_ids(nodes, finding)
    rows = tuple(_row(n, begin, length, finding) for n in nodes if id(n) in shown_ids)
    return SpanTree(
        trace_id=trace_id,
        start=spans["start"].min(),  # type: ignore[arg-type]
        us=length,
        rows=rows,
        left_out=len(nodes) - len(rows),
        services=spans["service"].n_unique(),
    )


def _nodes(spans: pl.DataFrame) -> list[_Node]:
    """The roots, with their children in the order of their starts; a chain of parents that is a
    cycle is cut."""
    nodes: dict[str, _Node] = {}
    for row in spans.sort("start", "span_id").iter_rows(named=True):
        begin = row["start"].timestamp() * 1e6
        took = row["duration_us"]
        took = took if took is not None and 0 <= took < float("inf") else 0.0
        nodes[row["span_id"]] = _Node(row, begin, begin + took, [])
    roots = []
    for span_id, node in nodes.items():
        parent = nodes.get(node.row["parent_id"] or "")
        if parent is None or parent is node or _above(nodes, parent, span_id):
            roots.append(node)
        else:
            parent.children.append(node)
    return roots


def _above(nodes: Mapping[str, _Node], node: _Node, span_id: str) -> bool:
    """Whether the span is above the node, by its parents' ids."""
    # A longer chain is cut, as a cycle is.
    for _ in range(200):
        if node.row["span_id"] == span_id:
            return True
        above = nodes.get(node.row["parent_id"] or "")
        if above is None:
            return False
        node = above
    return True


def _walk(roots: Sequence[_Node]) -> Iterable[_Node]:
    """Depth first; sets the depths and the spans' own times."""
    # Reversed, because a stack gives the last one first.
    stack = [(root, 0) for root in reversed(roots)]
    while stack:
        node, depth = stack.pop()
        node.depth = depth
        node.self_us = _self_us(node)
        yield node
        stack += [(child, depth + 1) for child in reversed(node.children)]


def _self_us(node: _Node) -> float:
    """What a span took less the time in which any of its children ran."""
    covered, reached = 0.0, node.begin
    for child in node.children:
        # Children may overlap, and their time counts once.
        begin, end = max(child.begin, reached), min(child.end, node.end)
        if end > begin:
            covered += end - begin
            reached = end
    return max(0.0, node.end - node.begin - covered)


def _mark_critical(root: _Node) -> None:
    stack = [(root, root.end)]
    while stack:
        node, until = stack.pop()
        node.critical = True
        for child in sorted(node.children, key=lambda c: c.end, reverse=True):
            end = min(child.end, node.end)
            if node.begin <= child.begin < until and end <= until:
                stack.append((child, end))
                until = child.begin


def _shown_ids(nodes: Sequence[_Node], finding: Finding) -> set[int]:
    """Which spans are shown when there are too many."""
    if len(nodes) <= MAX_SHOWN:
        return {id(n) for n in nodes}

    def need(node: _Node) -> tuple[bool, bool, bool, bool, float]:
        about = node.row["service"] == finding.subject
        return (
            node.depth > 0,
            not node.row["failed"],
            not about,
            not node.critical,
            node.begin - node.end,
        )

    return {id(n) for n in sorted(nodes, key=need)[:MAX_SHOWN]}


def _row(node: _Node, begin: float, length: float, finding: Finding) -> SpanRow:
    row = node.row
    series = finding.series
    about = row["service"] in (finding.subject, series.get("service")) and series.get(
        "operation"
    ) in (
        None,
        row["operation"],
    )
    return SpanRow(
        id=row["span_id"],
        service=row["service"] or "",
        operation=row["operation"] or "",
        depth=min(node.depth, MAX_DEPTH),
        x=round(100 * (node.begin - begin) / length, 3),
        # A narrower bar cannot be seen.
        width=round(max(0.15, 100 * (node.end - node.begin) / length), 3),
        us=node.end - node.begin,
        self_us=node.self_us,
        offset_us=node.begin - begin,
        failed=bool(row["failed"]),
        critical=node.critical,
        subject=about,
        status=row["status"] or "",
        attributes=(row["attributes"] or "")[:MAX_ATTRIBUTES],
    )
