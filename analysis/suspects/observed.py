"""What the tables of a case show of its suspects, before anybody is ranked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from faultline.analysis.case.addresses import AddressBook, peer_of
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import MetricShiftDetails
from faultline.analysis.kinds.signals import parts_of
from faultline.analysis.requests.topology import Topology, topology_of
from faultline.analysis.suspects.accounting import (
    SIZED,
    Move,
    Moves,
    carried_shares,
    moves_of,
)
from faultline.analysis.suspects.call_graph import with_observed_calls
from faultline.analysis.suspects.deviations import (
    NOT_SERVING,
    Deviation,
    call_deviations,
    deviations,
    loudest,
)
from faultline.analysis.suspects.error_lines import ErrorLines, error_lines
from faultline.analysis.suspects.explanations import (
    AlertCurve,
    alert_curve,
    alerting_series,
    alerting_service,
)
from faultline.analysis.suspects.places import Place, places
from faultline.analysis.suspects.presumed_calls import presumed_calls
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import rounded

COMPLAINS, CONTENT = 0.3, 0.1
"""The weight of a caller's series about its calls from which on it complains, and up to which it
does not."""
JUST_BEFORE_MIN, LONG_AGO_MIN = 10.0, 60.0
"""Up to ten minutes before it counts fully, an hour before no more. Of 92 guilty changes of
training worlds, recordings and the rig's training seeds 54 came within ten minutes before the
alert, 27 within an hour, 11 earlier."""


@dataclass(frozen=True)
class Observed:
    """What the tables of a case show of its suspects, before anybody is ranked."""

    alerting: str | None
    alert: Deviation | None
    curve: AlertCurve | None
    graph: Topology
    service_series: Sequence[tuple[Deviation, float]]
    """Each service's own series with its weight: how far out of its noise while the alert is bad,
    as a share of the loudest."""
    calls: Sequence[tuple[str, Deviation, float]]
    """Series that callers keep of their calls: the callee, the series and its weight."""
    lines: Sequence[tuple[ErrorLines, float]]
    places: Sequence[Place]
    moves: Moves
    services: frozenset[str]
    agreements: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By service and signal, how far a series agrees with the alert in time; 1 where the alert has
    no course in time."""
    parts: Sequence[tuple[Deviation, float]] = ()
    """Series of parts of a service, such as its pods. The whole service's series is among
    `service_series`."""
    changed: Mapping[str, float] = field(default_factory=dict)
    """By service, how shortly before the alert went bad it was changed, in [0, 1]."""
    presumed_calls: frozenset[tuple[str, str]] = frozenset()
    """Calls that nobody recorded; the ranking alone follows them."""

    @cached_property
    def likely_graph(self) -> Topology:
        """The graph with the presumed calls."""
        if not self.presumed_calls:
            return self.graph
        return topology_of({*self.graph.edges, *self.presumed_calls})

    def agreement(self, service: str, signal: str | None) -> float:
        """How far a finding about this signal counts. What was not compared counts fully."""
        return self.agreements.get((service, signal or ""), 1.0)


def _beside_their_whole(series: Sequence[Deviation]) -> frozenset[int]:
    """Series (by `id`) of parts of a service whose whole has a series of the same signal."""
    in_part: list[Deviation] = []
    whole: set[tuple[str, str]] = set()
    for deviation in series:
        if parts_of(deviation.labels):
            in_part.append(deviation)
        else:
            whole.add((deviation.service, deviation.signal))
    return frozenset(
        id(deviation) for deviation in in_part if (deviation.service, deviation.signal) in whole
    )


@dataclass
class _WeighedSeries:
    """The series of a case with their weights, by what they are about; see `Observed`."""

    service_series: list[tuple[Deviation, float]] = field(default_factory=list)
    parts: list[tuple[Deviation, float]] = field(default_factory=list)
    calls: list[tuple[str, Deviation, float]] = field(default_factory=list)
    levels: list[tuple[Deviation, Move]] = field(default_factory=list)
    """How far each series that has a size moved."""
    agreements: dict[tuple[str, str], float] = field(default_factory=dict)


def _weighed(
    series: Sequence[Deviation],
    peers: Mapping[int, str],
    beside: Collection[int],
    loud: float,
    alert: Deviation | None,
    curve: AlertCurve | None,
    findings: Iterable[Finding],
) -> _WeighedSeries:
    """The series by what they are about: those of calls to `peers`, and those `beside` their whole,
    which are parts (both by `id`)."""
    levels = {
        id(deviation): level_while_bad(deviation, curve)
        for deviation in series
        if deviation.signal_class in SIZED and id(deviation) not in peers
    }
    carried = carried_shares(series, levels, beside, alert)
    finding_keys = {(finding.subject, finding.signal or "") for finding in findings}
    weighed = _WeighedSeries()
    for deviation in series:
        key = (deviation.service, deviation.signal)
        # Within its own noise it explains nothing, however it goes with the alert.
        compared = curve is not None and (deviation.size > 0 or key in finding_keys)
        # A series that stays within its noise explains nothing, so the costly comparison is spared.
        agreement = 1.0
        if curve is not None and compared:
            agreement = curve.agreement(deviation) * carried.get(id(deviation), 1.0)
        weight = agreement * deviation.size / loud
        peer = peers.get(id(deviation))
        # A caller's series about a callee does not say how the caller itself does.
        if peer is not None:
            weighed.calls.append((peer, deviation, weight))
            continue
        if id(deviation) in beside:
            weighed.parts.append((deviation, weight))
            continue
        weighed.service_series.append((deviation, weight))
        if compared:
            weighed.agreements[key] = max(weighed.agreements.get(key, 0.0), agreement)
        if deviation.signal_class in SIZED:
            sure = agreement * min(1.0, deviation.size)
            move = Move(deviation.before, levels[id(deviation)], sure)
            weighed.levels.append((deviation, move))
    return weighed


def observe(case: Case, topology: Topology, findings: Sequence[Finding]) -> Observed:
    """Read the tables of a case once, for all of its suspects."""
    series = [*deviations(case), *call_deviations(case)]
    named = {deviation.service for deviation in series} | topology.services
    named |= {finding.subject for finding in findings}
    book = AddressBook(frozenset(named))
    # By series (by `id`), the callee whose calls it is about.
    peers = {
        id(deviation): peer
        for deviation in series
        if (peer := peer_of(deviation.service, deviation.labels, book)) is not None
    }
    named |= set(peers.values())
    alerting = alerting_service(case.alert, named)
    of_services = [deviation for deviation in series if id(deviation) not in peers]
    beside = _beside_their_whole(of_services)
    wholes = [deviation for deviation in of_services if id(deviation) not in beside]
    alert = alerting_series(case.alert, alerting, wholes)
    curve = alert_curve(case, alert)
    weighed = _weighed(series, peers, beside, loudest(series), alert, curve, findings)
    lines = error_lines(case, named)
    loud_lines = loudest([line.course for line in lines])
    weighed_lines = []
    for line in lines:
        agreement = curve.agreement(line.course) if curve else 1.0
        weighed_lines.append((line, agreement * line.course.size / loud_lines))
    calls = [(d.service, peers[id(d)]) for d in series if id(d) in peers]
    graph = with_observed_calls(topology, calls, lines)
    moves = moves_of(weighed.levels)
    return Observed(
        alerting=alerting,
        alert=alert,
        curve=curve,
        graph=graph,
        changed=_changed(case, curve),
        presumed_calls=presumed_calls(graph, moves, findings, alerting),
        service_series=weighed.service_series,
        parts=weighed.parts,
        calls=weighed.calls,
        lines=weighed_lines,
        places=places([*weighed.service_series, *weighed.parts], graph),
        moves=moves,
        services=frozenset(named),
        agreements=weighed.agreements,
    )


def sole_complaints(observation: Observed) -> frozenset[str]:
    """Callees of whose calls exactly one of several watched callers complains."""
    views: dict[str, dict[str, float]] = defaultdict(dict)
    for callee, deviation, weight in observation.calls:
        if deviation.signal_class not in NOT_SERVING:
            by_caller = views[callee]
            by_caller[deviation.service] = max(by_caller.get(deviation.service, 0.0), weight)
    blamed = set()
    for callee, by_caller in views.items():
        complaining = sum(view >= COMPLAINS for view in by_caller.values())
        content = sum(view <= CONTENT for view in by_caller.values())
        if complaining == 1 and content > 0:
            blamed.add(callee)
    return frozenset(blamed)


def _changed(case: Case, curve: AlertCurve | None) -> dict[str, float]:
    """By service, how shortly before the alert went bad the last change came."""
    onset_ns = case.alert.started_at.timestamp() * 1e9
    step_ns = 0.0
    if curve is not None and (curve.badness > 0.5).any():
        onset_ns = float(curve.times[curve.badness > 0.5][0])
        step_ns = float(np.median(np.diff(curve.times))) if len(curve.times) > 1 else 0.0
    changed: dict[str, float] = {}
    rows = case.changes.select("service", pl.col("time").dt.epoch("ns"))
    for service, time_ns in rows.iter_rows():
        # What a rate shows lags behind by its range, so a change may seem to come after it.
        minutes = (onset_ns + step_ns - time_ns) / 60e9
        if service is None or not 0 <= minutes <= LONG_AGO_MIN:
            continue
        near = min(1.0, (LONG_AGO_MIN - minutes) / (LONG_AGO_MIN - JUST_BEFORE_MIN))
        changed[service] = max(changed.get(service, 0.0), near)
    return changed


def with_agreement(findings: Iterable[Finding], observation: Observed) -> list[Finding]:
    """The findings; those about a metric say how far it goes with the alert in time."""
    out = []
    for finding in findings:
        details = MetricShiftDetails.of(finding)
        if details is None or observation.curve is None or details.agreement is not None:
            out.append(finding)
            continue
        agreement = rounded(observation.agreement(finding.subject, finding.signal), 3)
        shift_details = details.model_copy(update={"agreement": agreement})
        out.append(finding.model_copy(update={"details": shift_details}))
    return out


def level_while_bad(deviation: Deviation, curve: AlertCurve | None) -> float:
    """Its median in the incident, over the times at which the alert is bad where there are any."""
    values = deviation.window_values
    if curve is not None:
        # Where the alert has been bad only briefly, the whole window would dilute the level.
        bad = np.interp(deviation.window_times, curve.times, curve.badness) > 0.5
        if bad.any():
            values = values[bad]
    return float(np.median(values))
