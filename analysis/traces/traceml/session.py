"""What one TraceML session holds, whether its telemetry database or its summary told it.

Source: TraceML 0.5.0's own files (summary schema 1.7 to 1.9).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.judgement.thresholds import (
    CREEP_BYTES,
    CREEP_STEPS,
    PERSISTENT,
    WARN_SHARE,
)

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


# TraceML's final_summary.json: its own verdict, and the means of every rank.

MAX_BYTES = 32 << 20
MAX_RANKS = 20_000
COLUMNS = {
    "input": "input_wait_ms",
    "h2d": "h2d_ms",
    "forward": "forward_ms",
    "backward": "backward_ms",
    "optimizer": "optimizer_ms",
    TRACED: "traced_step_time_ms",
}
"""Phase -> the summary's name for it."""


def read_summary(path: Path) -> TraceMLSession:
    """The session of a summary. Raises EvidenceError when it is none."""
    value = _content(path)
    section = _dict(value, "step_time")
    verdict = _verdict(_dict(value, "primary_diagnosis"), section)
    if verdict is None and not section:
        raise EvidenceError(path.name, "is no summary of TraceML")
    rows = {r: m for r, m in _rows(section).items() if _number(m.get(COLUMNS[TRACED])) > 0}
    ranks = tuple(sorted(rows))
    ms = {
        phase: np.array([[_number(rows[r].get(name))] for r in ranks], dtype=np.float64)
        for phase, name in COLUMNS.items()
    }
    steps = _number(_dict(_dict(section, "global"), "window").get("steps_analyzed"))
    return TraceMLSession(
        file=str(path),
        ranks=ranks,
        ms=ms if ranks else None,
        steps=int(min(steps, 1e9)),
        verdict=verdict,
        gpu_clock=bool(ranks) and all(_number(rows[r].get("step_time_gpu_ms")) > 0 for r in ranks),
    )


def _content(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            # Read one byte too many, to notice a file that is too large.
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise EvidenceError(path.name, f"cannot be read ({error.strerror})") from error
    if len(data) > MAX_BYTES:
        raise EvidenceError(path.name, f"is larger than {MAX_BYTES >> 20} MiB")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(path.name, "is no JSON") from error
    if not isinstance(value, dict):
        raise EvidenceError(path.name, "is no summary of TraceML")
    return value


def _rows(section: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """rank -> its means."""
    groups = _dict(section, "groups")
    # Groups by anything else are no ranks.
    if groups.get("by") not in (None, "global_rank"):
        return {}
    rows: dict[int, dict[str, Any]] = {}
    for name, row in _dict(groups, "rows").items():
        if (
            name.isascii()
            and name.isdigit()
            and len(name) < 8
            and isinstance(row, dict)
            and len(rows) < MAX_RANKS
        ):
            rows[int(name)] = _dict(row, "metrics")
    return rows


def _verdict(primary: dict[str, Any], section: dict[str, Any]) -> TraceMLVerdict | None:
    kind = primary.get("kind")
    if not isinstance(kind, str):
        return None
    issues = _list(section, "issues")
    issue: dict[str, Any] = next(
        (i for i in issues if isinstance(i, dict) and i.get("kind") == kind), {}
    )
    return TraceMLVerdict(
        kind=kind[:60],
        severity=str(primary.get("severity"))[:10],
        summary=str(primary.get("summary"))[:300],
        action=str(primary.get("action"))[:300],
        # `type`, not isinstance: True is no rank.
        ranks=tuple(r for r in _list(issue, "ranks")[:64] if type(r) is int and 0 <= r < 10**7),
    )


def _list(value: dict[str, Any], key: str) -> list[Any]:
    child = value.get(key)
    return child if isinstance(child, list) else []


def _dict(value: dict[str, Any], key: str) -> dict[str, Any]:
    child = value.get(key)
    return child if isinstance(child, dict) else {}


def _number(value: Any) -> float:
    """A number of at least 0; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < 1e12 else 0.0


# Our own judgement of what TraceML measured, with TraceML's thresholds.
#
# Medians over the steps stand where TraceML takes means, so that one long step makes no straggler,
# and a straggler must be one in half of the steps. A rank that is slow in its backward pass is not
# seen: the all-reduce makes all backward passes equally long (TraceML #252); arrival times in
# traces or flight recorder dumps show it.

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
