"""What one TraceML session holds, whether its telemetry database or its summary told it.

Source: TraceML 0.5.0's own files (summary schema 1.7 to 1.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PHASES = ("input", "h2d", "forward", "backward", "optimizer")
TRACED = "traced"
"""The step as TraceML times it; the wait for input lies before it."""


@dataclass(frozen=True)
class TraceMLVerdict:
    """What TraceML itself says."""

    kind: str
    """"INPUT_STRAGGLER", "COMPUTE_BOUND", ..."""
    severity: str
    """"info", "warn" or "crit"."""
    summary: str
    action: str
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class RankMemory:
    """The accelerator's memory of one rank, in bytes."""

    rank: int
    peak_allocated: Floats
    """By step; empty where it was not measured."""
    reserved: float
    """The largest; 0 where it was not measured."""
    total: float
    """The device's; 0 where it is not known."""


@dataclass(frozen=True)
class TraceMLSession:
    """One job as TraceML saw it."""

    file: str
    ranks: tuple[int, ...] = ()
    ms: Mapping[str, Floats] | None = None
    """Phase, and TRACED -> (rank, step) in ms; one column of means where only the summary is at
    hand."""
    steps: int = 0
    """Steps that all ranks share."""
    strategy: str = ""
    """"ddp", "fsdp", ...; "" where it is not known."""
    gpu_clock: bool = False
    """Phases were timed on the accelerator."""
    memory: tuple[RankMemory, ...] = ()
    verdict: TraceMLVerdict | None = None
    cut: bool = False
    """The database has more samples than were read."""

    def usual(self, phase: str) -> Floats:
        """Median over the steps, by rank, in ms."""
        assert self.ms is not None
        median: Floats = np.median(self.ms[phase], axis=1)
        return median

    @property
    def step_ms(self) -> Floats:
        """Waiting for input and the step itself: median over the steps, by rank."""
        assert self.ms is not None
        median: Floats = np.median(self.ms["input"] + self.ms[TRACED], axis=1)
        return median

    @property
    def residual_ms(self) -> Floats:
        """What of the step lies in no phase: median over the steps, by rank."""
        assert self.ms is not None
        # The wait for input lies before the traced step.
        inside = sum((self.ms[p] for p in PHASES if p != "input"), np.zeros_like(self.ms[TRACED]))
        median: Floats = np.median(np.maximum(self.ms[TRACED] - inside, 0.0), axis=1)
        return median
