"""Counters of errors: their steps up in the incident, against their own rate before and that of
other devices.

After a fall (a driver was reloaded, an exporter restarted) a counter begins at zero. What it held
before the incident says nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.gpus.fleet import NS, Device, Fleet, Samples, Sign
from faultline.analysis.metrics import series as gs
from faultline.analysis.metrics.shift_statistics import Bools, Floats, Ints
from faultline.analysis.wording.phrases import number, rounded

LEAST_MINUTES = 3
TIMES_BEFORE = 10.0
"""At this many times the rate of the baseline, and of the other devices: some links always count a
little."""
DCGM_LIMITS = "DCGM, dcgm_gpu_hardware_limits.h"


@dataclass(frozen=True)
class CounterSteps:
    """A counter's increases: when each was seen, how much, and since when it may have happened
    (ns)."""

    times: Ints
    sizes: Floats
    since: Ints

    @property
    def total(self) -> float:
        """How much it rose in all."""
        return float(self.sizes.sum())

    def where(self, mask: Bools) -> CounterSteps:
        """Only the steps that `mask` marks."""
        return CounterSteps(self.times[mask], self.sizes[mask], self.since[mask])


def first_samples(fleet: Fleet) -> dict[Device, int]:
    """When each GPU was first seen in any signal but its errors, in ns."""
    first: dict[Device, int] = {}
    for signal in (gs.UTILIZATION, gs.TEMPERATURE, gs.SM_CLOCK, gs.POWER, gs.MEMORY_USED):
        for gpu, parts in fleet.of(signal).items():
            for part in parts:
                begins = int(part.times[0])
                first[gpu] = min(first.get(gpu, begins), begins)
    return first


def increases(
    part: Samples, fleet: Fleet, first_seen: int, *, falls_restart: bool = True
) -> CounterSteps:
    """The steps up of a counter in the incident. One that appears in it began at zero, if its GPU
    was there before."""
    start, end = fleet.search_ns
    times, values = part.times, part.values
    before = np.concatenate([[values[0]], values[:-1]])
    since = np.concatenate([times[:1], times[:-1]])
    # Only a GPU seen earlier tells a new series from an exporter that has just started.
    if 0 < first_seen < int(times[0]) and times[0] > start:
        before[0], since[0] = 0.0, max(first_seen, start)
    rises = values - before
    if falls_restart:
        # After a restart the counter began at zero, so all that it shows is new.
        rises = np.where(rises < 0, values, rises)
    mask = (rises > 0) & (times >= start) & (times <= end)
    return CounterSteps(times, rises, since).where(mask)


def rate_before(part: Samples, fleet: Fleet) -> float:
    """Increase per minute over the baseline; 0 without one."""
    rise = minutes = 0.0
    for start, end in fleet.baseline_ns:
        inside = part.between(start, end)
        if len(inside.times) > 1:
            steps = np.diff(inside.values)
            rise += float(np.where(steps < 0, inside.values[1:], steps).sum())
            minutes += float(inside.times[-1] - inside.times[0]) / NS / 60
    return rise / minutes if minutes else 0.0


def fast_steps(
    part: Samples, fleet: Fleet, first_seen: int, per_minute: float
) -> CounterSteps | None:
    """The increases that come faster than `per_minute`; None unless they last for minutes and are
    faster than before."""
    steps = increases(part, fleet, first_seen)
    if not len(steps.times):
        return None
    # Below a minute apart, a single count would look like a high rate.
    minutes = np.maximum((steps.times - steps.since) / NS / 60, 1.0)
    quick = steps.sizes / minutes > per_minute
    lasted = float(minutes[quick].sum())
    if lasted < LEAST_MINUTES:
        return None
    quick_steps = steps.where(quick)
    rate = quick_steps.total / max(lasted, 1.0)
    return quick_steps if rate >= TIMES_BEFORE * rate_before(part, fleet) else None


def unusual_steps(
    fleet: Fleet, signal: str, least: float, first_seen: Mapping[Device, int]
) -> Iterator[tuple[Device, CounterSteps]]:
    """Devices whose counter rose by at least `least`, at many times its own rate before and that of
    the others."""
    start, end = fleet.search_ns
    minutes = max(1.0, (end - start) / NS / 60)
    candidates: list[tuple[Device, CounterSteps, float]] = []
    totals: list[float] = []
    for device, parts in fleet.of(signal).items():
        steps, before = _largest_rise(parts, fleet, first_seen.get(device, 0))
        totals.append(steps.total)
        if steps.total >= least:
            candidates.append((device, steps, before * minutes))
    # The median of two devices would be half of the one that is suspected.
    usual = float(np.median(totals)) if len(totals) > 2 else 0.0
    for device, steps, expected in candidates:
        if steps.total >= TIMES_BEFORE * max(expected, usual):
            yield device, steps


def _largest_rise(
    parts: Sequence[Samples], fleet: Fleet, first_seen: int
) -> tuple[CounterSteps, float]:
    """Of the sources that count the same device, the one with the most errors, with its rate
    before."""
    rises = [(increases(part, fleet, first_seen), rate_before(part, fleet)) for part in parts]
    # Several sources count the same errors: adding them up would double them.
    return max(rises, key=lambda rise: rise[0].total)


def counter_sign(
    kind: str,
    device: Device,
    signal: str,
    strength: float,
    steps: CounterSteps,
    says: str,
    fix: str,
    source: str,
) -> Sign:
    """The sign of a counter that rose; `says` has a place for the number."""
    total = rounded(steps.total)
    words = says.format(number(total))
    return Sign(
        kind=kind,
        device=device,
        signal=signal,
        strength=strength,
        says=words if total != 1 else words.removesuffix("s"),
        reason="",
        fix=fix,
        source=source,
        onset_ns=int(steps.times[0]),
        uncertainty_s=float(steps.times[0] - steps.since[0]) / NS,
        numbers={"increase": total},
    )


# Errors on the links of GPUs and hosts: NVLink, PCIe, InfiniBand, network interfaces.

NVLINK, PCIE, LINK = "gpu_nvlink_errors", "gpu_pcie_replays", "ib_error"
PCIE_PER_MINUTE = 8.0
CRC_PER_MINUTE = 6000.0
"""DCGM, dcgm_gpu_hardware_limits.h: 8 PCIe replays a minute; NVLink checksum errors matter from 100
a second."""
NVLINK_LEAST = 5
"""DCGM's health watch fails at a single replay or recovery; a few in half an hour slow no job
down."""
NVLINK_FIX = "Check the NVLinks of {host}: nvidia-smi nvlink -e; run dcgmi diag -r 3."
PCIE_FIX = "Check the GPU's slot, riser and cables on {host}; lspci shows its link."
PORT_FIX = "Check that port's cable, transceiver and switch port on {host}."
LINK_LEAST: Mapping[str, int] = {
    gs.IB_LINK_DOWNED: 1,
    gs.CARRIER_DOWN: 1,
    gs.IB_SYMBOL_ERRORS: 10,
    gs.IB_LINK_RECOVERIES: 10,
    gs.IB_RECEIVE_ERRORS: 100,
}
"""Least number in the incident: SymbolErrorCounter and LinkErrorRecoveryCounter of
ibqueryerrors(8); any link that went down; the limit for packets with errors is an assumption."""
LINK_WORDS: Mapping[str, tuple[str, float]] = {
    gs.IB_LINK_DOWNED: ("lost its link {} times", 0.8),
    gs.CARRIER_DOWN: ("lost its link {} times", 0.7),
    gs.IB_SYMBOL_ERRORS: ("has {} new symbol errors", 0.5),
    gs.IB_LINK_RECOVERIES: ("recovered its link {} times", 0.6),
    gs.IB_RECEIVE_ERRORS: ("has {} new packets with errors", 0.45),
}
"""What a sign says of a port, and its strength."""


def link_signs(fleet: Fleet) -> Iterator[Sign]:
    """Signs of links with errors, one per device and signal."""
    samples = first_samples(fleet)
    yield from _nvlink_replays(fleet, samples)
    yield from _fast_counters(fleet, samples)
    # A port has no gauges: its host was up when one of the host's GPUs was seen.
    samples_by_host = {gpu.host: samples[gpu] for gpu in fleet.gpus if gpu in samples}
    for signal, least in LINK_LEAST.items():
        says, strength = LINK_WORDS[signal]
        first = {device: samples_by_host.get(device.host, 0) for device in fleet.of(signal)}
        for device, steps in unusual_steps(fleet, signal, least, first):
            yield counter_sign(
                LINK, device, signal, strength, steps, says, PORT_FIX, "ibqueryerrors(8)"
            )


def _nvlink_replays(fleet: Fleet, first_seen: Mapping[Device, int]) -> Iterator[Sign]:
    for gpu, steps in unusual_steps(fleet, gs.NVLINK_ERRORS, NVLINK_LEAST, first_seen):
        # Replays range over decades, so the strength grows with their logarithm.
        strength = min(0.85, 0.45 + 0.1 * np.log10(steps.total))
        yield counter_sign(
            NVLINK,
            gpu,
            gs.NVLINK_ERRORS,
            strength,
            steps,
            "has {} new NVLink replays and recoveries",
            NVLINK_FIX,
            "DCGM health watch: replays and recoveries are failures",
        )


def _fast_counters(fleet: Fleet, first_seen: Mapping[Device, int]) -> Iterator[Sign]:
    """Counters that a healthy link raises too, but slowly."""
    for signal, kind, per_minute, says, fix in (
        (gs.NVLINK_CRC, NVLINK, CRC_PER_MINUTE, "has {} new NVLink checksum errors", NVLINK_FIX),
        (gs.PCIE_REPLAYS, PCIE, PCIE_PER_MINUTE, "has {} new PCIe replays", PCIE_FIX),
    ):
        for gpu, parts in fleet.of(signal).items():
            for part in parts:
                quick = fast_steps(part, fleet, first_seen.get(gpu, 0), per_minute)
                if quick is not None:
                    yield counter_sign(kind, gpu, signal, 0.6, quick, says, fix, DCGM_LIMITS)
