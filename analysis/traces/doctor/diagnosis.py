"""What the trace doctor says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True)
class EventReference:
    """An event that a person can open: its file, its position in the file's list of events, and
    when it was."""

    rank: int
    file: str
    event: int
    name: str
    start_ns: int
    duration_ns: int
    step: int | None = None


@dataclass(frozen=True)
class JobDiagnosis:
    """One thing that is wrong with a job, or with what is known of it."""

    rule: str
    """"straggler", "dataloader_stall", ...: stable, other programs compare it."""
    severity: Severity
    subject: str
    """"rank 2", "step 11", "all ranks", a kernel's name."""
    statement: str
    """One sentence; every number in it is in `numbers`."""
    fix: str
    """What to do about it, one or two sentences; may name settings. "" where nothing is to be
    done."""
    source: str
    """Where the threshold comes from."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    """The culprits, not the victims; empty where no rank is to blame."""
    steps: tuple[int, ...] = ()
    events: tuple[EventReference, ...] = ()
    """At most a few, the clearest first."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for tables and charts."""
    cost_ns: float | None = None
    """What it costs of each step at most (of the whole trace, without steps); None where that
    is not known. Findings are ranked by it."""
