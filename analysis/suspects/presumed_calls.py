"""Calls that nobody recorded and that are likely all the same, for the ranking alone.

Where a service's calls are unknown, "nothing that it calls explains it" says nothing. Traces and
client metrics may be missing for all services, or for the calls to caches and to hosts outside.
What is in trouble and is called by nobody that is known is then a possible callee of those in
trouble. Answers never speak of such a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.metrics.explained_share import FAILING
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.metrics.shifts import shift_class
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.accounting import Moves
from faultline.analysis.vocabulary import Finding

TROUBLED = 0.3
"""The least strength of a finding that says so."""
FASTER = 0.9
"""Of the caller's usual time, at each quantile; a tenth is for what the caller does itself."""
_MOVES = frozenset({SignalClass.LATENCY, SignalClass.HIT_RATIO}) | FAILING


def presumed_calls(
    graph: Topology, moves: Moves, findings: Iterable[Finding], alerting: str | None
) -> frozenset[tuple[str, str]]:
    """(caller, callee): what the services in trouble may call beside the known calls."""
    troubled = set()
    for finding in findings:
        is_shift = finding.kind == METRIC_SHIFT and finding.details.bad
        moved = is_shift and shift_class(finding) in _MOVES
        if finding.strength >= TROUBLED and (moved or StateFactDetails.of(finding) is not None):
            troubled.add(finding.subject)
    calls = _Calls(graph, moves, frozenset(troubled))
    return frozenset([*calls.from_above(alerting), *calls.to_the_rest()])


class _Calls:
    """Which calls are likely, by who serves requests, who is in trouble, and which calls are
    known."""

    def __init__(self, graph: Topology, moves: Moves, troubled: frozenset[str]) -> None:
        self._graph = graph
        self._moves = moves
        self._serving = frozenset(moves.requests)
        self._troubled = troubled
        self._doors = {
            callee
            for caller, callee in graph.edges
            if not graph.callers(caller) and caller not in self._serving
        } & self._serving

    def from_above(self, alerting: str | None) -> Iterator[tuple[str, str]]:
        """Calls of front doors, and of the alerting service, to services that nobody is known to
        call and that usually answer faster. Which of two others calls the other is not tried."""
        serving = self._troubled & self._serving
        callers = (self._doors & serving) | ({alerting} & self._serving)
        for caller in sorted(name for name in callers if name is not None):
            if any(callee in self._serving for callee in self._graph.callees(caller)):
                continue
            for callee in sorted(serving - self._doors - {caller}):
                is_called = any(other in self._serving for other in self._graph.callers(callee))
                if not is_called and self._usually_faster(callee, caller):
                    yield caller, callee

    def to_the_rest(self) -> Iterator[tuple[str, str]]:
        """Calls to stores, caches and hosts outside that nobody is known to call, of services in
        trouble that no other service below them explains."""
        graph, serving = self._graph, self._troubled & self._serving
        for callee in sorted(self._troubled - self._serving):
            # What is slow and shows neither what it handles nor whether it is up may be anything,
            # such as a training job.
            is_slow = callee in self._moves.latency
            is_store = callee in self._moves.throughput or callee in self._moves.failures
            if (is_slow and not is_store) or graph.callers(callee) or graph.callees(callee):
                continue
            for caller in sorted(serving):
                if serving.isdisjoint(graph.callees(caller)):
                    yield caller, callee

    def _usually_faster(self, callee: str, caller: str) -> bool:
        """A caller waits for what it calls."""
        below, above = self._moves.latency.get(callee, {}), self._moves.latency.get(caller, {})
        shares = [
            below[signal].before / above[signal].before
            for signal in below.keys() & above.keys()
            if above[signal].before > 0
        ]
        return bool(shares) and max(shares) < FASTER
