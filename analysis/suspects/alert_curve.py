"""When the alert was bad, and how far another series was bad at the same times.

What was bad already, or is bad still, while the alert is calm does not explain it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from faultline.analysis.alert_signal.deriving import watched_signal
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.metrics.explained_share import FAILING
from faultline.analysis.metrics.shift_statistics import Floats, Ints
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.vocabulary import Alert

LEAST_SIGMAS = 2.0
"""An alerting signal that never left two sigmas has no course in time to compare with."""
LEAST_POINTS = 3
LEAST_AGREEMENT = 0.05
"""Clocks, lags and steps differ: disagreement in time alone rules nobody out."""
CALM_POINTS = 0.5
"""Without so much calm nothing can be said about what was bad while the alert was calm."""
LAGS = (-1, 0, 1)
SYMPTOM_CLASSES = frozenset({SignalClass.LATENCY}) | FAILING


@dataclass(frozen=True)
class AlertCurve:
    """How bad the alerting signal is at its times (ns), in [0, 1] of its worst."""

    times: Ints
    badness: Floats
    deviation: Deviation

    @cached_property
    def _step(self) -> int:
        return _step(self.times)

    def agreement(self, other: Deviation) -> float:
        """In [0.05, 1]: how far the series is bad while the alert is, less how far it is while the
        alert is calm.

        The best of one step earlier, none and one step later is taken.
        """
        inside = (other.times >= self.times[0]) & (other.times <= self.times[-1])
        times = other.times[inside]
        badness = np.clip(other.badness[inside], 0.0, None)
        if len(times) < LEAST_POINTS:
            # So coarse a series has no course in time.
            return 0.3
        worst = float(np.max(badness))
        if worst <= 0:
            return LEAST_AGREEMENT
        share = badness / worst
        step = max(self._step, _step(times))
        top_agreement = max(self._lagged(times + lag * step, share) for lag in LAGS)
        return float(np.clip(top_agreement, LEAST_AGREEMENT, 1.0))

    def _lagged(self, times: Ints, share: Floats) -> float:
        at = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(self.badness) - 1)
        bad = self.badness[at]
        calm = 1.0 - bad
        if bad.sum() <= 0:
            # The alert is never bad at these times, so nothing can agree with it.
            return 0.0
        while_bad = float((bad * share).sum() / bad.sum())
        if calm.sum() < CALM_POINTS:
            return while_bad
        return while_bad - float((calm * share).sum() / calm.sum())


def _step(times: Ints) -> int:
    return int(np.median(np.diff(times))) if len(times) > 1 else 0


def alerting_service(alert: Alert, services: Iterable[str]) -> str | None:
    """The service that the alert names, else the one of the known ones whose name is in its
    title."""
    if alert.service:
        return alert.service
    # Punctuation of titles sticks to the words.
    words = {word.strip(".,:;()[]'\"") for word in alert.title.split()}
    named = sorted((name for name in services if name in words), key=lambda n: (-len(n), n))
    return named[0] if named else None


def alerting_series(
    alert: Alert, service: str | None, deviations: Sequence[Deviation]
) -> Deviation | None:
    """The series that alerts: by its name, else the one of its service that is most out of its
    noise and of the class that the alert speaks of. None where there is none."""
    matching_deviations = [
        deviation
        for deviation in deviations
        if service is not None and deviation.service == service
    ]
    named = [
        matching_deviation
        for matching_deviation in matching_deviations
        if alert.signal and matching_deviation.signal == alert.signal
    ]
    classes = signal_classes(alert)
    alike = named or [
        matching_deviation
        for matching_deviation in matching_deviations
        if matching_deviation.signal_class in classes
    ]
    return max(alike, key=lambda deviation: (deviation.excess, deviation.signal), default=None)


def signal_classes(alert: Alert) -> frozenset[SignalClass]:
    """What the alert may be about: its signal, else what its rule or its words say, else any
    symptom."""
    if alert.signal:
        signal_class = classify(alert.signal)
    else:
        signal_class = (alert.watches or watched_signal(alert)).signal_class
    if signal_class in FAILING:
        return FAILING
    unknown = signal_class is SignalClass.OTHER and not alert.signal
    return SYMPTOM_CLASSES if unknown else frozenset({signal_class})


def alert_curve(case: Case, alerting: Deviation | None) -> AlertCurve | None:
    """The alerting signal over the incident and as long before it; None where it has no course in
    time."""
    if alerting is None:
        return None
    start = int(case.scope.incident.start.timestamp() * 1e9)
    end = int(case.scope.incident.end.timestamp() * 1e9)
    # Take as much time before it as it lasts, so that calm and trouble weigh alike.
    inside = (alerting.times >= 2 * start - end) & (alerting.times <= end)
    badness = alerting.badness[inside]
    if len(badness) < LEAST_POINTS or float(np.max(badness)) <= LEAST_SIGMAS:
        return None
    shares = np.clip(badness / float(np.max(badness)), 0.0, 1.0)
    return AlertCurve(alerting.times[inside], shares, alerting)
