"""What is known of each suspect, as the few numbers that the ranking weighs.

Every number is in [0, 1] unless it says otherwise, and says what a person would look at: what a
service shows beyond what it calls, on a path of trouble from the alert; what its callers say of it;
which resource it runs out of; where load comes from; where its troubled instances run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from faultline.analysis.kinds.finding_kinds import (
    CALL_GAP,
    CRITICAL_PATH,
    ERROR_ORIGIN,
    FLOW_BREAK,
    PART_CONTRAST,
)
from faultline.analysis.kinds.signals import RESOURCES, SignalClass
from faultline.analysis.kinds.state_fault import Depth
from faultline.analysis.metrics.explained_share import FAILING
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.accounting import (
    Accounts,
)
from faultline.analysis.suspects.call_graph import Reach, reach_of
from faultline.analysis.suspects.deviations import (
    NOT_SERVING,
)
from faultline.analysis.suspects.error_lines import extra_by_writer
from faultline.analysis.suspects.observed import Observed, level_while_bad, sole_complaints
from faultline.analysis.suspects.places import placed_share
from faultline.analysis.suspects.suspect import (
    Suspect,
    findings_shares,
    state_evidence,
    subjects_of_facts,
)
from faultline.analysis.suspects.victims import UNMEASURED_LOAD, Loads, load_change
from faultline.analysis.vocabulary import Finding

WAITING = frozenset({SignalClass.QUEUE, SignalClass.CONNECTIONS})
LEAST_ALERT = 0.15
"""An alert hardly out of its noise is taken to be this bad, or every path would be a clear one."""
SOLE_COMPLAINER = 0.4
"""What a complaint of one caller counts where others that call the same do not complain: the
trouble is on its side. Of 160 systems of a foreign simulator five were won by it and none lost."""
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
    """How shortly before the alert went bad it was changed, by how much trouble it shows that is
    not failures of its callees."""
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
        self._objects = subjects_of_facts(self._states) - self._watched
        self._places = {place.name: place for place in observation.places}
        edges = {}
        for callee, deviation, _ in observation.calls:
            if deviation.signal_class is SignalClass.TRAFFIC:
                change = load_change(deviation, level_while_bad(deviation, observation.curve))
                if change is not None:
                    edges[deviation.service, callee] = change
        moves = observation.moves
        self._loads = Loads({**moves.throughput, **moves.requests}, self._graph, edges)
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
        resource = _largest(shown, RESOURCES)
        limits = max(
            resource,
            # A queue that grows with the requests is the load's doing.
            waiting * not_loaded,
            shown[SignalClass.HIT_RATIO],
            shown[SignalClass.RESTARTS],
        )
        misses = self._share_of_class(subject, SignalClass.HIT_RATIO)
        asks_more = self._loads.asks_more(subject)
        nameless_lines = self._nameless_lines[subject]
        # A change of what is in no trouble but that of its callees is a coincidence.
        changed = self._observation.changed.get(subject, 0.0)
        changed *= max(slow, self_failing * failing, in_vain, limits, asks_more, nameless_lines)
        place, states = self._places.get(subject), self._states.get(subject, {})
        services_there = place.services if place else ()
        in_place = max([self._scores.get(name, 0.0) for name in services_there], default=0.0)
        # An ingress whose requests nobody counts says nothing of where they come from.
        measured_callers = self._loads.measured.keys() & callers
        # A job that takes a database over is an object with a state, and no callee.
        callees = self._graph.callees(subject)
        is_door = not measured_callers and not self._objects.issuperset(callees)
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
            unattributed_lines=nameless_lines,
            resource=resource,
            limits_on_path=path * limits,
            waiting=waiting,
            cache_misses=path_above * misses,
            stuck=self._stuck(subject, load),
            starved=self._starved(subject),
            asks_more=asks_more,
            cache_overloads=misses * max(map(self._overloads, callers), default=0.0),
            place_harm=place.share * in_place if place else 0.0,
            surge=surge if is_door else 0.0,
            load=max(0.0, min(1.0, loaded, self._loads.of_callers(subject))),
            load_from_caller=surge if measured_callers else 0.0,
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
            changed=changed,
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
        excess = self._loads.excess(subject)
        most = 0.0
        for callee in self._graph.callees(subject):
            limits = _largest(self._shown[callee], RESOURCES | WAITING)
            if callee in excess:
                harm = max(self.trouble(callee), self._caller_view(callee), limits)
                most = max(most, excess[callee] * harm)
            else:
                most = max(most, UNMEASURED_LOAD * limits)
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
        waiting = max([_largest(shown, WAITING) for shown in queues], default=0.0)
        # The lag of a consumer group is the consumer's own signal.
        is_consumer = subject in self._observation.moves.throughput
        return max(waiting, self._shown[subject][SignalClass.QUEUE] if is_consumer else 0.0)

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
