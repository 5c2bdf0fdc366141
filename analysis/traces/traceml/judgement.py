"""Our own judgement of what TraceML measured, with TraceML's thresholds.

Medians over the steps stand where TraceML takes means, so that one long step makes no straggler,
and a straggler must be one in half of the steps. A rank that is slow in its backward pass is not
seen: the all-reduce makes all backward passes equally long (TraceML #252); arrival times in traces
or flight recorder dumps show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.judgement.memory import CREEP_BYTES, CREEP_STEPS
from faultline.analysis.traces.judgement.waiting import PERSISTENT, WARN_SHARE
from faultline.analysis.traces.traceml.session import RankMemory, TraceMLSession

WARN_STEPS = 2
"""Least steps (TraceML)."""
COVERAGE = 0.80
"""Share of the wait that a part must explain to be called the cause (TraceML)."""
CREEP_BANDS = ((0.15, 0.25), (0.45, 0.55), (0.90, 1.0))
"""Early, middle and late steps that must rise (TraceML)."""


@dataclass(frozen=True)
class Straggler:
    """The rank that others wait for in their backward pass."""

    rank: int
    victim: int
    score: float
    """Waiting as share of the victim's step."""
    wait_ms: float
    step_ms: float
    cause: str
    """"input", "computation", "h2d", "optimizer", "residual"; "" where no part explains it."""
    rank_ms: float
    """That part on the rank; 0 without a cause."""
    victim_ms: float
    sharded: bool


def straggler(session: TraceMLSession) -> Straggler | None:
    """The rank with the least visible time, where the others' is longer by 10 % of a step."""
    ms = session.ms
    if ms is None or len(session.ranks) < 2 or session.steps < WARN_STEPS:
        return None
    sharded = "fsdp" in session.strategy
    visible = ms["backward"] + ms["forward"] if sharded else ms["backward"]
    usual = np.median(visible, axis=1)
    order = np.argsort(usual, kind="stable")
    # The rank that waits least in its backward pass is the one that the others wait for.
    culprit, victim = int(order[0]), int(order[len(order) // 2])
    step = float(session.step_ms[victim])
    wait = float(usual[victim] - usual[culprit])
    if step <= 0 or wait / step < WARN_SHARE:
        return None
    length = ms["input"][victim] + ms["traced"][victim]
    late = visible[victim] - visible[culprit] >= WARN_SHARE * length
    if float(np.mean(late)) < PERSISTENT:
        return None
    parts = _parts(session, sharded)
    excess = {name: float(times[culprit] - times[victim]) for name, times in parts.items()}
    cause = max(excess, key=lambda name: excess[name])
    if excess[cause] < COVERAGE * wait:
        cause = ""
    return Straggler(
        rank=session.ranks[culprit],
        victim=session.ranks[victim],
        score=wait / step,
        wait_ms=wait,
        step_ms=step,
        cause=cause,
        rank_ms=float(parts[cause][culprit]) if cause else 0.0,
        victim_ms=float(parts[cause][victim]) if cause else 0.0,
        sharded=sharded,
    )


def _parts(
    session: TraceMLSession, sharded: bool
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """What a rank can be late by: all but what ends only when the others arrive."""
    parts = {
        "input": session.usual("input"),
        "h2d": session.usual("h2d"),
        "optimizer": session.usual("optimizer"),
    }
    parts["residual"] = session.residual_ms
    # With sharded parameters the forward pass includes waiting for the other ranks.
    if not sharded:
        parts["computation"] = session.usual("forward")
    return parts


def shares(session: TraceMLSession) -> dict[str, float]:
    """Median over the ranks of the share of their steps: "input", "h2d" (accelerator's clock only),
    "residual"."""
    if session.ms is None or session.steps < WARN_STEPS:
        return {}
    step = np.maximum(session.step_ms, 1e-9)
    usuals = {"input": session.usual("input"), "residual": session.residual_ms}
    if session.gpu_clock:
        usuals["h2d"] = session.usual("h2d")
    return {name: float(np.median(times / step)) for name, times in usuals.items()}


def reserved_share(memory: RankMemory) -> float:
    """Largest reserved share of the device; 0 where it is not known."""
    return memory.reserved / memory.total if memory.total else 0.0


def creep(memory: RankMemory) -> float:
    """Bytes by which the peak grew from early to late steps, rising throughout; 0 where it did not,
    or too little."""
    peaks = memory.peak_allocated
    if len(peaks) < CREEP_STEPS:
        return 0.0
    early, middle, late = (
        float(np.median(peaks[int(a * len(peaks)) : int(b * len(peaks))])) for a, b in CREEP_BANDS
    )
    return late - early if early < middle < late and late - early >= CREEP_BYTES else 0.0
