"""What an accelerator can do at most: `accelerators.toml` beside this file, with its sources."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from faultline.analysis.traces.costs.cost import Cost

GB = 1e9


@dataclass(frozen=True)
class Accelerator:
    """Peaks of one device, without sparsity."""

    name: str
    """As the trace names it."""
    tflops: Mapping[str, float]
    """TFLOP/s by precision."""
    tb_s: float
    """Of the device's memory."""
    link_gb_s: float | None
    """To all other devices of its host together, in one direction; None where the data sheet has no
    such link."""
    link: str
    """ "NVLink" or "Infinity Fabric"."""
    link_peers: int | None
    """Devices that the link is divided between, where no switch lets one use all of it."""
    source: str
    """The data sheet."""

    def link_peak(self, ranks: int) -> float | None:
        """GB/s in one direction within a group of that many devices of a host; None where not
        known."""
        # Through a switch even two devices use the whole link.
        if self.link_gb_s is None or self.link_peers is None:
            return self.link_gb_s
        return self.link_gb_s * min(max(ranks - 1, 1) / self.link_peers, 1.0)

    def peak_tflops(self, cost: Cost, *, matrix_units: bool) -> float | None:
        """For a cost; `matrix_units` says whether its kernels use them. Operators without special
        units compute in float32. None where the data sheet has no figure."""
        if not cost.on_matrix_units:
            return self.tflops.get("fp64" if cost.precision == "fp64" else "fp32")
        if cost.precision == "fp32" and matrix_units:
            # Matrix units run float32 products as TF32 where the data sheet has it.
            return self.tflops.get("tf32", self.tflops.get("fp32_matrix", self.tflops.get("fp32")))
        if cost.precision == "fp32":
            return self.tflops.get("fp32_matrix", self.tflops.get("fp32"))
        return self.tflops.get(cost.precision)

    def floor_ns(self, cost: Cost, *, matrix_units: bool) -> tuple[float | None, str]:
        """The least time that a cost takes, and whether "compute" or "memory" sets it; (None, "")
        where the peak is unknown."""
        peak = self.peak_tflops(cost, matrix_units=matrix_units)
        if peak is None:
            return None, ""
        # TFLOP/s and TB/s are operations and bytes per picosecond; / 1e3 gives ns.
        computing, moving = cost.flops / peak / 1e3, cost.bytes / self.tb_s / 1e3
        return max((computing, "compute"), (moving, "memory"))


def accelerator_of(header: Mapping[str, Any]) -> Accelerator | None:
    """Of the first device in a trace's `deviceProperties`; None where it is not in the table."""
    devices = header.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else None
    if not isinstance(first, dict) or not isinstance(first.get("name"), str):
        return None
    memory = first.get("totalGlobalMem")
    memory_gb = memory / GB if isinstance(memory, (int, float)) else None
    return accelerator_named(first["name"], memory_gb)


def accelerator_named(name: str, memory_gb: float | None = None) -> Accelerator | None:
    """By the device's name. Where its memory is not known, the name is searched for it."""
    if memory_gb is None:
        match = re.search(r"(\d+) ?GB", name)
        memory_gb = float(match[1]) if match else 0.0
    for pattern, least_gb, figures in _entries():
        if pattern.search(name) and memory_gb >= least_gb:
            return Accelerator(
                name[:100],
                figures["tflops"],
                figures["tb_s"],
                figures.get("link_gb_s"),
                figures.get("link", "NVLink"),
                figures.get("link_peers"),
                figures["source"],
            )
    return None


@lru_cache(maxsize=1)
def _entries() -> tuple[tuple[re.Pattern[str], float, dict[str, Any]], ...]:
    """(pattern, least memory, figures) in the order of the file."""
    table = tomllib.loads(Path(__file__).with_name("accelerators.toml").read_text())
    return tuple(
        (re.compile(entry["pattern"]), entry.get("memory_gb", 0.0), entry)
        for entry in table["accelerator"]
    )
