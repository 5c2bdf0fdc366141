"""What a check of a deploy found, as every door gives it."""

from __future__ import annotations

from enum import StrEnum

from faultline.analysis.vocabulary import Evidence, Frozen, Gap, UtcTime


class Decision(StrEnum):
    """What to do with the deploy."""

    GO = "go"
    HOLD = "hold"
    ROLL_BACK = "roll_back"


class Group(StrEnum):
    """What a signal says of a service."""

    ERRORS = "errors"
    LATENCY = "latency"
    THROUGHPUT = "throughput"
    SATURATION = "saturation"
    RESTARTS = "restarts"
    LOGS = "logs"


class Comparison(StrEnum):
    """What the time after the deploy was compared with."""

    BEFORE = "before"
    """Windows of the same length before the deploy."""
    REST = "rest"
    """The parts of the service that did not get the deploy, at the same time."""


class SignalCheck(Frozen):
    """One signal after the deploy beside one comparison."""

    id: str
    group: Group
    signal: str
    comparison: Comparison
    against: str
    """In words: "26 windows before", "version v1"."""
    before: float
    after: float
    unit: str | None
    p: float
    """Chance of a move as bad in a healthy deploy, of this signal alone."""
    needed_p: float
    """Below it the move is certain enough to roll back, with all signals and looks accounted
    for."""
    windows: int
    detectable: float | None
    """The level that would have been noticed."""
    worse: bool
    """Whether the move is both certain and large enough to matter."""
    suspicious: bool
    """Whether it is large enough to matter and unusual, but not certain."""
    over: bool = False
    """Whether it is back at its usual level in the last third of the window."""
    sentence: str
    evidence: tuple[str, ...]


class DeployVerdict(Frozen):
    """The answer about one deploy."""

    service: str
    deployed_at: UtcTime
    judged_from: UtcTime
    judged_until: UtcTime
    final: bool
    """Whether the time to watch is over, or the decision cannot change any more."""
    decision: Decision
    headline: str
    reasons: tuple[str, ...]
    missing: tuple[str, ...]
    """What a better answer needs."""
    checks: tuple[SignalCheck, ...]
    rollout: tuple[str, ...] = ()
    """What a cluster says of pods that did not come up."""
    evidence: tuple[Evidence, ...]
    """The items that the checks and the rollout cite."""
    gaps: tuple[Gap, ...]
    false_alarm_rate: float
    """Largest share of healthy deploys that get a roll-back, over all looks."""
    look: int
    looks: int
