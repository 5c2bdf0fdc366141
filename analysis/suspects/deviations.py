"""How far each series of a case is out of its own noise, point by point, in the harmful direction.

A series is compared with itself: with centre and scale of its baseline, and with what windows as
long as the incident's showed while nothing was wrong. Counts of failures are read as shares of the
requests they were counted among, since they grow with the load alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows, span_windows
from faultline.analysis.kinds.signals import PEER, SignalClass, classify, is_headroom, parts_of
from faultline.analysis.metrics.series import COUNTER, Block, blocks_of, labels_of
from faultline.analysis.metrics.shift_statistics import CLIP, Floats, Ints, describe
from faultline.analysis.requests.critical_path import visits_of
from faultline.analysis.requests.error_origin import FAILED, peer_calls

LEAST_NOISE = 3.0
"""A series is taken to reach three sigmas in a quiet window, however calm its baseline was."""
LEAST_LASTING = 45.0
"""And to sum up five points that are as far out as one may count."""
QUIET_QUANTILE = 0.95
"""What a quiet window shows: the p95 of them."""
LEAST_QUIET_WINDOWS = 3
"""Of fewer quiet windows the highest is taken."""
FLAT = 0.1
"""A baseline without noise is given a tenth of the signal's usual scale, or of its own move."""
ROUNDING = 1e-9
"""A smaller share of the level or the move is no noise."""
LEAST_LOAD = 0.05
"""A share of failures is taken of at least a twentieth of the usual requests: of three requests at
night one failure is no incident."""
MIN_OVERLAP = 0.8
"""Least share of the points at which failures and requests must both have been counted."""
FAR_OUT = 1000.0
"""What is farther out of its noise says no more, or one calm series would make all others small."""
CLEARLY_OUT = math.log1p(4.0)
"""The size of a series that is clearly out of its noise. In every fourth case of the training
stream the loudest series had at most 1.1 in ten of 17 systems without a culprit to be seen, and
more than 1.4 in all of 43 with one, in half of them more than 5.8. Recorded faults are fainter: six
of 22 had at most 1.4."""
HARMFUL_DOWN = frozenset({SignalClass.AVAILABILITY, SignalClass.HIT_RATIO})
EITHER_WAY = frozenset({SignalClass.TRAFFIC, SignalClass.NETWORK, SignalClass.OTHER})
NOT_SERVING = frozenset({SignalClass.TRAFFIC, SignalClass.OTHER, SignalClass.LIMIT})
"""Classes that do not say how well a service, an instance or a call does."""
_SERVES = frozenset({SignalClass.LATENCY, SignalClass.ERRORS, SignalClass.AVAILABILITY})
SHARE_WORDS = ("ratio", "rate", "pct", "percent", "share")


@dataclass(frozen=True)
class Deviation:
    """One series: its times (ns) with `badness` in sigmas, positive for the worse; and its level.

    The last `searched` points are those of the incident window. `before` and `now` are levels in
    the series' own unit, turned so that more is worse where the signal has a harmful direction.
    """

    service: str
    signal: str
    signal_class: SignalClass
    labels: Mapping[str, str]
    times: Ints
    badness: Floats
    values: Floats
    searched: int
    before: float
    excess: float
    """Second largest badness of the window over that of quiet windows: beyond 1 it is out of its
    own noise."""
    quiet_windows: int

    @property
    def size(self) -> float:
        """0 within its own noise; grows with the logarithm of the excess beyond it."""
        return math.log1p(min(self.excess, FAR_OUT)) if self.excess > 1 else 0.0

    @cached_property
    def lasting(self) -> float:
        """How much is summed up beyond the noise in the worst stretch of the window, over what
        quiet windows sum up: a hundred bad points are rarer than two that are worse."""
        now, before = self.badness[-self.searched :], self.badness[: -self.searched]
        quiet = [_summed(window) for window in _windows(before, self.searched)]
        usual = usual_height(np.array(quiet)) if quiet else 0.0
        return _summed(now) / max(usual, LEAST_LASTING)

    @cached_property
    def ends_out(self) -> float:
        """The last point over the highest of quiet windows. What has just begun is one point."""
        before = self.badness[: -self.searched]
        quiet = heights(before, self.searched, 1) if len(before) else np.zeros(1)
        return float(self.badness[-1]) / max(usual_height(quiet), LEAST_NOISE)

    @cached_property
    def window_times(self) -> Ints:
        """Times of the incident window."""
        return self.times[-self.searched :]

    @cached_property
    def window_values(self) -> Floats:
        """Levels in the incident window."""
        return self.values[-self.searched :]


def deviations(case: Case) -> list[Deviation]:
    """Every series that has a baseline and points in the incident, ordered by its names."""
    if not case.metrics.height:
        return []
    series: list[_Series] = []
    for block in blocks_of(case):
        series += _rows(block)
    requests = _requests(series)
    all_deviations = []
    for candidate in [*series, *_newborn(case, series)]:
        deviation = _deviation(_as_share(candidate, requests))
        if deviation is not None:
            all_deviations.append(deviation)
    return sorted(all_deviations, key=lambda d: (d.service, d.signal, sorted(d.labels.items())))


@dataclass(frozen=True)
class _Series:
    """Finite points of one series on both sides."""

    service: str
    signal: str
    signal_class: SignalClass
    labels: str
    before_times: Ints
    before: Floats
    times: Ints
    values: Floats
    centre: float
    scale: float
    usual_scale: float
    is_shortfall: bool


WARM_UP_NS = 120_000_000_000
"""Two minutes: so long an instance that just began is slow anyway, and may not serve yet."""


def _newborn(case: Case, series: Iterable[_Series]) -> Iterator[_Series]:
    """Parts that began in the incident, such as the pods of a canary, each with the past of its
    oldest sibling, against which it is then held."""
    siblings: dict[tuple[str, str, frozenset[str]], _Series] = {}
    for each in series:
        labels = labels_of(each.labels)
        key = each.service, each.signal, frozenset(labels)
        oldest = siblings.get(key)
        if parts_of(labels) and (oldest is None or len(each.before) > len(oldest.before)):
            siblings[key] = each
    if not siblings:
        return
    windows = metric_windows(case)
    time = pl.col("time")
    by = ["service", "signal", "labels"]
    rows = case.metrics.filter(
        pl.col("labels").is_not_null(),
        pl.col("value").is_finite(),
        # Their siblings' counters were made rates.
        ~pl.col("signal").str.contains(COUNTER),
    )
    began = rows.group_by(by).agg(time.min()).filter(windows.in_search("time"))
    young = rows.join(began.select(by), on=by, how="semi").sort(*by, "time")
    for (service, signal, text), part in young.group_by(by, maintain_order=True):
        sibling = siblings.get((service, signal, frozenset(labels_of(text))))
        if sibling is None or sibling.signal_class not in _SERVES:
            continue
        times = part["time"].dt.epoch("ns").to_numpy()
        warm = times >= times[0] + WARM_UP_NS
        if warm.any():
            values = part["value"].to_numpy()[warm]
            yield replace(sibling, labels=text, times=times[warm], values=values)


@dataclass(frozen=True)
class Points:
    """A series that no table of metrics holds, counted in steps on both sides."""

    service: str
    signal: str
    signal_class: SignalClass
    labels: Mapping[str, str]
    before_times: Ints
    before: Floats
    times: Ints
    values: Floats
    least_noise: float
    """Of a share, what chance alone makes of so few events."""


def deviation_of(points: Points) -> Deviation | None:
    """How far it is out of its own noise; None with too few points on a side."""
    base = describe(points.before[None, :])
    series = _Series(
        points.service,
        points.signal,
        points.signal_class,
        json.dumps(dict(points.labels)),
        points.before_times,
        points.before,
        points.times,
        points.values,
        float(base.centre[0]),
        max(float(base.scale[0]), points.least_noise),
        0.0,
        is_shortfall=False,
    )
    return _deviation(series)


def _rows(block: Block) -> Iterator[_Series]:
    base = describe(block.before)
    for row in range(block.values.shape[0]):
        service, signal, _, labels = block.keys.row(row)
        finite_before = np.isfinite(block.before[row])
        finite_now = np.isfinite(block.values[row])
        yield _Series(
            service,
            signal,
            classify(signal),
            labels,
            block.before_times[row][finite_before],
            block.before[row][finite_before],
            block.times[row][finite_now],
            block.values[row][finite_now],
            float(base.centre[row]),
            float(base.scale[row]),
            float(block.pooled[row]),
            bool(np.isfinite(block.ceiling[row])),
        )


def _requests(series: Iterable[_Series]) -> dict[tuple[str, str], _Series]:
    """The first series of traffic of each (service, labels)."""
    requests: dict[tuple[str, str], _Series] = {}
    # Sorted, so that the first of several signals of traffic is the same in every run.
    for candidate in sorted(series, key=lambda s: (s.service, s.labels, s.signal)):
        if candidate.signal_class is SignalClass.TRAFFIC:
            requests.setdefault((candidate.service, candidate.labels), candidate)
    return requests


def _as_share(series: _Series, requests: Mapping[tuple[str, str], _Series]) -> _Series:
    """Counts of failures as shares of the requests at the same times, where both are known."""
    is_share = any(word in series.signal.lower() for word in SHARE_WORDS)
    if series.signal_class is not SignalClass.ERRORS or series.is_shortfall or is_share:
        return series
    # Failures of a part may be counted against the requests of the whole service.
    counted = requests.get((series.service, series.labels)) or requests.get((series.service, ""))
    if counted is None or not len(counted.before):
        return series
    usual = float(np.median(counted.before))
    before = _joined(series.before_times, counted.before_times, counted.before)
    now = _joined(series.times, counted.times, counted.values)
    finite_before, finite_now = np.isfinite(before), np.isfinite(now)
    if usual <= 0 or min(_share(finite_before), _share(finite_now)) < MIN_OVERLAP:
        return series
    least = LEAST_LOAD * usual
    shares = series.before[finite_before] / np.maximum(before[finite_before], least)
    base = describe(shares[None, :])
    return _Series(
        series.service,
        series.signal,
        series.signal_class,
        series.labels,
        series.before_times[finite_before],
        shares,
        series.times[finite_now],
        series.values[finite_now] / np.maximum(now[finite_now], least),
        float(base.centre[0]),
        float(base.scale[0]),
        0.0,
        is_shortfall=False,
    )


def _joined(target_times: Ints, times: Ints, values: Floats) -> Floats:
    """Values at the wanted times; NaN where there is none."""
    out = np.full(len(target_times), np.nan)
    if not len(times):
        return out
    at = np.clip(np.searchsorted(times, target_times), 0, len(times) - 1)
    same = times[at] == target_times
    out[same] = values[at][same]
    return out


def _share(mask: np.ndarray) -> float:
    return float(mask.mean()) if len(mask) else 0.0


def _deviation(series: _Series) -> Deviation | None:
    if len(series.before) < LEAST_QUIET_WINDOWS or not len(series.values):
        return None
    centre, scale = series.centre, series.scale
    move = float(np.max(np.abs(series.values - centre)))
    # A ratio of zeros may differ from zero by what a float cannot hold.
    if scale <= ROUNDING * max(move, abs(centre)):
        # Without noise anything is far out: take the usual noise elsewhere, or the move itself.
        scale = FLAT * (series.usual_scale or move) or 1.0
    values = np.concatenate([series.before, series.values])
    badness = (values - centre) / scale
    sign = _harmful_sign(series)
    if sign < 0:
        badness = -badness
    elif sign == 0:
        # Neither direction is harmful by itself, so either is unusual.
        badness = np.abs(badness)
    searched = len(series.values)
    # One restart is an event by itself; of anything else a single point is a spike.
    spikes = 1 if series.signal_class is SignalClass.RESTARTS else 2
    quiet = heights(badness[:-searched], searched, spikes)
    height = float(heights(badness[-searched:], searched, spikes)[0])
    return Deviation(
        service=series.service,
        signal=series.signal,
        signal_class=series.signal_class,
        labels=labels_of(series.labels),
        times=np.concatenate([series.before_times, series.times]),
        badness=badness,
        values=values,
        searched=searched,
        before=centre,
        # A floor for the quiet windows: a very calm past would make every wobble an excess.
        excess=max(0.0, height) / max(usual_height(quiet), LEAST_NOISE),
        quiet_windows=len(quiet),
    )


def _harmful_sign(series: _Series) -> int:
    """+1 where more is worse, -1 where less is, 0 where either is unusual."""
    if series.is_shortfall:
        return 1
    if series.signal_class in HARMFUL_DOWN or is_headroom(series.signal):
        return -1
    return 0 if series.signal_class in EITHER_WAY else 1


def heights(badness: Floats, length: int, rank: int = 2) -> Floats:
    """Of half-overlapping windows of that length the `rank`-th largest point each; the largest of
    fewer than three points."""
    windows = _windows(badness, length)
    if windows.shape[1] < 3 or rank == 1:
        return np.asarray(windows.max(axis=1))
    return np.asarray(np.partition(windows, -rank, axis=1)[:, -rank])


def _windows(badness: Floats, length: int) -> Floats:
    """The half-overlapping windows of that length, as rows."""
    length = min(length, len(badness))
    windows: Floats = np.lib.stride_tricks.sliding_window_view(badness, length)
    return windows[:: max(1, length // 2)]


def _summed(badness: Floats) -> float:
    """The largest sum of a stretch of points beyond the noise, each up to a limit."""
    sums = np.cumsum(np.minimum(badness, CLIP) - LEAST_NOISE)
    lowest = np.minimum.accumulate(np.concatenate([[0.0], sums[:-1]]))
    return max(0.0, float((sums - lowest).max())) if len(sums) else 0.0


def usual_height(quiet: Floats) -> float:
    if len(quiet) < LEAST_QUIET_WINDOWS:
        return float(np.max(quiet))
    ordered = np.sort(quiet)
    return float(ordered[int(np.ceil(QUIET_QUANTILE * (len(ordered) - 1)))])


def loudest(series: Sequence[Deviation]) -> float:
    """The largest size of all; other sizes are shares of it. At least that of a series clearly out
    of its noise: where all are faint, none explains much."""
    return max([CLEARLY_OUT, *(deviation.size for deviation in series)])


# Series that spans make: how long calls to a peer take, and how many of them fail, step by step.
#
# Of a peer that sends no spans and has no metrics these are all that can be known. The same series
# of calls that the other side answers with spans made recorded systems worse: its own say it
# better.

STEPS_S = (30, 60, 120, 300, 600)
"""The shortest step in which most hold enough calls is taken."""
ENOUGH_CALLS = 4
LEAST_STEPS = 2
"""Of the incident; a series with fewer steps on a side has no course."""
SERIES = (
    ("duration_us", "call_duration_us", SignalClass.LATENCY),
    ("failed", "call_error_ratio", SignalClass.ERRORS),
)


def call_deviations(case: Case) -> list[Deviation]:
    """Duration and share of failures of every pair of caller and callee that has spans in both
    windows."""
    if not case.spans.height:
        return []
    made = peer_calls(visits_of(case))
    windows = span_windows(case)
    side = windows.side("start", searched=1, baseline=0)
    failed = pl.col("status").fill_null("").str.contains(FAILED)
    rows = made.with_columns(side.alias("now"), failed.alias("failed")).filter(
        pl.col("now").is_not_null()
    )
    deviations = []
    for (caller, callee), pair in sorted(rows.group_by("caller", "callee"), key=lambda g: g[0]):
        for points in _points(str(caller), str(callee), pair):
            deviation = deviation_of(points)
            if deviation is not None:
                deviations.append(deviation)
    return deviations


def _points(caller: str, callee: str, pair: pl.DataFrame) -> Iterator[Points]:
    """The pair's two series; none where calls are too few to have a course."""
    step = _step(pair)
    if step is None:
        return
    steps = (
        pair.group_by("now", pl.col("start").dt.truncate(f"{step}s"))
        .agg(
            pl.col("duration_us").median().alias("duration_us"),
            pl.col("failed").mean().alias("failed"),
            pl.len().alias("calls"),
        )
        # Groups come in any order, and a series has to be in the order of time.
        .sort("start")
    )
    before, now = steps.filter(pl.col("now") == 0), steps.filter(pl.col("now") == 1)
    if min(before.height, now.height) < LEAST_STEPS:
        return
    for column, signal, signal_class in SERIES:
        noise = _noise_of_share(pair, steps) if column == "failed" else 0.0
        yield Points(
            service=caller,
            signal=signal,
            signal_class=signal_class,
            labels={PEER: callee},
            before_times=before["start"].dt.epoch("ns").to_numpy(),
            before=before[column].to_numpy().astype(np.float64),
            times=now["start"].dt.epoch("ns").to_numpy(),
            values=now[column].to_numpy().astype(np.float64),
            least_noise=noise,
        )


def _noise_of_share(pair: pl.DataFrame, steps: pl.DataFrame) -> float:
    """Standard error of a step's share of failures at the baseline's rate, which is never none."""
    before = pair.filter(pl.col("now") == 0)
    # One half more of each: a rate of zero would have no noise at all.
    rate = (float(before["failed"].sum()) + 0.5) / (before.height + 1)
    calls = float(np.median(steps["calls"].to_numpy()))
    return math.sqrt(rate * (1 - rate) / calls)


def _step(pair: pl.DataFrame) -> int | None:
    for step in STEPS_S:
        counts = pair.group_by("now", pl.col("start").dt.truncate(f"{step}s")).len()["len"]
        if float(np.median(counts.to_numpy())) >= ENOUGH_CALLS:
            return step
    return None
