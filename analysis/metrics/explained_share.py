"""How much of a caller's symptom a callee's symptom can explain, by size: 2 ms more below do not
make 200 ms above.

Latencies of one signal are compared as they are measured, in their own unit. A call may be made
many times per request, so a callee's move counts with the number of its requests per request of the
caller where both are measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from faultline.analysis.alert_signal.series import about_service
from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.metrics.shifts import shift_class
from faultline.analysis.vocabulary import Finding

SLACK = 3.0
"""A third of the caller's move explains it fully: medians of unlike mixes of requests are
compared."""
MOST_CALLS = 20.0
"""More calls per request than this are taken to be an artefact of what is measured."""
UNKNOWN_CALLS = 3.0
"""Calls per request that are assumed where they are not measured: most operations make several."""
FAILING = frozenset({SignalClass.ERRORS, SignalClass.AVAILABILITY})


@dataclass(frozen=True)
class Measured:
    """What is measured at all, so that calm is not confused with unseen."""

    classes: frozenset[tuple[str, SignalClass]] = frozenset()
    """(service, class) with points in baseline and incident."""
    requests: Mapping[str, float] = field(default_factory=dict)
    """Requests of a service per point in the incident."""

    def calm(self, service: str, kinds: Iterable[SignalClass], findings: Sequence[Finding]) -> bool:
        """Whether the service has signals of these classes, and none of them left its baseline for
        the worse."""
        requested_kinds = set(kinds)
        if not any((service, kind) in self.classes for kind in requested_kinds):
            return False
        for finding in findings:
            is_bad_shift = finding.kind == METRIC_SHIFT and finding.details.bad
            if is_bad_shift and shift_class(finding) in requested_kinds:
                return False
        return True


def measured(case: Case) -> Measured:
    """Which classes of signals each service has, and how many requests it served."""
    if not case.metrics.height:
        return Measured()
    windows = metric_windows(case)
    rows = case.metrics.filter(
        pl.col("service").is_not_null(), pl.col("value").is_finite(), about_service()
    )
    series_levels = (
        rows.group_by("service", "signal")
        .agg(
            windows.in_baseline("time").any().alias("before"),
            windows.in_search("time").any().alias("now"),
            pl.col("value").filter(windows.in_search("time")).mean().alias("level"),
        )
        .filter("before", "now")
        .sort("service", "signal")
    )
    requests: dict[str, float] = {}
    classes = set()
    for service, signal, level in series_levels.select("service", "signal", "level").iter_rows():
        kind = classify(signal)
        classes.add((service, kind))
        if kind is SignalClass.TRAFFIC and level and level > 0:
            # Keep the first by name: several traffic signals would count one request several times.
            requests.setdefault(service, level)
    return Measured(frozenset(classes), requests)


def slower_by(findings: Iterable[Finding]) -> dict[str, float]:
    """Signal to the rise of a latency, in the signal's own unit; a span's in ms."""
    rises: dict[str, float] = {}
    for finding in findings:
        if finding.kind != METRIC_SHIFT or finding.details.direction != "up":
            continue
        if shift_class(finding) is SignalClass.LATENCY:
            before = finding.numbers.get("baseline", 0.0)
            rises[finding.signal or ""] = finding.numbers.get("incident", 0.0) - before
    return rises


def explained_share(
    callee: Mapping[str, float], caller: Mapping[str, float], calls_per_request: float = 1.0
) -> float | None:
    """In [0, 1]: how much of the caller's rises the callee's can explain; None where no signal is
    common to both."""
    shares = []
    for signal, below in callee.items():
        above = caller.get(signal, 0.0)
        if above > 0:
            shares.append(min(1.0, SLACK * calls_per_request * below / above))
    return max(shares, default=None)


def calls_per_request(callee: str, caller: str, measures: Measured) -> float:
    """How often the callee is called for each request of the caller: at least once, and not beyond
    what is believed."""
    above, below = measures.requests.get(caller), measures.requests.get(callee)
    if not above or not below:
        return UNKNOWN_CALLS
    # Sampling may show fewer calls than requests: assume at least one.
    return min(MOST_CALLS, max(1.0, below / above))
