"""What a rule is: its name, what it sees, its threshold and where that comes from, and what to do
about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faultline.analysis.kinds.fault_kinds import FaultKind
from faultline.analysis.traces.doctor.diagnosis import EventReference, JobDiagnosis, Severity

if TYPE_CHECKING:
    from faultline.analysis.traces.doctor.job import TrainingJob

MAX_EVENTS = 3


@dataclass(frozen=True)
class DoctorRule:
    """One rule of the trace doctor, as it stands in docs/trace-engine/rules.md."""

    name: str
    """Stable; other programs compare it."""
    sees: str
    threshold: str
    source: str
    fix: str

    def diagnosis(
        self,
        severity: Severity,
        subject: str,
        statement: str,
        numbers: Mapping[str, float],
        *,
        ranks: Sequence[int] = (),
        steps: Sequence[int] = (),
        events: Sequence[EventReference | None] = (),
        details: Mapping[str, Any] | None = None,
        fix: str | None = None,
        cost_ns: float | None = None,
    ) -> JobDiagnosis:
        """A diagnosis of this rule."""
        return JobDiagnosis(
            rule=self.name,
            severity=severity,
            subject=subject,
            statement=statement,
            # Test for None: "" says that there is nothing to do.
            fix=self.fix if fix is None else fix,
            source=self.source,
            numbers=dict(numbers),
            ranks=tuple(ranks),
            steps=tuple(steps),
            events=tuple(e for e in events if e is not None)[:MAX_EVENTS],
            details=dict(details or {}),
            cost_ns=cost_ns,
        )


@dataclass(frozen=True)
class JobRule:
    """A rule that looks at a job's ranks by itself, whatever other rules say of them."""

    rule: DoctorRule
    find: Callable[[TrainingJob], list[JobDiagnosis]]
    """What it accuses; nothing where all is well."""
    fault: FaultKind | None = None
    """What it accuses a rank or the job of, by the rule's name. None where the rule only informs,
    or where `faultline.analysis.kinds.training_causes` has the fault already."""


def short(value: float) -> float:
    """A number as it is in a sentence: whole from 10 on, one decimal below; six digits at
    most."""
    if abs(value) >= 1e6:
        return float(f"{value:.6g}")
    return float(round(value)) if abs(value) >= 10 else round(value, 1)


def ms(ns: float) -> float:
    """Milliseconds as they stand in a sentence; two decimals below 1."""
    value = ns / 1e6
    return short(value) if abs(value) >= 1 else round(value, 2)


def percent(share: float) -> float:
    """A share as whole percent."""
    return float(round(share * 100))


def rank_phrase(ranks: Sequence[int], of: int) -> tuple[str, dict[str, float]]:
    """ "all 4 ranks", "rank 2", "ranks 1 and 3", "3 of 8 ranks", and the numbers in it."""
    if len(ranks) == of and of > 1:
        # Of a job with one rank, "all 1 ranks" would read wrong.
        return f"all {of} ranks", {"ranks": float(of)}
    if len(ranks) == 1:
        return f"rank {ranks[0]}", {"rank": float(ranks[0])}
    if len(ranks) == 2:
        return f"ranks {ranks[0]} and {ranks[1]}", {
            "rank": float(ranks[0]),
            "other_rank": float(ranks[1]),
        }
    return f"{len(ranks)} of {of} ranks", {"ranks": float(len(ranks)), "ranks_of": float(of)}


def subject_of(ranks: Sequence[int], of: int) -> str:
    """What a diagnosis of these ranks is about."""
    return "all ranks" if len(ranks) == of and of > 1 else rank_phrase(ranks, of)[0]


def plural(count: int, what: str) -> str:
    """ "1 step", "3 steps"."""
    return f"{count} {what}{'' if count == 1 else 's'}"
