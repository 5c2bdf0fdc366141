"""What is known of each suspect, as the few numbers that the ranking weighs.

Every number is in [0, 1] unless it says otherwise, and says what a person would look at: what a
service shows beyond what it calls, on a path of trouble from the alert; what its callers say of it;
which resource it runs out of; where load comes from; where its troubled instances run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import polars as pl

from faultline.analysis.case.addresses import AddressBook, peer_of
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import MetricShiftDetails
from faultline.analysis.kinds.finding_kinds import (
    CALL_GAP,
    CRITICAL_PATH,
    ERROR_ORIGIN,
    FLOW_BREAK,
    PART_CONTRAST,
)
from faultline.analysis.kinds.signals import RESOURCES, SignalClass, parts_of
from faultline.analysis.kinds.state_fault import Depth
from faultline.analysis.metrics.explained_share import FAILING
from faultline.analysis.requests.topology import Topology, topology_of
from faultline.analysis.suspects.accounting import (
    SIZED,
    Accounts,
    Move,
    Moves,
    carried_shares,
    moves_of,
)
from faultline.analysis.suspects.call_graph import Reach, reach_of, with_observed_calls
from faultline.analysis.suspects.deviations import (
    NOT_SERVING,
    Deviation,
    call_deviations,
    deviations,
    loudest,
)
from faultline.analysis.suspects.error_lines import ErrorLines, error_lines, extra_by_writer
from faultline.analysis.suspects.explanations import (
    AlertCurve,
    alert_curve,
    alerting_series,
    alerting_service,
)
from faultline.analysis.suspects.places import Place, placed_share, places
from faultline.analysis.suspects.presumed_calls import presumed_calls
from faultline.analysis.suspects.suspect import Suspect, findings_shares, state_evidence
from faultline.analysis.suspects.victims import Loads, load_change
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import rounded

WAITING = frozenset({SignalClass.QUEUE, SignalClass.CONNECTIONS})
LEAST_ALERT = 0.15
"""An alert hardly out of its noise is taken to be this bad, or every path would be a clear one."""
SOLE_COMPLAINER = 0.4
"""What a complaint of one caller counts where others that call the same do not complain: the
trouble is on its side. Of 160 systems of a foreign simulator five were won by it and none lost."""
COMPLAINS, CONTENT = 0.3, 0.1
"""The weight of a caller's series about its calls from which on it complains, and up to which it
does not."""
JUST_BEFORE_MIN, LONG_AGO_MIN = 10.0, 60.0
"""Up to ten minutes before it counts fully, an hour before no more. Of 92 guilty changes of
training worlds, recordings and the rig's training seeds 54 came within ten minutes before the
alert, 27 within an hour, 11 earlier."""
FALLS = -0.05
"""A worker that handles less than before by this logarithm is stuck, or starved."""


@dataclass(frozen=True)
class Features:
    """One suspect's numbers."""

    findings: float = 0.0
    """What its findings alone say, beside the loudest suspect's; 2 for a rank that clearly delays
    all others."""
    slow: float = 0.0
    failing: float = 0.0
    unexplained_failing: float = 0.0
    """Of what fails, what nothing that it calls explains."""
    local_on_path: float = 0.0
    """What it loses or fails by itself, by how much trouble leads to it from the alert."""
    lost_time: float = 0.0
    lost_requests: float = 0.0
    """What it loses by itself, as a share of what the alerting service loses."""
    called_in_vain: float = 0.0
    """What its callers say of the calls to it, beyond what it shows itself and what its own callees
    explain."""
    called_in_vain_on_path: float = 0.0
    named: float = 0.0
    """How much more failing lines of others name it."""
    named_share: float = 0.0
    """The largest share of a writer's new failing lines that names it."""
    unattributed_lines: float = 0.0
    """Its new failing lines that name nobody."""
    resource: float = 0.0
    limits_on_path: float = 0.0
    """A resource, a queue, a cache or a restart, by how much trouble leads to it."""
    waiting: float = 0.0
    """A queue, or connections in use."""
    cache_misses: float = 0.0
    """A fall of its hit ratio on a path of trouble."""
    stuck: float = 0.0
    """The queue before it grows while it handles no more."""
    starved: float = 0.0
    """How much less it gets than its callers are asked for, by how much trouble those are in."""
    asks_more: float = 0.0
    """How much more often it calls one of its callees than it is asked for itself."""
    cache_overloads: float = 0.0
    """Of a cache whose hit ratio falls, how much more often its callers call others for it, by how
    badly those do."""
    place_harm: float = 0.0
    """Of a place, what the findings say of what runs there and is worse there."""
    surge: float = 0.0
    """Of a front door, how much more is asked of it."""
    load: float = 0.0
    """How much more its callers ask of it, as they are asked for more themselves."""
    load_from_caller: float = 0.0
    """How much more its callers ask of it although they are asked for no more."""
    surge_above: float = 0.0
    """Load that comes in above the alerting service."""
    path: float = 0.0
    path_above: float = 0.0
    """The strength of the path to it, and to those that call it."""
    is_alerting: float = 0.0
    worst_callee: float = 0.0
    """How much worse it is than what else its callers call."""
    place: float = 0.0
    place_share: float = 0.0
    confined: float = 0.0
    """How far its trouble is confined to a place that other services share."""
    is_place: float = 0.0
    unwatched: float = 0.0
    """1 for what has no signals."""
    state_setting: float = 0.0
    state_instance: float = 0.0
    state_effect: float = 0.0
    """What facts about objects say, by how near they are to a cause."""
    changed: float = 0.0
    """How shortly before the alert went bad it was changed."""
    call_gap: float = 0.0
    critical_path: float = 0.0
    flow_break: float = 0.0
    error_origin: float = 0.0
    part_contrast: float = 0.0
    """Strengths of its strongest findings of these kinds."""

    def numbers(self) -> tuple[float, ...]:
        """In the order of `NAMES`."""
        return tuple(getattr(self, name) for name in NAMES)


NAMES = tuple(feature.name for feature in fields(Features))
_OF_FINDINGS = {
    CALL_GAP.name: "call_gap",
    CRITICAL_PATH.name: "critical_path",
    FLOW_BREAK.name: "flow_break",
    ERROR_ORIGIN.name: "error_origin",
    PART_CONTRAST.name: "part_contrast",
}


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


class SuspectFeatures:
    """Computes the features of any suspect of one case."""

    def __init__(
        self, observation: Observed, findings: Iterable[Finding], suspects: Sequence[Suspect]
    ) -> None:
        self._observation = observation
        self._graph = observation.likely_graph
        self._scores = findings_shares(suspects)
        self._states = state_evidence(suspects)
        # By service the largest weight of each class of signals.
        self._shown: dict[str, dict[SignalClass, float]] = defaultdict(lambda: defaultdict(float))
        for deviation, weight in observation.service_series:
            by_class = self._shown[deviation.service]
            by_class[deviation.signal_class] = max(by_class[deviation.signal_class], weight)
        self._on_calls: dict[str, dict[str, float]] = defaultdict(dict)
        for callee, deviation, weight in observation.calls:
            if deviation.signal_class not in NOT_SERVING:
                by_callee = self._on_calls[deviation.service]
                by_callee[callee] = max(by_callee.get(callee, 0.0), weight)
        self._sole_complaints = sole_complaints(observation)
        self._named: dict[str, float] = defaultdict(float)
        self._nameless_lines: dict[str, float] = defaultdict(float)
        for line, weight in observation.lines:
            into = self._nameless_lines if line.names is None else self._named
            subject = line.writer if line.names is None else line.names
            into[subject] = max(into[subject], weight)
        self._extra = extra_by_writer([line for line, _ in observation.lines])
        self._watched = {deviation.service for deviation, _ in observation.service_series}
        self._places = {place.name: place for place in observation.places}
        edges = {}
        for callee, deviation, _ in observation.calls:
            if deviation.signal_class is SignalClass.TRAFFIC:
                change = load_change(deviation, level_while_bad(deviation, observation.curve))
                if change is not None:
                    edges[deviation.service, callee] = change
        self._loads = Loads(observation.moves.requests, self._graph, edges)
        self._reach = self._reached()
        self._accounts = Accounts(
            observation.moves, self._graph, self._unseen(), observation.alerting
        )
        self._findings: dict[str, dict[str, float]] = defaultdict(dict)
        for finding in findings:
            name = _OF_FINDINGS.get(finding.kind)
            if name is not None:
                strengths = self._findings[finding.subject]
                strengths[name] = max(strengths.get(name, 0.0), finding.strength)

    @property
    def graph(self) -> Topology:
        """Which service calls which, with calls that only the caller shows."""
        return self._graph

    def of(self, subject: str) -> Features:
        """The features of one suspect."""
        shown = self._shown[subject]
        slow, failing = shown[SignalClass.LATENCY], _largest(shown, FAILING)
        path = self._reach.to(subject)
        callers = self._graph.callers(subject)
        path_above = max([path, *(self._reach.to(caller) for caller in callers)])
        self_slow, lost_time = self._accounts.self_latency(subject)
        self_failing, lost_requests = self._accounts.self_failures(subject)
        self_trouble = max(self_slow * slow, self_failing * failing)
        in_vain = self._called_in_vain(subject, max(slow, failing))
        waiting = _largest(shown, WAITING)
        load = self._loads.of(subject)
        surge = self._load_without_callers(subject)
        loaded = max(0.0, load or 0.0)
        not_loaded = 1.0 - min(1.0, loaded)
        limits = max(
            _largest(shown, RESOURCES),
            # A queue that grows with the requests is the load's doing.
            waiting * not_loaded,
            shown[SignalClass.HIT_RATIO],
            shown[SignalClass.RESTARTS],
        )
        misses = self._share_of_class(subject, SignalClass.HIT_RATIO)
        place, states = self._places.get(subject), self._states.get(subject, {})
        services_there = place.services if place else ()
        in_place = max([self._scores.get(name, 0.0) for name in services_there], default=0.0)
        is_door = not callers and bool(self._graph.callees(subject))
        return Features(
            findings=self._scores.get(subject, 0.0),
            slow=slow,
            failing=failing,
            unexplained_failing=self_failing * failing,
            local_on_path=path * self_trouble,
            lost_time=lost_time,
            lost_requests=lost_requests,
            called_in_vain=in_vain,
            called_in_vain_on_path=path * in_vain,
            named=self._named[subject],
            named_share=max([self._named_by(caller, subject) for caller in callers], default=0.0),
            unattributed_lines=self._nameless_lines[subject],
            resource=_largest(shown, RESOURCES),
            limits_on_path=path * limits,
            waiting=waiting,
            cache_misses=path_above * misses,
            stuck=self._stuck(subject, load),
            starved=self._starved(subject),
            asks_more=self._loads.asks_more(subject),
            cache_overloads=misses * max(map(self._overloads, callers), default=0.0),
            place_harm=place.share * in_place if place else 0.0,
            surge=surge if is_door else 0.0,
            load=max(0.0, min(1.0, loaded, self._loads.of_callers(subject))),
            load_from_caller=surge if callers else 0.0,
            surge_above=surge if self._is_above_alert(subject) else 0.0,
            path=path,
            path_above=path_above,
            is_alerting=float(subject == self._observation.alerting),
            worst_callee=self._worse_than_siblings(subject),
            place=place.contrast if place else 0.0,
            place_share=place.share if place else 0.0,
            confined=placed_share(subject, self._observation.places),
            is_place=float(place is not None and subject not in self._observation.services),
            state_setting=states.get(Depth.SETTING, 0.0),
            state_instance=states.get(Depth.INSTANCE, 0.0),
            state_effect=states.get(Depth.EFFECT, 0.0),
            changed=self._observation.changed.get(subject, 0.0),
            unwatched=float(subject not in self._watched and place is None),
            **self._findings[subject],
        )

    def trouble(self, service: str) -> float:
        """How badly it serves, by its own signals and by those of its calls."""
        shown = self._shown[service]
        on_calls = max(self._on_calls[service].values(), default=0.0)
        return max(shown[SignalClass.LATENCY], _largest(shown, FAILING), on_calls)

    def _reached(self) -> Reach:
        alerting = self._observation.alerting
        least = max(self.trouble(alerting), LEAST_ALERT) if alerting else 1.0
        through = {}
        for caller, callee in self._graph.edges:
            trouble = max(
                self.trouble(callee),
                self._on_calls[caller].get(callee, 0.0),
                self._named_by(caller, callee) * max(self.trouble(caller), 0.3),
                0.8 * self._named[callee],
                0.8 * self._caller_view(callee),
            )
            through[caller, callee] = min(1.0, trouble / least)
        return reach_of(alerting, self._graph, self._observation.services, through)

    def _unseen(self) -> dict[tuple[str, str], float]:
        """By call, the share of the caller's trouble that is on it."""
        unseens = {}
        for caller, callee in self._graph.edges:
            # A calm caller has no trouble to share out: avoid dividing by zero.
            trouble = max(self.trouble(caller), 1e-9)
            on_call = min(1.0, self._on_calls[caller].get(callee, 0.0) / trouble)
            unseens[caller, callee] = max(on_call, self._named_by(caller, callee))
        return unseens

    def _named_by(self, writer: str, subject: str) -> float:
        """The share of the writer's new failing lines that names the subject."""
        extra = self._extra.get(writer, {})
        total = sum(extra.values())
        return extra.get(subject, 0.0) / total if total > 0 else 0.0

    def _caller_view(self, subject: str) -> float:
        callers = self._graph.callers(subject)
        return max([self._on_calls[caller].get(subject, 0.0) for caller in callers], default=0.0)

    def _called_in_vain(self, subject: str, shows: float) -> float:
        blame = max(self._caller_view(subject), self._named[subject])
        if blame <= 0:
            return 0.0
        passed_on = 0.0
        for callee in self._graph.callees(subject):
            # A callee that it cannot reach itself explains why calls to it fail.
            on_call = self._on_calls[subject].get(callee, 0.0) / blame
            passed_on = max(passed_on, on_call, self._named_by(subject, callee))
        in_vain = max(0.0, blame - shows) * (1.0 - min(1.0, passed_on))
        return in_vain * (SOLE_COMPLAINER if subject in self._sole_complaints else 1.0)

    def _share_of_class(self, subject: str, kind: SignalClass) -> float:
        """Beside the service that shows most of this class."""
        most = max((shown[kind] for shown in self._shown.values()), default=0.0)
        return self._shown[subject][kind] / most if most > 0 else 0.0

    def _load_without_callers(self, subject: str) -> float:
        """How much more is asked of it than its callers are asked for, as a logarithm up to 1."""
        load = self._loads.of(subject)
        if not load:
            return 0.0
        return min(1.0, max(0.0, load - self._loads.of_callers(subject)))

    def _overloads(self, subject: str) -> float:
        """How much more often it calls a callee than it is asked, by how badly that one does: it
        serves worse, or runs out of something."""
        most = 0.0
        for callee, more in self._loads.excess(subject).items():
            limits = _largest(self._shown[callee], RESOURCES | WAITING)
            harm = max(self.trouble(callee), self._caller_view(callee), limits)
            most = max(most, more * harm)
        return most

    def _starved(self, subject: str) -> float:
        callers = self._graph.callers(subject)
        troubled = max([self.trouble(caller) for caller in callers], default=0.0)
        return troubled * self._loads.starved(subject)

    def _stuck(self, subject: str, load: float | None) -> float:
        handles_less = load is not None and load < FALLS
        # Without signals the queue before it decides alone.
        if not handles_less and subject in self._watched:
            return 0.0
        queues = [self._shown[caller] for caller in self._graph.callers(subject)]
        return max([_largest(shown, WAITING) for shown in queues], default=0.0)

    def _is_above_alert(self, subject: str) -> bool:
        alerting = self._observation.alerting
        if alerting is None or subject == alerting:
            return False
        return subject in self._graph.upstream(alerting)

    def _worse_than_siblings(self, subject: str) -> float:
        callers = self._graph.callers(subject)
        if not callers:
            return 0.0
        worst_sibling = 0.0
        for caller in callers:
            # Callees of a caller off the path of trouble are no comparison.
            if self._reach.to(caller) <= 0.2:
                continue
            for other in self._graph.callees(caller):
                if other != subject:
                    worst_sibling = max(worst_sibling, self.trouble(other))
        return max(0.0, max(self.trouble(subject), self._caller_view(subject)) - worst_sibling)


def _largest(shown: Mapping[SignalClass, float], kinds: Iterable[SignalClass]) -> float:
    return max((shown[kind] for kind in kinds), default=0.0)


def log_odds(weights: Mapping[str, float], features: Features) -> float:
    """The weighted sum of a suspect's numbers."""
    return math.fsum(weights[name] * getattr(features, name) for name in NAMES)
