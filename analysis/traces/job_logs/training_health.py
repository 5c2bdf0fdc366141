"""What metrics say of a training run: where numbers stop being numbers, where the loss jumps, where
it slows down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from faultline.analysis.traces.job_logs.metrics import Measure, RankMetrics
from faultline.analysis.traces.judgement.thresholds import WARN_SHARE, pressure

SPIKE_RATIO = 2.0
"""Times the median of the steps before (our choice: TorchTitan's and OLMo's reports call a doubling
a spike)."""
SPIKE_DEVIATIONS = 10.0
"""Robust standard deviations of the steps before (our choice)."""
SPIKE_WINDOW = 20
MIN_HISTORY = 10
SLOWDOWN = 0.20
"""Share of throughput lost (own; TraceML's compare calls 8 % of step time large, between whole
runs)."""
SLOWDOWN_DEVIATIONS = 3.0
MIN_SIDE = 20
"""Steps on each side of a change of speed (our choice)."""
MIN_SHARES = 3
"""Logged steps that a share of the time in the data loader needs (our choice)."""
PASSING_NORMS = 3
"""Infinite gradient norms in a row that loss scaling produces by itself; its own back-off takes one
to three steps."""


@dataclass(frozen=True)
class NotANumber:
    """The first step at which a measure is NaN or infinite."""

    measure: Measure
    step: int
    value: float
    ranks: tuple[int, ...]
    """Ranks that have it at that step while others do not; empty where all have it, or the
    log names no rank."""
    later: tuple[int, ...]
    """Ranks that have it only at later steps."""
    lasting: bool
    """It never was a number again on the first ranks."""
    last_good: float | None
    """The measure one step before, on the first of the ranks."""


@dataclass(frozen=True)
class LossSpike:
    """A step whose loss is far above those before."""

    rank: int | None
    step: int
    value: float
    before: float
    """Median of the steps before."""
    recovered: bool
    """It came back below the limit before the end."""


@dataclass(frozen=True)
class Slowdown:
    """A lasting change of speed."""

    step: int
    """The first slow step."""
    before_ms: float
    after_ms: float
    """Median step time, or the inverse of the throughput in ms per unit."""
    ranks: int
    """Ranks that show it."""

    @property
    def lost(self) -> float:
        """Share of the speed lost."""
        return 1 - self.before_ms / self.after_ms


def first_not_a_number(ranks: Sequence[RankMetrics]) -> NotANumber | None:
    """The earliest of loss and gradient norm; passing infinite norms (loss scaling) are none."""
    loss = _not_a_number(ranks, "loss")
    norm = _not_a_number(ranks, "grad_norm")
    if loss is None or norm is None:
        return loss or norm
    return norm if norm.step < loss.step else loss


def _not_a_number(ranks: Sequence[RankMetrics], measure: Measure) -> NotANumber | None:
    bad = _first_bad_steps(ranks, measure)
    if not bad:
        return None
    step = min(bad.values())
    first = {rank for rank, bad_step in bad.items() if bad_step == step}
    later = bad.keys() - first
    logging_ranks = {rank.rank for rank in ranks if step in rank.values.get(measure, {})}
    # Where every rank has it at once, or the log names no rank, none can be distinguished.
    distinguishable = first < logging_ranks and None not in first
    leader = next(rank for rank in ranks if rank.rank in first)
    last_good = None
    lasting = True
    for number, value in leader.series(measure):
        if number < step:
            last_good = value
        elif math.isfinite(value):
            lasting = False
    return NotANumber(
        measure=measure,
        step=step,
        value=leader.values[measure][step],
        ranks=_named(first) if distinguishable else (),
        later=_named(later),
        lasting=lasting,
        last_good=last_good,
    )


def _first_bad_steps(ranks: Sequence[RankMetrics], measure: Measure) -> dict[int | None, int]:
    """By rank, the first step in which the measure is no number; norms that pass do not count."""
    bad: dict[int | None, int] = {}
    for rank in ranks:
        series = rank.series(measure)
        steps = [step for step, value in series if not math.isfinite(value)]
        if steps and (measure == "loss" or _lasts(series)):
            bad[rank.rank] = steps[0]
    return bad


def _named(ranks: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted(rank for rank in ranks if rank is not None))


def _lasts(series: Sequence[tuple[int, float]]) -> bool:
    """Whether infinite norms come in longer rows than loss scaling makes, or last to the end."""
    run = longest = 0
    for _, value in series:
        run = 0 if math.isfinite(value) else run + 1
        longest = max(longest, run)
    return longest > PASSING_NORMS or run > 1


def loss_spikes(ranks: Sequence[RankMetrics]) -> list[LossSpike]:
    """The first spike of each rank."""
    spikes = []
    for rank in ranks:
        series = [(step, value) for step, value in rank.series("loss") if math.isfinite(value)]
        spike = _spike(rank.rank, series)
        if spike is not None:
            spikes.append(spike)
    return spikes


def _spike(rank: int | None, series: Sequence[tuple[int, float]]) -> LossSpike | None:
    values = [value for _, value in series]
    for i in range(MIN_HISTORY, len(series)):
        before = values[max(0, i - SPIKE_WINDOW) : i]
        middle = median(before)
        if middle <= 0 or values[i] < SPIKE_RATIO * middle:
            continue
        # 1.4826 times the median deviation estimates a normal distribution's standard deviation.
        spread = 1.4826 * median(abs(value - middle) for value in before)
        if values[i] - middle >= SPIKE_DEVIATIONS * spread:
            recovered = any(value < SPIKE_RATIO * middle for value in values[i + 1 :])
            return LossSpike(rank, series[i][0], values[i], middle, recovered)
    return None


def slowdown(ranks: Sequence[RankMetrics]) -> Slowdown | None:
    """A lasting loss of speed of the job: the median over ranks of each step's time, split where it
    changes most."""
    by_step: dict[int, list[float]] = {}
    for times in _times(ranks):
        for step, value in times:
            if math.isfinite(value) and value > 0:
                by_step.setdefault(step, []).append(value)
    steps = sorted(by_step)
    if len(steps) < 2 * MIN_SIDE:
        return None
    job = np.asarray([median(by_step[step]) for step in steps])
    # Logarithms make a ratio of speeds a difference, whatever the unit.
    split = _split(np.log(job))
    before, after = np.median(job[:split]), np.median(job[split:])
    spread = 1.4826 * max(_deviation(np.log(job[:split])), _deviation(np.log(job[split:])))
    change = float(np.log(after / before))
    # The share of speed lost, as growth of the step time's logarithm.
    if change < -np.log(1 - SLOWDOWN) or change < SLOWDOWN_DEVIATIONS * spread:
        return None
    count = max(len(values) for values in by_step.values())
    return Slowdown(steps[split], float(before), float(after), count)


def _times(ranks: Sequence[RankMetrics]) -> list[list[tuple[int, float]]]:
    """Each rank's (step, time) in one unit for all: step times, else the inverse of the throughput,
    else of the MFU."""
    timed = _logged(ranks, "step_ms")
    if timed:
        return timed
    inverse: tuple[Measure, ...] = ("throughput", "mfu_percent")
    for measure in inverse:
        for series in _logged(ranks, measure):
            timed.append([(step, 1000 / value) for step, value in series if value > 0])
        if timed:
            return timed
    return []


def _logged(ranks: Sequence[RankMetrics], measure: Measure) -> list[list[tuple[int, float]]]:
    """The series of the ranks that log this measure."""
    all_series = []
    for rank in ranks:
        series = rank.series(measure)
        if series:
            all_series.append(list(series))
    return all_series


def input_bound(ranks: Sequence[RankMetrics]) -> tuple[float, int] | None:
    """(Median share of the time in the data loader, steps), where the job logs that and it is 10 %
    or more."""
    shares = []
    for rank in ranks:
        for _, percent in rank.series("data_percent"):
            if 0 <= percent <= 100:
                shares.append(percent / 100)
    if len(shares) < MIN_SHARES:
        return None
    usual = median(shares)
    if usual < WARN_SHARE:
        return None
    return usual, len(shares)


@dataclass(frozen=True)
class FullMemory:
    """A rank whose device's memory is nearly all reserved, or whose allocator had to free it or
    failed."""

    rank: int | None
    percent: float
    retries: int
    ooms: int


def full_memory(ranks: Sequence[RankMetrics]) -> list[FullMemory]:
    """The ranks short of memory, the fullest first."""
    full_ranks = []
    for rank in ranks:
        logged = [value for _, value in rank.series("memory_percent") if 0 <= value <= 100]
        percent = max(logged, default=0.0)
        retries = _rise(rank.series("alloc_retries"))
        ooms = _rise(rank.series("ooms"))
        if pressure(percent / 100) or ooms:
            full_ranks.append(FullMemory(rank.rank, percent, retries, ooms))
    full_ranks.sort(key=lambda rank: (-rank.ooms, -rank.percent))
    return full_ranks


def _rise(series: Sequence[tuple[int, float]]) -> int:
    """How far a count that never falls rose above zero."""
    return int(max((v for _, v in series if 0 <= v < 1e9), default=0.0))


def _split(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    """The place that leaves the least variance on both sides (one change point, least squares)."""
    sums = np.cumsum(values)
    place = np.arange(1, len(values))
    left, right = sums[:-1] / place, (sums[-1] - sums[:-1]) / (len(values) - place)
    gain = place * (len(values) - place) * (left - right) ** 2
    # Entry i stands for a split after i + 1 values: hence the - 1.
    inside = slice(MIN_SIDE - 1, len(values) - MIN_SIDE)
    return int(np.argmax(gain[inside])) + MIN_SIDE


def _deviation(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(np.median(np.abs(values - np.median(values))))
