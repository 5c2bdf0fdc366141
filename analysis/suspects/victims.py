"""Which of a service's symptoms another service explains: the loud victim is not the culprit.

Slowness and failures travel from callee to caller. A caller's slowness is explained as far as its
callee's own rise is large enough (`explained_share`), its failures by a callee that fails, or that
is slow enough to time out. A callee whose slowness its callers do not feel harms nobody. Load
travels the other way, from caller to callee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from analysis.analyzers import fault_kind
from analysis.kinds.fault_kinds import LATENCY
from analysis.kinds.signals import SignalClass, classify
from analysis.metrics.explained_share import (
    FAILING,
    Measured,
    calls_per_request,
    explained_share,
    slower_by,
)
from analysis.metrics.shifts import KIND as METRIC_SHIFT
from analysis.metrics.shifts import shift_class
from analysis.requests.topology import Topology
from analysis.vocabulary import Alert, Finding

if TYPE_CHECKING:
    from analysis.suspects.explanations import Suspect

MAX_HOPS = 3
PER_HOP = 0.9
MAX_FAR = 50
"""Services with the most trouble of their own that are looked at beyond direct callees."""
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
LOADED = 0.5
"""What a service runs out of under a load that its caller passes on keeps half of its weight."""


def discount_symptoms(
    suspects: Mapping[str, Suspect], own: Mapping[str, float], topology: Topology, known: Measured
) -> None:
    """Take from every caller's symptoms what the callee that explains most of them explains, unless
    it began later."""
    rises = {name: slower_by(s.findings) for name, s in suspects.items()}
    began = {name: began_of(s.findings) for name, s in suspects.items()}
    far = set(
        sorted((name for name in suspects if own[name] > 0), key=lambda n: (-own[n], n))[:MAX_FAR]
    )
    reaching = {name: topology.upstream(name, MAX_HOPS) for name in sorted(far)}
    for suspect in suspects.values():
        best: dict[str, tuple[float, str | None]] = {
            name: (0.0, None) for name in suspect.scores if fault_kind(name).travels
        }
        if not best:
            continue
        near = dict.fromkeys(topology.callees(suspect.subject), 1)
        beyond = {
            f: up[suspect.subject]
            for f, up in reaching.items()
            if f not in near and suspect.subject in up
        }
        for callee, hops in sorted((beyond | near).items()):
            if hops == 0 or callee == suspect.subject or callee not in suspects:
                continue
            if not suspects[callee].is_root and began[callee].surely_after(began[suspect.subject]):
                continue
            for kind in best:
                share = _explains(kind, suspect, suspects[callee], hops, own, rises, known)
                if share > best[kind][0]:
                    best[kind] = share, callee
        for kind, (share, _) in best.items():
            suspect.scores[kind] *= 1 - EXPLAINED * share
        share, by = max(best.values(), key=lambda pair: (pair[0], pair[1] or ""))
        suspect.explained_by = by if share > 0 else None


def _explains(
    kind: str,
    caller: Suspect,
    callee: Suspect,
    hops: int,
    own: Mapping[str, float],
    rises: Mapping[str, Mapping[str, float]],
    known: Measured,
) -> float:
    """In [0, 1]: how far the callee explains this kind of the caller's trouble."""
    itself = own[callee.subject]
    slow = _shown(callee, "slow") if hops == 1 else 0.0
    fails = _shown(callee, "fails") if hops == 1 else 0.0
    size = explained_share(
        rises[callee.subject],
        rises[caller.subject],
        calls_per_request(callee.subject, caller.subject, known),
    )
    if fault_kind(kind).travels == "slow":
        share = max(itself, slow) * (1.0 if size is None else size)
    else:
        share = max(itself, fails, TIMES_OUT * slow)
        if itself < fails and known.calm(callee.subject, FAILING, callee.findings):
            share = max(itself, TIMES_OUT * fails)
    return share * PER_HOP ** (hops - 1)


def _shown(suspect: Suspect, how: Literal["slow", "fails"]) -> float:
    """The highest raw score of the faults that travel from it in this way."""
    scores = [v for name, v in suspect.raw_scores.items() if fault_kind(name).travels == how]
    return max(scores, default=0.0)


def discount_not_propagated(
    suspects: Mapping[str, Suspect], topology: Topology, known: Measured, alert: Alert
) -> None:
    """Take from a callee's latency what its callers, and the alerting service, do not feel of it.

    A service that alerts for its latency feels it, whatever its median shows.
    """
    alerting = alert.service
    sure = (
        alerting is not None
        and alert.signal is not None
        and classify(alert.signal) is SignalClass.LATENCY
    )
    rises = {name: slower_by(s.findings) for name, s in suspects.items()}
    reached = topology.downstream(alerting) if alerting is not None else {}
    for name, suspect in suspects.items():
        if LATENCY.name not in suspect.scores or name == alerting:
            continue
        above = set(topology.callers(name))
        if alerting is not None and name in reached:
            above.add(alerting)
        shares = [
            s
            for caller in sorted(above)
            if (s := _propagated(name, caller, rises, suspects, known)) is not None
        ]
        if sure and alerting in above and alerting not in rises:
            continue
        if shares:
            suspect.scores[LATENCY.name] *= max(NOT_PROPAGATED, *shares)


def _propagated(
    callee: str,
    caller: str,
    rises: Mapping[str, Mapping[str, float]],
    suspects: Mapping[str, Suspect],
    known: Measured,
) -> float | None:
    if caller in rises:
        share = explained_share(
            rises[callee], rises[caller], calls_per_request(callee, caller, known)
        )
        if share is not None:
            return share
    found = suspects[caller].findings if caller in suspects else ()
    return 0.0 if known.calm(caller, (SignalClass.LATENCY,), found) else None


def discount_load(suspect: Suspect, suspects: Mapping[str, Suspect], topology: Topology) -> None:
    """A surge of traffic comes from the caller that has it too: resources and queues behind it are
    its effect."""
    load = _surge(suspect)
    passed_on = max(
        (
            min(load, _surge(suspects[c]))
            for c in topology.callers(suspect.subject)
            if c in suspects
        ),
        default=0.0,
    )
    if passed_on > 0:
        kept = 1 - (1 - LOADED) * min(1.0, passed_on)
        for name in suspect.scores:
            if fault_kind(name).rises_with_load:
                suspect.scores[name] *= kept


def _surge(suspect: Suspect) -> float:
    """Strength of a rise of the service's requests by half or more."""
    return max(
        (
            f.strength
            for f in suspect.findings
            if f.kind == METRIC_SHIFT
            and shift_class(f) is SignalClass.TRAFFIC
            and f.effect_unit == "x"
            and (f.effect or 0.0) >= 1.5
        ),
        default=0.0,
    )


@dataclass(frozen=True)
class Began:
    """When a service's trouble began, by its log lines and by all of its findings."""

    logged: datetime | None
    at: datetime | None
    uncertainty: timedelta

    def surely_after(self, other: Began) -> bool:
        """Whether it surely began later than the other.

        Log lines have their own times. A metric's onset lies in (onset - uncertainty, onset], and
        its point may stand for the time before or after its stamp.
        """
        if self.logged is not None and other.logged is not None:
            return self.logged - FIRST_LINE > other.logged
        slack = max(self.uncertainty, other.uncertainty)
        return self.at is not None and other.at is not None and self.at - slack > other.at


def began_of(findings: Sequence[Finding]) -> Began:
    """When the trouble that these findings, the strongest first, tell of began."""
    uncertainty = max((f.onset_uncertainty_s or 0.0 for f in findings[:3]), default=0.0)
    logged = onset_of([f for f in findings if f.signal == "logs"])
    return Began(logged, onset_of(findings), timedelta(seconds=uncertainty))


def later(one: Sequence[Finding], other: Sequence[Finding]) -> bool:
    """Whether the trouble of `one` surely began later than that of `other`."""
    return began_of(one).surely_after(began_of(other))


def onset_of(findings: Sequence[Finding]) -> datetime | None:
    """The earliest onset among the findings at least half as strong as the strongest."""
    strongest = max((f.strength for f in findings if f.onset), default=0.0)
    return min(
        (f.onset for f in findings if f.onset and f.strength >= 0.5 * strongest), default=None
    )
