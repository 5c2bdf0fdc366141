"""GPUs that stand still or are gone: no more samples, idle while all others wait, all busy without
computing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from faultline.analysis.gpus.fleet import NS, Device, Fleet, Sign, longest_run
from faultline.analysis.gpus.slowness import BUSY_PERCENT, median
from faultline.analysis.metrics import series as gs
from faultline.analysis.metrics.shift_statistics import Bools, Floats, Ints
from faultline.analysis.wording.phrases import number, rounded

MISSING, IDLE_ALONE, SPINNING = "gpu_missing", "gpu_idle_alone", "gpu_spinning"
GONE_S = 180.0
GONE_SAMPLES = 4
"""A GPU is gone when this much time and this many samples are missing at the end that other GPUs
have; Prometheus itself shows the last sample for up to 5 minutes where no staleness marker ended
the series (storage: look-back delta)."""
LEAST_SAMPLES = 5
IDLE, WAITING = 5.0, 95.0
"""Percent of utilisation. A NCCL kernel that waits for another rank occupies its GPU: utilisation
is 100 % (DCGM: a kernel ran), while the GPU of the rank that does not come has nothing to do."""
WAITING_SHARE, IDLE_SHARE = 0.7, 0.25
STUCK_S = 300.0
"""Ranks also wait like this while one of them writes a checkpoint, or compiles: shorter than 5
minutes, or less than twice as long as it happened in the baseline, is no finding."""
TIMES_BASELINE = 2.0
NO_WORK = 0.1
"""Of the tensor pipes' usual activity; NCCL uses none."""
USUAL_TENSOR = 0.02
LESS_POWER, LESS_SM = 0.6, 0.5
"""Without tensor activity: power and SM activity fell to these shares of the usual, at full
utilisation."""
HANG_SOURCE = "NCCL's waiting kernels keep a GPU at 100 %; DCGM profiling fields"


def standstill(fleet: Fleet, *, is_job: bool) -> list[Sign]:
    """Signs of GPUs that are gone or stand still. One that stands alone explains why the others
    spin.

    Only the GPUs of a training job wait for each other.
    """
    gone = list(_gone(fleet))
    if not is_job:
        return gone
    alone = list(_idle_alone(fleet))
    if alone:
        return gone + alone
    return gone + list(_spinning(fleet))


def _gone(fleet: Fleet) -> Iterator[Sign]:
    last, step = _last_samples(fleet)
    if len(last) < 2:
        return
    newest = max(last.values())
    late = int(max(GONE_S * NS, GONE_SAMPLES * step))
    alive_on: dict[str, int] = {gpu.host: 0 for gpu in last}
    for gpu, at in last.items():
        if newest - at < late:
            alive_on[gpu.host] += 1
    start, _ = fleet.search_ns
    everywhere = sum(alive_on.values())
    # When most GPUs fall silent together, the job or its monitoring ended.
    host_may_be_gone = everywhere * 2 >= len(last) and len(alive_on) > 1
    for gpu, at in last.items():
        # A GPU that was gone before the incident is no news.
        if newest - at < late or at < start:
            continue
        here = alive_on[gpu.host]
        if here or host_may_be_gone:
            yield _missing_sign(gpu, at, step, here, everywhere)


def _missing_sign(gpu: Device, at: int, step: int, here: int, everywhere: int) -> Sign:
    """`here` and `everywhere` count the GPUs that go on."""
    whole_host = here == 0
    peers = here or everywhere
    whose = "of other hosts" if whole_host else "of that host"
    if peers > 1:
        go_on = f"while {number(peers)} GPUs {whose} still report"
    else:
        go_on = f"while another GPU {whose} still reports"
    return Sign(
        kind=MISSING,
        device=gpu,
        signal=gs.UTILIZATION,
        strength=0.6 if whole_host else 0.85,
        says=f"has stopped reporting, {go_on}",
        reason="host" if whole_host else "",
        fix="See whether {host} is up and its nvidia-smi still lists the GPU; look for Xid 79 "
        "in the kernel log.",
        source="series of the exporter that ended; Prometheus look-back of 5 minutes",
        onset_ns=at + step,
        uncertainty_s=step / NS,
        numbers={"others": float(peers)} if peers > 1 else {},
    )


def _last_samples(fleet: Fleet) -> tuple[dict[Device, int], int]:
    """When each GPU was last seen in any gauge, and the usual distance of samples."""
    last: dict[Device, int] = {}
    # Zero stands in for a fleet without series.
    steps = [0.0]
    for signal in (gs.UTILIZATION, gs.TEMPERATURE, gs.SM_CLOCK, gs.POWER):
        for gpu, parts in fleet.of(signal).items():
            for part in parts:
                if len(part.times) >= LEAST_SAMPLES:
                    last[gpu] = max(last.get(gpu, 0), int(part.times[-1]))
                    steps.append(float(np.quantile(np.diff(part.times), 0.9)))
    return last, int(max(steps))


def _idle_alone(fleet: Fleet) -> Iterator[Sign]:
    grid = fleet.grid
    used = grid.gauge(gs.UTILIZATION)
    if used is None or len(used) < 3:
        return
    valid = np.isfinite(used)
    idle, waiting = valid & (used <= IDLE), valid & (used >= WAITING)
    # At least 1: in a step without samples, no GPU would be as many as all.
    total = np.maximum(valid.sum(axis=0), 1)
    waiting_gpus, idle_gpus = waiting.sum(axis=0), idle.sum(axis=0)
    hung = (waiting_gpus >= WAITING_SHARE * total) & (idle_gpus <= IDLE_SHARE * total)
    for row, gpu in enumerate(fleet.gpus):
        mask = idle[row] & hung
        first, last, stuck = _stuck(mask, valid[row], fleet)
        if not stuck or not _worked_before(used[row], grid.search, first):
            continue
        stretch = slice(first, last + 1)
        peers = float(median(waiting_gpus[stretch][mask[stretch]].astype(np.float64)))
        # The last two steps decide whether it has moved on.
        is_over = not mask[-2:].any() and last < len(mask) - 2
        minutes = stuck * grid.step_ns / NS / 60
        yield Sign(
            kind=IDLE_ALONE,
            device=gpu,
            signal=gs.UTILIZATION,
            strength=0.4 if is_over else 0.75,
            says=f"has had nothing to do for {number(minutes, 2)} minutes while {number(peers)} "
            f"other GPUs show {number(100)} %: they wait for it",
            reason="",
            fix="Look at the process of that GPU on {host}: its log, and its stack (py-spy dump "
            "--native).",
            source=HANG_SOURCE,
            onset_ns=int(grid.starts[first]),
            uncertainty_s=grid.step_ns / NS,
            numbers={
                "incident": 0.0,
                "minutes": rounded(minutes, 2),
                "others": rounded(peers),
                "waiting_percent": 100,
            },
        )


def _stuck(mask: Bools, valid: Bools, fleet: Fleet) -> tuple[int, int, int]:
    """The longest stretch of the incident, its steps 0 where it is short or not longer than
    usual."""
    grid = fleet.grid
    first, last, count = longest_run(mask & grid.search, valid & grid.search)
    # The same wait in the baseline, for instance around a checkpoint, is the job's habit.
    usual = longest_run(mask & ~grid.search, valid & ~grid.search)[2]
    is_long = count * grid.step_ns >= STUCK_S * NS and count >= 3
    is_unusual = count >= TIMES_BASELINE * usual
    return first, last, count if is_long and is_unusual else 0


def _worked_before(used: Floats, search: Bools, first: int) -> bool:
    before = used[:first] if first > 0 else used[~search]
    before = before[np.isfinite(before)]
    return len(before) >= LEAST_SAMPLES and float(np.mean(before >= 50)) >= 0.2


def _spinning(fleet: Fleet) -> Iterator[Sign]:
    grid = fleet.grid
    used = grid.gauge(gs.UTILIZATION)
    if used is None or not len(used):
        return
    valid = np.isfinite(used)
    full = valid & (used >= WAITING)
    worked = valid & (used >= BUSY_PERCENT) & ~grid.search
    workless, signal = _workless(fleet, worked)
    if workless is None:
        return
    total = np.maximum(valid.sum(axis=0), 1)
    # One GPU in ten may be busy with something else, or read late.
    mask = (full & workless).sum(axis=0) >= 0.9 * total
    first, last, stuck = _stuck(mask, np.asarray(valid.any(axis=0)), fleet)
    if not stuck:
        return
    gauge = grid.gauges[signal]
    inside = np.where(mask[None, first : last + 1], gauge[:, first : last + 1], np.nan)
    level, usual = float(median(inside)), float(median(np.where(worked, gauge, np.nan)))
    minutes = stuck * grid.step_ns / NS / 60
    unit = gs.SIGNALS[signal].unit
    if unit == "W":
        low = f"draw {number(level)} {unit} where {number(usual)} is usual"
    else:
        low = f"use of their tensor cores {number(level)} of {number(usual)}"
    yield Sign(
        kind=SPINNING,
        device=fleet.gpus[0],
        signal=signal,
        strength=0.7,
        says=f"show {number(100)} % utilisation and compute nothing for {number(minutes, 2)} "
        f"minutes ({low}): they wait inside a collective",
        reason="",
        fix="Read the flight recorder dumps and stacks of all ranks: one does not join, or a link "
        "is stuck.",
        source=HANG_SOURCE,
        onset_ns=int(grid.starts[first]),
        uncertainty_s=grid.step_ns / NS,
        numbers={
            "incident": rounded(level),
            "usual": rounded(usual),
            "minutes": rounded(minutes, 2),
            "utilisation_percent": 100,
        },
        whole_job=True,
    )


def _workless(fleet: Fleet, worked: Bools) -> tuple[Bools | None, str]:
    """In which steps each GPU computes nothing, against those in which it worked, and the signal
    that shows it."""
    grid = fleet.grid
    tensor = grid.gauge(gs.TENSOR_ACTIVE)
    if tensor is not None and _often(worked, tensor):
        usual = _usual_at_work(tensor, worked)
        # A job that never uses its tensor cores shows nothing by not using them.
        if float(median(usual)) >= USUAL_TENSOR:
            return np.asarray(tensor <= NO_WORK * usual), gs.TENSOR_ACTIVE
    power, active = grid.gauge(gs.POWER), grid.gauge(gs.SM_ACTIVE)
    if power is None or not _often(worked, power):
        return None, ""
    low = np.asarray(power <= LESS_POWER * _usual_at_work(power, worked))
    if active is not None:
        # Idle multiprocessors confirm it; where they are unknown, low power decides.
        low &= ~(active > LESS_SM * _usual_at_work(active, worked))
    return low, gs.POWER


def _usual_at_work(values: Floats, worked: Bools) -> Floats:
    """Each GPU's usual level, as a column."""
    return np.asarray(median(np.where(worked, values, np.nan), axis=1))[:, None]


def _often(worked: Bools, values: Floats) -> bool:
    ints: Ints = (worked & np.isfinite(values)).sum(axis=1)
    return bool(np.median(ints) >= LEAST_SAMPLES)
