"""GPUs that run slower or hotter than the others and than before: clocks, clock-event reasons,
temperatures."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from faultline.analysis.gpus.fleet import NS, Device, Fleet, Grid, Sign, longest_run
from faultline.analysis.metrics import series as gs
from faultline.analysis.metrics.shift_statistics import Bools, Floats, Ints
from faultline.analysis.wording.phrases import number, rounded

THROTTLED, HOT = "gpu_throttled", "gpu_hot"
BUSY_PERCENT = 50.0
"""An idle GPU lowers its clock by itself: only steps with more utilisation are compared (TraceML's
30-70 % is moderate use)."""
SLOW = 0.10
"""A clock so much below the reference, beside a slowdown bit, is throttled: kernels then run 1.1
times as long, from which the trace doctor calls a rank's kernels slow."""
SLOW_WITHOUT_REASON = 0.30
"""Identical GPUs differ by 8 % on average and 22 % at most (Sinha et al., Not All GPUs Are Created
Equal, SC'22)."""
BASELINE_DROP = 0.20
"""Without a reason given, the clock must also have fallen so far against the GPU's own baseline."""
LOWER_CAP, LESS_POWER = 0.15, 0.75
"""A GPU at its power cap has a lower one than the others when it runs so much slower and draws so
much less; one that draws as much is merely the one that works while the others wait."""
LEAST_STEPS = 3
MOSTLY = 0.5
MIN_PEERS = 2
HOT_C, MEMORY_HOT_C = 85.0, 95.0
"""Where no slowdown temperature is known: TraceML's 85 °C; for memory NVML's "Memory Max Operating
Temp" of an H100."""
NEAR_LIMIT_C = 2.0
HOTTER_C = 5.0
"""Than it was at work before: a GPU in a warm place is always warm."""
MUCH_HOTTER_C = 10.0
"""Than the others, where there is no before."""
OFTEN, OLD = 0.25, 0.4
"""What was so in a quarter of the baseline as well keeps this much."""
GPU_IDLE, POWER_CAP, HARDWARE_SLOWDOWN, SYNC_BOOST = 0x1, 0x4, 0x8, 0x10
"""Bits of nvmlClocksEventReasons (nvml.h) that are no fault by themselves, and the unspecific
one."""
SOURCE = "DCGM clock event reasons; SC'22 on differences between GPUs"
FIXES = {
    "thermal": "Check the cooling of {host}: fans, airflow, heat sinks, the coolant; drain it if "
    "it stays hot.",
    "power brake": "Check the power supplies and the power distribution of {host}: the board was "
    "made to slow down.",
    "hardware slowdown": "Run dcgmi diag -r 3 on {host}; check its power and cooling.",
    "power cap": "Compare the GPU's power limit on {host} with the others': nvidia-smi -q -d "
    "POWER.",
    "": "Compare clocks, power limit and heat on {host} with another host's: nvidia-smi -q -d "
    "CLOCK,POWER,TEMPERATURE.",
}


@dataclass(frozen=True)
class _Clocks:
    """Clocks in steps, with what they are compared with: `peers` are the busy GPUs, `baseline` the
    GPU's baseline.

    `power` is the GPU's over its peers'; `hot` where it is near its limit and hotter than at work
    before.
    """

    grid: Grid
    clock: Floats
    busy: Bools
    bits: Floats | None
    peers: Floats
    baseline: Floats
    power: Floats
    hot: Bools

    def reason_bits(self, row: int) -> Floats:
        """The GPU's clock-event reasons, by step; NaN where unknown."""
        if self.bits is None:
            return np.full_like(self.clock[row], np.nan)
        return np.asarray(self.bits[row])


def slow_gpus(fleet: Fleet) -> list[Sign]:
    """Signs of GPUs that are throttled, then of GPUs that are hot without being throttled."""
    throttled = list(_throttled(fleet))
    devices = {sign.device for sign in throttled}
    return throttled + [s for s in _hot(fleet) if s.device not in devices]


def median(values: Floats, axis: int | None = None) -> Floats:
    """Median without NaN; NaN where there is nothing."""
    # nanmedian warns about rows without a value, which are expected here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(values, axis=axis))


def busy_steps(grid: Grid, like: Floats) -> Bools | None:
    """Which steps each GPU works in; None where nothing says so."""
    used = grid.gauge(gs.UTILIZATION)
    if used is not None:
        return np.asarray(used >= BUSY_PERCENT)
    active = grid.gauge(gs.SM_ACTIVE)
    if active is not None:
        return np.asarray(active >= BUSY_PERCENT / 100)
    bits = grid.gauge(gs.EVENT_REASONS)
    if bits is None:
        return None
    # Without utilisation, the idle bit is all that tells who works.
    return np.asarray(np.isfinite(like) & ~_has(bits, GPU_IDLE))


def _has(bits: Floats, mask: int) -> Bools:
    return np.asarray((np.nan_to_num(bits).astype(np.int64) & mask) != 0)


def peers_median(values: Floats, counted: Bools, groups: Ints) -> Floats:
    """For each GPU and step the median of the GPUs of its model that count there; NaN where they
    are too few."""
    out = np.full_like(values, np.nan)
    for group in np.unique(groups):
        rows = groups == group
        part = np.where(counted[rows], values[rows], np.nan)
        centre = median(part, axis=0)
        # The GPU itself is among them, so two others take three.
        enough = np.isfinite(part).sum(axis=0) > MIN_PEERS
        out[rows] = np.where(enough, centre, np.nan)[None, :]
    return out


def models(fleet: Fleet) -> Ints:
    """The number of each GPU's model."""
    names = [fleet.models.get(gpu, "") for gpu in fleet.gpus]
    return np.unique(np.array(names, dtype=str), return_inverse=True)[1].astype(np.int64)


def _throttled(fleet: Fleet) -> Iterator[Sign]:
    clocks = _clocks(fleet)
    if clocks is None:
        yield from _by_bits_alone(fleet)
        return
    for row, gpu in enumerate(fleet.gpus):
        sign = _throttled_gpu(clocks, row, gpu)
        if sign is not None:
            yield sign


def _clocks(fleet: Fleet) -> _Clocks | None:
    grid = fleet.grid
    clock = grid.gauge(gs.SM_CLOCK)
    if clock is None:
        return None
    busy = busy_steps(grid, clock)
    if busy is None:
        return None
    busy &= np.isfinite(clock)
    # The incident must not be part of its own reference.
    before = np.where(busy & ~grid.search, clock, np.nan)
    enough = np.isfinite(before).sum(axis=1) >= LEAST_STEPS
    baseline = np.where(enough, median(before, axis=1), np.nan)
    peers = peers_median(clock, busy, models(fleet))
    bits, power = grid.gauge(gs.EVENT_REASONS), power_beside_peers(fleet, busy)
    heat = _heat(fleet, gs.TEMPERATURE, HOT_C)
    hot = heat.hot if heat is not None else np.zeros_like(busy)
    return _Clocks(grid, clock, busy, bits, peers, baseline, power, hot)


def _throttled_gpu(clocks: _Clocks, row: int, gpu: Device) -> Sign | None:
    """The first reason that explains a lasting low clock; a reason of None is read from the
    bits."""
    for mask, reason in _low_clocks(clocks, row):
        search, busy = clocks.grid.search, clocks.busy[row]
        first, last, count = longest_run(mask & search, busy & search)
        if count < LEAST_STEPS:
            continue
        inside = np.zeros_like(mask)
        inside[first : last + 1] = mask[first : last + 1]
        final_reason, words = _reason(clocks.reason_bits(row)[inside])
        if reason is not None:
            final_reason = reason
            words = words or ((reason,) if reason else ())
        before = int((mask & ~search).sum())
        is_old = before >= OFTEN * max(1, int((busy & ~search).sum()))
        return _throttled_sign(clocks, row, gpu, inside, final_reason, words, first, is_old=is_old)
    return None


def _low_clocks(clocks: _Clocks, row: int) -> tuple[tuple[Bools, str | None], ...]:
    """Steps in which the clock is too low, by reason, the surest first."""
    clock, peers, baseline = clocks.clock[row], clocks.peers[row], clocks.baseline[row]
    power, bits = clocks.power[row], clocks.reason_bits(row)
    below_peers = clock <= (1 - SLOW) * peers
    below_baseline = clock <= (1 - SLOW) * baseline
    slowed = _has(bits, gs.HARMFUL_EVENTS) & (below_peers | below_baseline)
    heated = clocks.hot[row] & below_peers & below_baseline
    much_slower = clock <= (1 - LOWER_CAP) * peers
    capped = _has(bits, POWER_CAP) & much_slower & (power <= LESS_POWER)
    unexplained = (clock <= (1 - SLOW_WITHOUT_REASON) * peers) & (
        clock <= (1 - BASELINE_DROP) * baseline
    )
    # Sync boost lowers a clock to that of the slowest GPU of its group, and one that draws more
    # than the others does the heavier work.
    unexplained &= ~_has(bits, SYNC_BOOST) & ~(power > 1.05)
    return (slowed, None), (heated, "thermal"), (capped, "power cap"), (unexplained, "")


def power_beside_peers(fleet: Fleet, busy: Bools) -> Floats:
    """Each GPU's power over the median of the busy ones of its model, by step; NaN where
    unknown."""
    power = fleet.grid.gauge(gs.POWER)
    if power is None:
        return np.full(busy.shape, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(power / peers_median(power, busy, models(fleet)))


def _throttled_sign(
    clocks: _Clocks,
    row: int,
    gpu: Device,
    inside: Bools,
    reason: str,
    words: tuple[str, ...],
    first: int,
    *,
    is_old: bool,
) -> Sign:
    level = float(median(clocks.clock[row][inside]))
    peers = float(median(clocks.peers[row][inside]))
    reference, than = float(clocks.baseline[row]), "it ran before at"
    if np.isfinite(peers) and level <= (1 - SLOW) * peers:
        reference, than = peers, "the other busy GPUs run at"
    deficit = max(0.0, 1 - level / reference)
    is_certain = reason not in ("", "power cap")
    strength = 0.5 + deficit if is_certain else 0.4 + deficit / 2
    because = f" ({', '.join(words)})" if words else ""
    says = f"runs at {number(level)} MHz{because} where {than} {number(reference)} MHz"
    group = reason
    if is_old:
        strength *= OLD
        says += " as before the incident"
        group += " old"
    return Sign(
        kind=THROTTLED,
        device=gpu,
        signal=gs.SM_CLOCK,
        strength=min(0.95, strength),
        says=says,
        reason=group,
        fix=FIXES[reason],
        source=SOURCE,
        onset_ns=None if is_old else int(clocks.grid.starts[first]),
        uncertainty_s=clocks.grid.step_ns / NS,
        numbers={
            "incident": rounded(level),
            "reference": rounded(reference),
            "deficit": rounded(deficit, 3),
        },
        events=words,
        minutes=round(float(inside.sum()) * clocks.grid.step_ns / NS / 60, 1),
    )


def _reason(bits: Floats) -> tuple[str, tuple[str, ...]]:
    """The reason that says most, and the names of all bits that were set in at least a third of the
    steps."""
    codes = np.nan_to_num(bits).astype(np.int64)
    often = sum(bit for bit in gs.CLOCK_EVENTS if np.count_nonzero(codes & bit) * 3 >= len(codes))
    names = gs.clock_events(often)
    if often & gs.THERMAL_EVENTS:
        return "thermal", names
    if often & gs.POWER_BRAKE:
        return "power brake", names
    if often & HARDWARE_SLOWDOWN:
        return "hardware slowdown", names
    if often & POWER_CAP:
        return "power cap", names
    return "", names


def _by_bits_alone(fleet: Fleet) -> Iterator[Sign]:
    """Without clocks: slowdown bits that are new, and that most GPUs do not have."""
    grid = fleet.grid
    bits = grid.gauge(gs.EVENT_REASONS)
    if bits is None:
        return
    harmful, valid = _has(bits, gs.HARMFUL_EVENTS), np.isfinite(bits)
    busy = busy_steps(grid, bits)
    valid &= busy if busy is not None else valid
    common = (harmful & valid).sum(axis=0) > MOSTLY * valid.sum(axis=0)
    for row, gpu in enumerate(fleet.gpus):
        alone = harmful[row] & ~common
        first, last, count = longest_run(alone & grid.search, valid[row] & grid.search)
        before = (harmful[row] & valid[row] & ~grid.search).sum()
        # Bits that a tenth of the baseline had as well are not new.
        if count < LEAST_STEPS or before * 10 > (valid[row] & ~grid.search).sum():
            continue
        reason, words = _reason(bits[row][first : last + 1][alone[first : last + 1]])
        yield Sign(
            kind=THROTTLED,
            device=gpu,
            signal=gs.EVENT_REASONS,
            strength=0.5,
            says=f"is slowed down ({', '.join(words) or 'hardware'}), and most others are not",
            reason=reason,
            fix=FIXES[reason],
            source=SOURCE,
            onset_ns=int(grid.starts[first]),
            uncertainty_s=grid.step_ns / NS,
            events=words,
        )


@dataclass(frozen=True)
class _Heat:
    """Temperatures in steps; `hot` where a GPU at work is near its limit and hotter than it was at
    work before."""

    heat: Floats
    hot: Bools
    working: Bools
    peers: Floats
    baseline: Floats
    limits: Floats


def _heat(fleet: Fleet, signal: str, limit: float) -> _Heat | None:
    grid = fleet.grid
    heat = grid.gauge(signal)
    if heat is None:
        return None
    working = np.isfinite(heat)
    busy = busy_steps(grid, heat)
    if busy is not None:
        working &= busy
    peers = peers_median(heat, working, models(fleet))
    baseline = median(np.where(working & ~grid.search, heat, np.nan), axis=1)
    # From where each GPU slows down; NaN where it does not say, as for memory.
    gauge = fleet.grid.gauge(gs.SLOWDOWN_TEMPERATURE) if signal == gs.TEMPERATURE else None
    slowdown = np.full(len(fleet.gpus), np.nan) if gauge is None else median(gauge, axis=1)
    limits = np.where(slowdown > 0, slowdown, limit)
    edge = np.where(slowdown > 0, slowdown - NEAR_LIMIT_C, limit)[:, None]
    has_before = np.isfinite(baseline)[:, None]
    hotter = np.where(has_before, baseline[:, None] + HOTTER_C, peers + MUCH_HOTTER_C)
    hot = working & (heat >= edge) & (heat >= hotter)
    return _Heat(heat, hot, working, peers, baseline, limits)


def _hot(fleet: Fleet) -> Iterator[Sign]:
    search = fleet.grid.search
    for signal, limit, what in (
        (gs.TEMPERATURE, HOT_C, ""),
        (gs.MEMORY_TEMPERATURE, MEMORY_HOT_C, " memory"),
    ):
        heat = _heat(fleet, signal, limit)
        if heat is None:
            continue
        for row, gpu in enumerate(fleet.gpus):
            first, last, count = longest_run(heat.hot[row] & search, heat.working[row] & search)
            if count >= LEAST_STEPS:
                stretch = slice(first, last + 1)
                yield _hot_sign(fleet.grid, heat, row, gpu, stretch, signal=signal, what=what)


def _hot_sign(
    grid: Grid, heat: _Heat, row: int, gpu: Device, stretch: slice, *, signal: str, what: str
) -> Sign:
    level = float(median(heat.heat[row][stretch]))
    limit = float(heat.limits[row])
    if np.isfinite(heat.baseline[row]):
        reference = float(heat.baseline[row])
        than = f"it had {number(reference)} °C before"
    else:
        reference = float(median(heat.peers[row][stretch]))
        than = f"the others have {number(reference)} °C"
    return Sign(
        kind=HOT,
        device=gpu,
        signal=signal,
        strength=0.45,
        says=f"has{what} {number(level)} °C where {than}; from {number(limit)} °C it slows down",
        reason=what,
        fix=FIXES["thermal"],
        source="TraceML, 85 °C; DCGM slowdown temperature",
        onset_ns=int(grid.starts[stretch.start]),
        uncertainty_s=grid.step_ns / NS,
        numbers={
            "incident": rounded(level),
            "reference": rounded(reference),
            "limit": rounded(limit),
        },
    )
