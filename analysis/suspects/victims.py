"""Which of a service's symptoms another service explains: the loud victim is not the culprit.

Slowness and failures travel from callee to caller. A callee explains as much of a caller's slowness
as its own rise is large enough for (`explained_share`). It explains the caller's failures if it
fails, or is slow enough to time out. A callee whose slowness its callers do not show harms nobody.
Load travels the other way, from caller to callee.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

import numpy as np

from faultline.analysis.analyzers import fault_kind, fault_of
from faultline.analysis.kinds.fault_kinds import LATENCY, TRAFFIC
from faultline.analysis.kinds.finding_kinds import FAN_OUT
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.metrics.explained_share import (
    FAILING,
    Measured,
    calls_per_request,
    explained_share,
    slower_by,
)
from faultline.analysis.metrics.shift_statistics import Floats
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.metrics.shifts import shift_class
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.vocabulary import Alert, Finding

MAX_HOPS = 3
PER_HOP = 0.9
MAX_FAR = 50
"""Services with the highest score that are checked beyond direct callees."""
EXPLAINED = 0.8
"""A symptom keeps a fifth of its weight when a callee explains it fully."""
TIMES_OUT = 0.5
"""A slow callee explains its caller's failures this far: some calls time out."""
NOT_PROPAGATED = 0.4
"""A latency keeps at least this much where its callers' latencies are measured and do not show
it."""
FIRST_LINE = timedelta(seconds=20)
"""How far apart the first lines of one failure in caller and callee may lie by chance: waits and
retries."""
COARSE = 2
"""Order in time decides where samples lie at most half as far apart as the onsets: the first sample
of a rate after an onset shows a part of it."""
UNMEASURED_LOAD = 0.7
"""Where a store's own requests are not counted, it is taken to get this much of the load above it
(our choice)."""
LOADED = 0.5
"""What a service runs out of under a load that its caller passes on keeps half of its weight."""


def discount_symptoms(
    suspects: Mapping[str, Suspect],
    inherent_scores: Mapping[str, float],
    topology: Topology,
    measures: Measured,
) -> None:
    """Take from every caller's symptoms what the callee that explains most of them explains, unless
    it began later."""
    model = _Propagation(
        suspects=suspects,
        inherent_scores=inherent_scores,
        rises={name: slower_by(suspect.findings) for name, suspect in suspects.items()},
        began={name: began_of(suspect.findings) for name, suspect in suspects.items()},
        measures=measures,
    )
    by_score = sorted(name for name in suspects if inherent_scores[name] > 0)
    by_score.sort(key=lambda name: -inherent_scores[name])
    far = sorted(by_score[:MAX_FAR])
    reaching = {name: topology.upstream(name, MAX_HOPS) for name in far}
    for suspect in suspects.values():
        kinds = [name for name in suspect.scores if fault_kind(name).travels]
        if not kinds:
            continue
        # What a service does itself is followed over several calls, its symptoms over one.
        hops = {name: up[suspect.subject] for name, up in reaching.items() if suspect.subject in up}
        hops |= dict.fromkeys(topology.callees(suspect.subject), 1)
        explanations = model.strongest_explanations(suspect, kinds, hops)
        for kind, (share, _) in explanations.items():
            suspect.scores[kind] *= 1 - EXPLAINED * share
        share, by = max(explanations.values(), key=lambda pair: (pair[0], pair[1] or ""))
        suspect.explained_by = by if share > 0 else None


@dataclass(frozen=True)
class _Propagation:
    """What is known of how symptoms travel between the services of a case, by service."""

    suspects: Mapping[str, Suspect]
    inherent_scores: Mapping[str, float]
    rises: Mapping[str, Mapping[str, float]]
    began: Mapping[str, Began]
    measures: Measured

    def strongest_explanations(
        self, caller: Suspect, kinds: Sequence[str], hops: Mapping[str, int]
    ) -> dict[str, tuple[float, str | None]]:
        """For each kind of fault the largest share that one of the services in `hops` explains, and
        that service."""
        strongest: dict[str, tuple[float, str | None]] = dict.fromkeys(kinds, (0.0, None))
        for callee, distance in sorted(hops.items()):
            if distance == 0 or not self._may_explain(callee, caller.subject):
                continue
            for kind in kinds:
                share = self._share(kind, caller.subject, self.suspects[callee], distance)
                if share > strongest[kind][0]:
                    strongest[kind] = share, callee
        return strongest

    def _may_explain(self, callee: str, caller: str) -> bool:
        if callee == caller or callee not in self.suspects:
            return False
        # A root cause may be noticed late: its own metrics can be coarser than its victims'.
        if self.suspects[callee].is_root:
            return True
        return not self.began[callee].surely_after(self.began[caller])

    def _share(self, kind: str, caller: str, callee: Suspect, hops: int) -> float:
        """In [0, 1]: how far the callee explains this kind of the caller's faults."""
        itself = self.inherent_scores[callee.subject]
        # Farther away, only what a service does itself is known to matter.
        slow = _shown(callee, "slow") if hops == 1 else 0.0
        fails = _shown(callee, "fails") if hops == 1 else 0.0
        fault = fault_kind(kind)
        if fault.travels == "slow" and not fault.is_symptom:
            # A pool or a queue fills however little slower what it waits for is.
            share = max(itself, slow)
        elif fault.travels == "slow":
            calls = calls_per_request(callee.subject, caller, self.measures)
            size = explained_share(self.rises[callee.subject], self.rises[caller], calls)
            share = max(itself, slow) * (1.0 if size is None else size)
        else:
            share = max(itself, fails, TIMES_OUT * slow)
            # Slow and without failures, it explains its caller's failures only by timing out.
            if itself < fails and self.measures.calm(callee.subject, FAILING, callee.findings):
                share = max(itself, TIMES_OUT * fails)
        return share * PER_HOP ** (hops - 1)


def _shown(suspect: Suspect, how: Literal["slow", "fails"]) -> float:
    """The highest raw score of the faults that travel from it in this way."""
    scores = [v for name, v in suspect.raw_scores.items() if fault_kind(name).travels == how]
    return max(scores, default=0.0)


def discount_not_propagated(
    suspects: Mapping[str, Suspect], topology: Topology, measures: Measured, alert: Alert
) -> None:
    """Take from a callee's latency what its callers, and the alerting service, do not show of it.

    A service that alerts for its latency is slow, whatever its median shows.
    """
    alerting = alert.service
    rises = {name: slower_by(suspect.findings) for name, suspect in suspects.items()}
    reached = topology.downstream(alerting) if alerting is not None else {}
    is_latency = classify(alert.signal or "") is SignalClass.LATENCY
    alerts_for_latency = is_latency and alerting not in rises
    for name, suspect in suspects.items():
        if LATENCY.name not in suspect.scores or name == alerting:
            continue
        above = set(topology.callers(name))
        if alerting is not None and name in reached:
            above.add(alerting)
        # The alerting service is slow by its own alert, so its callees harm it.
        if alerts_for_latency and alerting in above:
            continue
        shares = []
        for caller in above:
            share = _propagated(name, caller, rises, suspects, measures)
            if share is not None:
                shares.append(share)
        if shares:
            suspect.scores[LATENCY.name] *= max(NOT_PROPAGATED, *shares)


def _propagated(
    callee: str,
    caller: str,
    rises: Mapping[str, Mapping[str, float]],
    suspects: Mapping[str, Suspect],
    measures: Measured,
) -> float | None:
    """How much of the callee's rise the caller shows; None where the caller is not measured."""
    if caller in rises:
        calls = calls_per_request(callee, caller, measures)
        share = explained_share(rises[callee], rises[caller], calls)
        if share is not None:
            return share
    findings = suspects[caller].findings if caller in suspects else ()
    return 0.0 if measures.calm(caller, (SignalClass.LATENCY,), findings) else None


def discount_load(suspects: Mapping[str, Suspect], topology: Topology) -> None:
    """Load comes from above: from a caller that gets more requests or makes more calls for each, or
    from a cache beside it that misses. Resources and queues behind it are its effect, and so are
    those of what is asked for more by callers, whichever of them it is."""
    sources: dict[str, list[Finding]] = {}
    for name, suspect in suspects.items():
        findings = [
            f for f in suspect.findings if f.kind == FAN_OUT.name or _rise(f) or _is_miss(f)
        ]
        if findings:
            sources[name] = findings
    for suspect in suspects.values() if sources else ():
        rises = [_rise(finding) for finding in suspect.findings if _is_traffic(finding)]
        load = max(rises, default=UNMEASURED_LOAD)
        # Of a front door the demand itself is what happened.
        if not rises or not topology.callers(suspect.subject):
            load = min(1.0, load, _load_above(suspect.subject, sources, topology))
        for name in suspect.scores:
            if fault_kind(name).rises_with_load:
                suspect.scores[name] *= 1 - (1 - LOADED) * load


def _load_above(
    subject: str, sources: Mapping[str, Sequence[Finding]], topology: Topology
) -> float:
    """How clearly more is asked of what calls it, or is missed by a cache of the same callers."""
    above = topology.upstream(subject, MAX_HOPS)
    passed_on = 0.0
    for caller in above.keys() & sources.keys() - {subject}:
        for finding in sources[caller]:
            # More calls to somebody else load nothing here.
            if _is_traffic(finding) or finding.series.get("service", "") in above:
                passed_on = max(passed_on, finding.strength * PER_HOP ** (above[caller] - 1))
    for caller in topology.callers(subject):
        for sibling in sources.keys() & set(topology.callees(caller)) - {subject}:
            misses = [finding.strength for finding in sources[sibling] if _is_miss(finding)]
            passed_on = max([passed_on, *misses])
    return passed_on


def _is_miss(finding: Finding) -> bool:
    return finding.kind == METRIC_SHIFT and shift_class(finding) is SignalClass.HIT_RATIO


def _is_traffic(finding: Finding) -> bool:
    return finding.kind == METRIC_SHIFT and shift_class(finding) is SignalClass.TRAFFIC


def _rise(finding: Finding) -> float:
    """Strength of a rise of requests by half or more."""
    is_more = finding.effect_unit == "x" and (finding.effect or 0.0) >= 1.5
    return finding.strength if is_more and _is_traffic(finding) else 0.0


@dataclass(frozen=True)
class Began:
    """When a service's symptoms began, by its log lines and by all of its findings."""

    logged: datetime | None
    at: datetime | None
    uncertainty: timedelta

    def surely_after(self, other: Began) -> bool:
        """Whether it surely began later than the other.

        Log lines have their own times. A metric's onset lies in (onset - uncertainty, onset], and
        its point may stand for the time before or after its stamp.
        """
        # Logs carry the time of each event, metrics only that of a sample.
        if self.logged is not None and other.logged is not None:
            return self.logged - FIRST_LINE > other.logged
        slack = COARSE * max(self.uncertainty, other.uncertainty)
        return self.at is not None and other.at is not None and self.at - slack > other.at


def began_of(findings: Sequence[Finding]) -> Began:
    """When the symptoms in these findings, the strongest first, began."""
    uncertainty = max((f.onset_uncertainty_s or 0.0 for f in findings[:3]), default=0.0)
    logged = onset_of([f for f in findings if f.signal == "logs"])
    return Began(logged, onset_of(findings), timedelta(seconds=uncertainty))


def later(findings: Sequence[Finding], other: Sequence[Finding]) -> bool:
    """Whether the symptoms of `findings` surely began later than those of `other`."""
    return began_of(findings).surely_after(began_of(other))


def onset_of(findings: Sequence[Finding]) -> datetime | None:
    """The earliest onset among the findings at least half as strong as the strongest.

    Other traffic than before is no trouble, and one part of many moves by chance: they count only
    where there is nothing else.
    """
    dated = [finding for finding in findings if finding.onset is not None]
    dated = [finding for finding in dated if "labels" not in finding.series] or dated
    telling = [finding for finding in dated if fault_of(finding) is not TRAFFIC] or dated
    strongest = max((finding.strength for finding in telling), default=0.0)
    clear = [f.onset for f in telling if f.onset and f.strength >= 0.5 * strongest]
    return min(clear, default=None)


# How much more is asked of a service than just before, beside how much its requests change anyway.
#
# The level just before is what counts: requests rise every morning and double every week, and only
# a baseline of the same hours would know.

QUANTILE = 0.95
"""p95 of how much requests change from one stretch to the next while nothing is wrong."""
RECENT = 4
"""Stretches as long as the incident before it: what leads up to an alert may reach into the last of
them."""
LEAST_CHANGES = 3
USUAL_IF_UNKNOWN = 0.3
"""Logarithm that is taken for usual where the past is too short to tell: a third more or less."""
LEAST_USUAL = 0.1
LEAST_POINTS = 3
FALLS_TO = 0.01
"""Requests that stop are read as a hundredth, so that a logarithm exists."""
LEAST_CALLEES = 2
"""With a single callee it is unknown whether its caller gets more requests or calls more often."""


@dataclass(frozen=True)
class LoadChange:
    """Requests before and now, in their own unit, and by which logarithm they change anyway."""

    before: float
    now: float
    usual: float

    @property
    def log(self) -> float:
        """The logarithm of how many times its usual requests it gets; 0 within the usual."""
        if self.before <= 0:
            return 0.0
        # A logarithm of zero does not exist, and requests do stop.
        change = math.log(max(self.now, FALLS_TO * self.before) / self.before)
        return change if abs(change) > self.usual else 0.0

    @property
    def clearness(self) -> float:
        """How many times the usual change it is."""
        change = math.log(max(self.now, FALLS_TO * self.before) / self.before)
        return abs(change) / self.usual


def load_change(deviation: Deviation, now: float) -> LoadChange | None:
    """The change of one series; `now` is its level while the alert is bad. None without requests
    before."""
    past = deviation.values[: -deviation.searched]
    length = max(LEAST_POINTS, min(deviation.searched, len(past)))
    # The median of each stretch of the incident's length, up to its start.
    count = max(1, len(past) // length)
    # The latest stretches up to the start; what does not fill one at the beginning is left out.
    stretches = past[-count * length :].reshape(count, -1)
    levels = np.asarray(np.median(stretches, axis=1))
    before = float(np.median(levels[-RECENT:]))
    if before <= 0:
        return None
    return LoadChange(before, max(0.0, now), _usual(levels))


def _usual(levels: Floats) -> float:
    """By how much a stretch differs from those before it while nothing is wrong."""
    if len(levels) < RECENT + LEAST_CHANGES:
        return USUAL_IF_UNKNOWN
    before = np.median(np.lib.stride_tricks.sliding_window_view(levels[:-1], RECENT), axis=1)
    after = levels[RECENT:]
    mask = (before > 0) & (after > 0)
    changes = np.abs(np.log(after[mask] / before[mask]))
    if len(changes) < LEAST_CHANGES:
        return USUAL_IF_UNKNOWN
    return max(LEAST_USUAL, float(np.quantile(changes, QUANTILE)))


def together(parts: Iterable[LoadChange]) -> LoadChange:
    """The change of a service over its instances."""
    every = list(parts)
    return LoadChange(
        sum(part.before for part in every),
        sum(part.now for part in every),
        float(np.median([part.usual for part in every])),
    )


@dataclass(frozen=True)
class Loads:
    """By service, how much more is asked of it, as a logarithm."""

    measured: Mapping[str, LoadChange]
    graph: Topology
    calls: Mapping[tuple[str, str], LoadChange] = field(default_factory=dict)
    """By caller and callee, where the caller counts its calls."""

    def of(self, service: str) -> float | None:
        """Measured, else what its callees have in common; None where neither is known."""
        change = self.measured.get(service)
        if change is not None:
            return change.log
        return self._common.get(service)

    def of_callers(self, service: str) -> float:
        """The largest rise among those that call it; 0 where none is known."""
        loads = (self.of(caller) for caller in self.graph.callers(service))
        return max([0.0, *(load for load in loads if load is not None)])

    def asks_more(self, service: str) -> float:
        """In [0, 1]: how much more often it calls one of its callees than it and the callee's
        other callers are asked for more."""
        return max(self.excess(service).values(), default=0.0)

    def excess(self, service: str) -> dict[str, float]:
        """The same for each of its callees whose requests are known."""
        service_load = self.of(service) or 0.0
        excess = {}
        for callee in self.graph.callees(service):
            call = self.calls.get((service, callee))
            change = self.measured.get(callee)
            if call is not None:
                # The caller counts these calls itself, so no other caller's share is in them.
                more = call.log - service_load
            elif change is not None:
                other_loads = (self.of(c) for c in self.graph.callers(callee) if c != service)
                explained = max([service_load, *(load for load in other_loads if load is not None)])
                more = change.log - explained
            else:
                continue
            excess[callee] = min(1.0, max(0.0, more))
        return excess

    def starved(self, service: str) -> float:
        """In [0, 1]: how much less it gets than its callers are asked for."""
        change = self.measured.get(service)
        if change is None or not self.graph.callers(service):
            return 0.0
        return min(1.0, max(0.0, self.of_callers(service) - change.log))

    @cached_property
    def _common(self) -> dict[str, float]:
        commons = {}
        for service in sorted({caller for caller, _ in self.graph.edges}):
            callees = self.graph.callees(service)
            logs = [self.measured[callee].log for callee in callees if callee in self.measured]
            if len(logs) >= LEAST_CALLEES:
                commons[service] = float(np.median(logs))
        return commons
