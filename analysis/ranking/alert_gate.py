"""Whether the alerting signal is out of its own noise: the first question, which nothing overrules.

The signal's window is compared with windows of the same length while nothing was wrong. A signal
that is clearly beyond them is an incident, one that is within them is none, whatever other series
do. Between the two a service that the alerting one reaches has to be out of its noise at the same
times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.metrics.alert_evaluation import AlertEvaluation
from faultline.analysis.metrics.explained_share import FAILING
from faultline.analysis.suspects.deviations import NOT_SERVING, Deviation
from faultline.analysis.suspects.observed import Observed

CLEARLY_OUT = 1.7
"""Times what its quiet windows reach. Of 70 simulated alerts without an incident three were beyond
it, of 203 with one eleven were not (training stream)."""
WITHIN = 1.25
"""Up to this it is within its own noise; a quarter more is what a 95th percentile of a few dozen
windows may miss."""
LASTS = 3.0
"""Times what quiet windows sum up beyond their noise. Two blips hours before hide no incident that
goes on."""
CORROBORATES = 2.0
"""A service below is out of its noise at least so clearly that two of a hundred services, which no
incident touches, do not suffice."""
AGREES = 0.5
LEAST_QUIET = 3
"""Half-overlapping windows. The default windows, two hours before an incident of half an hour, give
three to six."""
LEAST_QUIET_OF_DOORS = 8
"""Of several front doors any may be out by chance, so each needs more of its past."""


USER_FACING = frozenset({SignalClass.LATENCY}) | FAILING


class GateState(StrEnum):
    """What the alerting signal itself says."""

    UNKNOWN = "unknown"
    """It could not be compared, or with too little of its past."""
    CALM = "calm"
    UNCLEAR = "unclear"
    """Beyond its quiet windows, and by less than chance may bring about."""
    OUT = "out"


@dataclass(frozen=True)
class AlertGate:
    """The alerting signal's state, and whether a service below bears it out."""

    state: GateState
    corroborated: bool = False
    names_nothing: bool = False
    """The alert names no service, and no front door is clearly out of its noise."""

    @property
    def is_calm(self) -> bool:
        """Whether the alert needs no explanation."""
        if self.state is GateState.UNCLEAR:
            return not self.corroborated
        return self.state is GateState.CALM


def alert_gate(observation: Observed, evaluation: AlertEvaluation | None = None) -> AlertGate:
    """The gate of a case. An alert that names no service is about the front doors, and an alert
    whose own query is true, as it was not on earlier days, is an incident by itself."""
    if evaluation is not None and evaluation.is_active:
        return AlertGate(GateState.OUT)
    if observation.alerting is None:
        out = _any_front_door_out(observation)
        return AlertGate(GateState.OUT if out else GateState.UNKNOWN, names_nothing=not out)
    if observation.alert is None:
        return AlertGate(GateState.UNKNOWN)
    # Too short a past cannot tell what is unusual.
    if observation.alert.quiet_windows < LEAST_QUIET:
        return AlertGate(GateState.UNKNOWN)
    if observation.alert.excess >= CLEARLY_OUT or observation.alert.lasting >= LASTS:
        return AlertGate(GateState.OUT)
    if observation.alert.excess < WITHIN and observation.alert.ends_out >= CLEARLY_OUT:
        # The second worst point says nothing yet of what the last scrape alone has seen.
        return AlertGate(GateState.UNKNOWN)
    state = GateState.CALM if observation.alert.excess < WITHIN else GateState.UNCLEAR
    return AlertGate(state, corroborated=_corroborated(observation))


def _any_front_door_out(observation: Observed) -> bool:
    """Whether a service that nobody calls is clearly slower or fails more than its past."""
    for deviation, _ in observation.service_series:
        if deviation.signal_class not in USER_FACING or observation.graph.callers(
            deviation.service
        ):
            continue
        # A service without any known call may stand anywhere, so it is no front door.
        is_door = bool(observation.graph.callees(deviation.service))
        if (
            is_door
            and deviation.quiet_windows >= LEAST_QUIET_OF_DOORS
            and deviation.excess >= CLEARLY_OUT
        ):
            return True
    return False


def _corroborated(observation: Observed) -> bool:
    if observation.alerting is None:
        return False
    below = observation.graph.downstream(observation.alerting)
    deviations = (
        deviation
        for deviation, _ in observation.service_series
        if deviation.service != observation.alerting and deviation.service in below
    )
    return _any_clear(deviations, observation)


def _any_clear(deviations: Iterable[Deviation], observation: Observed) -> bool:
    for deviation in deviations:
        serving = deviation.signal_class not in NOT_SERVING
        agrees = observation.agreement(deviation.service, deviation.signal) >= AGREES
        if serving and agrees and deviation.excess >= CORROBORATES:
            return True
    return False
