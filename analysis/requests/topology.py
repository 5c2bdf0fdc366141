"""The calls between services, as a graph."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import polars as pl

from faultline.analysis.case.addresses import AddressBook
from faultline.analysis.case.calls import (
    CATALOGUE,
    CLIENT_SPANS,
    LOG_LINES,
    METRIC_LABELS,
    NETWORK_POLICIES,
    NOT_RECORDED,
    SPANS,
    ServiceCall,
    certainty_of,
)
from faultline.analysis.case.folder import Case
from faultline.analysis.logs.named_peers import addressed_calls
from faultline.analysis.metrics.series import labels_of
from faultline.analysis.requests.critical_path import visits_of
from faultline.analysis.requests.error_origin import peer_calls

# Every call between services that a case tells of: where it is known from, and when it was last
# seen.
#
# One pair of services is one call, whoever tells of it. What an earlier investigation learned
# counts only where nothing collected now reports the pair, and never against the service catalogue.

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
    certainty: float | None = None
    """Where it is another than the source's."""

    @property
    def sureness(self) -> float:
        """How certain the call is by this word alone."""
        return certainty_of([self.source]) if self.certainty is None else self.certainty


def case_calls(case: Case) -> tuple[ServiceCall, ...]:
    """The calls of the case, sorted; without self-calls and calls of a nameless service."""
    made: tuple[ServiceCall, ...] | None = case.derived.get(_MADE)
    if made is None:
        made = case.derived[_MADE] = tuple(_calls(case))
    return made


def _calls(case: Case) -> Iterator[ServiceCall]:
    in_table = list(_in_table(case.topology))
    reports = [report for report in in_table if report.learned_in is None]
    reports += [_CallReport(pair, CATALOGUE) for pair in case.scope.calls]
    reports += _in_spans(case)
    # Labels are the weakest source: ask them only where nothing else reports a call.
    if not any(_is_call(report.pair) for report in reports):
        reports = [_CallReport(pair, METRIC_LABELS) for pair in labelled_edges(case.metrics)]
    reported = {report.pair for report in reports}
    # Who learned that a calls b, and reads in the settings that b calls a, learned it wrongly.
    settled = reported | {(callee, caller) for caller, callee in case.scope.calls}
    reports += [report for report in in_table if report.learned_in and report.pair not in settled]
    tables = (case.metrics, case.logs, case.spans)
    observed = [table["service"].drop_nulls().unique() for table in tables]
    book = AddressBook(set(case.scope.services).union(*observed, *reported))
    for pair, last_seen in addressed_calls(case.logs, book).items():
        reports.append(_CallReport(pair, LOG_LINES, last_seen))
    yield from _merged(reports)


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
            certainty=max(report.sureness for report in pair_reports),
        )


def _is_call(pair: Pair) -> bool:
    caller, callee = pair
    return bool(caller and callee and caller != callee)


def _in_table(table: pl.DataFrame) -> Iterator[_CallReport]:
    columns = table.select("caller", "callee", "source", "last_seen", "learned_in", "certainty")
    for caller, callee, source, last_seen, learned_in, certainty in columns.iter_rows():
        yield _CallReport(
            (caller, callee), source or NOT_RECORDED, last_seen, learned_in or None, certainty
        )


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


@dataclass(frozen=True)
class Topology:
    """A directed graph of services; an edge leads from caller to callee. Edges are unique and
    sorted."""

    edges: tuple[tuple[str, str], ...]

    @cached_property
    def _callees(self) -> dict[str, tuple[str, ...]]:
        return _adjacency(self.edges)

    @cached_property
    def _callers(self) -> dict[str, tuple[str, ...]]:
        return _adjacency((b, a) for a, b in self.edges)

    def callees(self, service: str) -> tuple[str, ...]:
        """Services it calls directly."""
        return self._callees.get(service, ())

    def callers(self, service: str) -> tuple[str, ...]:
        """Services that call it directly."""
        return self._callers.get(service, ())

    def downstream(self, service: str, within: int | None = None) -> dict[str, int]:
        """All services it reaches by calls, `within` this many if given, with the number of hops
        (itself at 0)."""
        return self._reached(service, within, down=True)

    def upstream(self, service: str, within: int | None = None) -> dict[str, int]:
        """All services that reach it by calls, `within` this many if given, with the number of hops
        (itself at 0)."""
        return self._reached(service, within, down=False)

    def _reached(self, service: str, within: int | None, *, down: bool) -> dict[str, int]:
        """What a walk from the service reaches; the last walks are kept, since callers ask from the
        same service."""
        key = (service, within, down)
        if key not in self._walks:
            # Drop all of them at once: only the latest service is asked again.
            if len(self._walks) >= MAX_WALKS:
                self._walks.clear()
            neighbours = self._callees if down else self._callers
            hops = {service: 0}
            queue = deque([service])
            while queue:
                at = queue.popleft()
                # The walk is breadth first, so beyond this distance nothing is nearer.
                if hops[at] == within:
                    continue
                for other in neighbours.get(at, ()):
                    if other not in hops:
                        hops[other] = hops[at] + 1
                        queue.append(other)
            self._walks[key] = hops
        return self._walks[key]

    @cached_property
    def _walks(self) -> dict[tuple[str, int | None, bool], dict[str, int]]:
        return {}

    @cached_property
    def services(self) -> frozenset[str]:
        """All services on an edge."""
        return frozenset(s for edge in self.edges for s in edge)


MAX_WALKS = 16


def read_topology(case: Case) -> Topology:
    """The case's graph. Self-calls and edges without a name are left out, and so are calls that
    nothing but failing lines tell of: the ranking weighs those lines themselves."""
    calls = [call for call in case_calls(case) if call.sources != (LOG_LINES,)]
    # What is allowed need not happen, so it counts only where nothing tells what does.
    happening = [call for call in calls if call.sources != (NETWORK_POLICIES,)]
    return topology_of(call.pair for call in happening or calls)


def topology_of(pairs: Iterable[tuple[str | None, str | None]]) -> Topology:
    """A topology of the given (caller, callee) pairs."""
    return Topology(tuple(sorted({(a, b) for a, b in pairs if a and b and a != b})))


def _adjacency(edges: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    out: dict[str, list[str]] = {}
    for a, b in edges:
        out.setdefault(a, []).append(b)
    return {a: tuple(sorted(bs)) for a, bs in out.items()}


# Endpoints that are only seen by their callers, and the services behind them.
#
# A call through a load balancer or a DNS name is often drawn beside the instrumented service that
# answers it: two nodes, one service. Such an endpoint is a host name that calls nobody; a piece of
# that name names exactly one of the services that its caller calls as well.

MIN_LETTERS = 5
"""Shorter pieces of a name occur in others by chance; load balancers cut names to about this
length."""
_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_LETTERS = re.compile(r"[a-z]+")
_STORE = re.compile(
    r"(^|[^a-z])(db|sql|postgres\w*|mysql|mongo\w*|redis|rds|cache|kafka|queue|sqs|s3|bucket"
    r"|broker)([^a-z]|$)"
)
"""A data store is often named for the service it serves, and is another thing."""
_GENERIC = (
    *("services", "servers", "clusters", "internal", "external", "gateways"),
    *("amazonaws", "cloudapp", "googleapis"),
)
"""Words, or their beginnings, that host names are made of whoever answers."""


def front_doors(topology: Topology) -> dict[str, str]:
    """Endpoint to the service behind it; without those that no service, or more than one, could be
    behind."""
    doors = {}
    for endpoint in sorted(topology.services):
        is_host = _HOST.match(endpoint) and not _STORE.search(endpoint.lower())
        if not is_host or topology.callees(endpoint):
            continue
        # The instrumented services that the endpoint's callers call as well.
        beside = set()
        for caller in topology.callers(endpoint):
            for service in topology.callees(caller):
                # AWS X-Ray draws a database as name@host.
                if not _HOST.match(service) and "@" not in service:
                    beside.add(service)
        behind = _sharing_a_piece(endpoint, beside)
        if len(behind) == 1:
            doors[endpoint] = behind.pop()
    return doors


def _sharing_a_piece(endpoint: str, services: Iterable[str]) -> set[str]:
    """The services that share a piece of the host's name; a piece that several services share
    identifies none."""
    pieces = {piece for piece in _pieces(endpoint) if not _is_generic(piece)}
    by_piece: dict[str, set[str]] = {piece: set() for piece in pieces}
    for service in services:
        words = _pieces(service)
        for piece in pieces:
            if any(piece in word or word in piece for word in words):
                by_piece[piece].add(service)
    unique_services = set()
    for named in by_piece.values():
        if len(named) == 1:
            unique_services |= named
    return unique_services


def _is_generic(piece: str) -> bool:
    # Load balancers cut names short, so a piece may be the beginning of such a word.
    return any(word.startswith(piece) for word in _GENERIC)


def _pieces(name: str) -> list[str]:
    return [piece for piece in _LETTERS.findall(name.lower()) if len(piece) >= MIN_LETTERS]
