"""Errors on the links of GPUs and hosts: NVLink, PCIe, InfiniBand, network interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from faultline.analysis.gpus.counters import (
    DCGM_LIMITS,
    counter_sign,
    fast_steps,
    first_samples,
    unusual_steps,
)
from faultline.analysis.gpus.fleet import Device, Fleet
from faultline.analysis.gpus.signs import Sign
from faultline.analysis.metrics import gpu_signals as gs

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
