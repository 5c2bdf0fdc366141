"""The methods, each a function from a case to services, the likeliest first.

None has weights. They know less than the published ones, which are given the moment of the fault:
theirs is the incident window of the alert, as it is for the analysis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from faultline.analysis.errors import FaultlineError
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.metrics.shift_statistics import Floats
from faultline.evaluation.figures import LARGEST_SHIFT
from proving_ground.baselines.inputs import BaselineInputs, MeasuredSeries
from proving_ground.baselines.simple_rules import simple_rules

GRADED_SERVICES = 5
"""Services that are graded."""
LEAST_TOGETHER = 4
"""Fewer points in common have no correlation to speak of."""


def named_by_baselines(inputs: BaselineInputs) -> dict[str, tuple[str, ...]]:
    """What each method names. A method that a case's tables break has named nothing."""
    methods_by_name = {}
    for name, method in METHODS.items():
        try:
            methods_by_name[name] = tuple(method(inputs)[:GRADED_SERVICES])
        except FaultlineError:
            methods_by_name[name] = ()
    return methods_by_name


def alerting_service(inputs: BaselineInputs) -> list[str]:
    """Whoever alerts."""
    return list(inputs.alerting)


def busiest_callee(inputs: BaselineInputs) -> list[str]:
    """Whoever the alerting service calls, the one with most traffic first."""
    traffic: dict[str, float] = {}
    for series in inputs.series:
        if series.signal_class is SignalClass.TRAFFIC:
            traffic[series.service] = max(
                traffic.get(series.service, 0.0), float(np.mean(series.now))
            )
    callees: list[str] = []
    for service in inputs.alerting[:1]:
        callees += inputs.graph.callees(service)
    return sorted(callees, key=lambda callee: (-traffic.get(callee, 0.0), callee))


def largest_shift(inputs: BaselineInputs) -> list[str]:
    """By the largest move of any series of the service, either way."""
    return _ranked((series.service, series.shift) for series in inputs.series)


def n_sigma(inputs: BaselineInputs) -> list[str]:
    """By the highest point in standard deviations above the mean before."""
    scores = []
    for series in inputs.series:
        spread = float(np.std(series.before)) or 1.0
        scores.append((series.service, float(np.max(series.now) - np.mean(series.before)) / spread))
    return _ranked(scores)


def baro(inputs: BaselineInputs) -> list[str]:
    """BARO's robust scorer (FSE 2024): the highest point in interquartile ranges above the
    median."""
    scores = []
    for series in inputs.series:
        centre, scale = series.robust_scale
        scores.append((series.service, (float(np.max(series.now)) - centre) / scale))
    return _ranked(scores)


def score_ordering(inputs: BaselineInputs) -> list[str]:
    """By how rarely the service was so far out before (Orchard, Okati and Janzing, NeurIPS
    2025)."""
    return _ranked(_rarities(inputs).items())


def smooth_traversal(inputs: BaselineInputs) -> list[str]:
    """By how much rarer the service's state is than that of whatever it calls, of what the alert
    reaches (same source)."""
    rarity = _rarities(inputs)
    reached: set[str] = set()
    for service in inputs.alerting[:1]:
        reached.update(inputs.graph.downstream(service))
    scores = []
    for service in sorted(reached or inputs.services):
        below = [rarity.get(callee, 0.0) for callee in inputs.graph.callees(service)]
        scores.append((service, max(0.0, rarity.get(service, 0.0) - max(below, default=0.0))))
    return _ranked(scores)


def ranked_correlation(inputs: BaselineInputs) -> list[str]:
    """By the correlation of any series with the alerting one around the incident (PetShop's
    baseline, CLeaR 2024)."""
    target = inputs.target
    if target is None:
        return []
    scores = []
    for series in inputs.series:
        if series is not target:
            scores.append((series.service, _significance(target, series)))
    return _ranked(scores)


METHODS: Mapping[str, Callable[[BaselineInputs], list[str]]] = {
    "the alerting service": alerting_service,
    "its busiest callee": busiest_callee,
    LARGEST_SHIFT: largest_shift,
    "N-sigma": n_sigma,
    "BARO": baro,
    "score ordering": score_ordering,
    "smooth traversal": smooth_traversal,
    "ranked correlation": ranked_correlation,
    "simple rules": simple_rules,
}


def _ranked(scores: Iterable[tuple[str, float]]) -> list[str]:
    """Services by their highest score."""
    highest: dict[str, float] = {}
    for service, score in scores:
        highest[service] = max(highest.get(service, -math.inf), score)
    return sorted(highest, key=lambda service: (-highest[service], service))


def _rarities(inputs: BaselineInputs) -> dict[str, float]:
    """Of each service the -log p of its rarest series; p counts windows before the incident, as
    long as it, that were as far out.

    Both methods score one kind of signal: where the alert names one, a service is scored by its
    series of that class, if it has any.
    """
    rarities: dict[str, float] = {}
    for series in inputs.alike:
        rarities[series.service] = max(rarities.get(series.service, 0.0), _rarity(series))
    return rarities


def _rarity(series: MeasuredSeries) -> float:
    centre, scale = series.robust_scale
    length = min(len(series.now), len(series.before))
    before = np.lib.stride_tricks.sliding_window_view(np.abs(series.before - centre), length)
    quiet = _second_largest(before)
    height = float(_second_largest(np.abs(series.now - centre)[None, :])[0])
    as_far = int((quiet >= height).sum())
    # Baselines are short: many series reach the least p, and of those the larger move is rarer.
    beyond = min(height / scale, 1e6) * 1e-9
    return beyond - math.log((1 + as_far) / (1 + len(quiet)))


def _second_largest(windows: Floats) -> Floats:
    """Of each row the second largest point, as one alone may be a spike."""
    place = min(2, windows.shape[1])
    return np.asarray(np.partition(windows, -place, axis=1)[:, -place])


def _significance(target: MeasuredSeries, other: MeasuredSeries) -> float:
    """-log p of no correlation, by Fisher's transform, over the incident and as long before it."""
    span = int(target.times[-1] - target.times[0])
    since = int(target.times[0]) - span
    times = np.concatenate([target.before_times, target.times])
    values = np.concatenate([target.before, target.now])
    other_times = np.concatenate([other.before_times, other.times])
    other_values = np.concatenate([other.before, other.now])
    other_inside = other_times >= since
    inside = times >= since
    if min(other_inside.sum(), inside.sum()) < LEAST_TOGETHER:
        return 0.0
    # Steps differ: the other is read between its points.
    read = np.interp(times[inside], other_times[other_inside], other_values[other_inside])
    target_values = values[inside]
    if not np.std(read) or not np.std(target_values):
        return 0.0
    r = min(abs(float(np.corrcoef(target_values, read)[0, 1])), 1 - 1e-9)
    z = math.atanh(r) * math.sqrt(max(len(target_values) - 3, 1))
    # Beyond 37 deviations p is 0 in floating point; the order by z is the same.
    return z if z > 37 else -math.log(math.erfc(z / math.sqrt(2)))
