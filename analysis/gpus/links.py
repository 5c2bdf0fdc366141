"""Errors on the links of GPUs and hosts: NVLink, PCIe, InfiniBand, network interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from analysis.gpus.counters import DCGM_LIMITS, counted, fast, first_samples, unusual
from analysis.gpus.fleet import Fleet
from analysis.gpus.signs import Sign
from analysis.metrics import gpu_signals as gs

NVLINK, PCIE, LINK = "gpu_nvlink_errors", "gpu_pcie_replays", "ib_error"
PCIE_PER_MINUTE = 8.0
CRC_PER_MINUTE = 6000.0
"""DCGM, dcgm_gpu_hardware_limits.h: 8 PCIe replays a minute; NVLink checksum errors matter from 100
a second."""
NVLINK_LEAST = 5
"""DCGM's health watch fails at a single replay or recovery; a few in half an hour slow no job
down."""
LINK_LEAST: Mapping[str, int] = {
    gs.IB_LINK_DOWNED: 1,
    gs.CARRIER_DOWN: 1,
    gs.IB_SYMBOL_ERRORS: 10,
    gs.IB_LINK_RECOVERIES: 10,
    gs.IB_RECEIVE_ERRORS: 100,
}
"""So many in the incident: SymbolErrorCounter and LinkErrorRecoveryCounter of ibqueryerrors(8); any
link that went down; the packets with errors are ours."""


def link_signs(fleet: Fleet) -> Iterator[Sign]:
    seen = first_samples(fleet)
    hosts = {gpu.host: seen[gpu] for gpu in fleet.gpus if gpu in seen}
    fix = "Check the NVLinks of {host}: nvidia-smi nvlink -e; run dcgmi diag -r 3."
    for gpu, steps in unusual(fleet, gs.NVLINK_ERRORS, NVLINK_LEAST, seen):
        strength = min(0.85, 0.45 + 0.1 * np.log10(steps.total))
        yield counted(
            NVLINK, gpu, gs.NVLINK_ERRORS, strength, steps,
            "has {} new NVLink replays and recoveries", fix,
            "DCGM health watch: replays and recoveries are failures",
        )  # fmt: skip
    for signal, kind, per_minute, says in (
        (gs.NVLINK_CRC, NVLINK, CRC_PER_MINUTE, "has {} new NVLink checksum errors"),
        (gs.PCIE_REPLAYS, PCIE, PCIE_PER_MINUTE, "has {} new PCIe replays"),
    ):
        action = (
            fix
            if kind == NVLINK
            else "Check the GPU's slot, riser and cables on {host}; lspci shows its link."
        )
        for gpu, parts in fleet.of(signal).items():
            for part in parts:
                quick = fast(part, fleet, seen.get(gpu, 0), per_minute)
                if quick is not None:
                    yield counted(kind, gpu, signal, 0.6, quick, says, action, DCGM_LIMITS)
    words = {
        gs.IB_LINK_DOWNED: ("lost its link {} times", 0.8),
        gs.CARRIER_DOWN: ("lost its link {} times", 0.7),
        gs.IB_SYMBOL_ERRORS: ("has {} new symbol errors", 0.5),
        gs.IB_LINK_RECOVERIES: ("recovered its link {} times", 0.6),
        gs.IB_RECEIVE_ERRORS: ("has {} new packets with errors", 0.45),
    }
    for signal, least in LINK_LEAST.items():
        first = {device: hosts.get(device.host, 0) for device in fleet.of(signal)}
        for device, steps in unusual(fleet, signal, least, first):
            says, strength = words[signal]
            yield counted(
                LINK, device, signal, strength, steps, says,
                "Check that port's cable, transceiver and switch port on {host}.",
                "ibqueryerrors(8)",
            )  # fmt: skip
