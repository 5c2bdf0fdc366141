"""One answer of the bot beside the truth, and what a run of them comes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from faultline.analysis.analyzers import fault_of
from faultline.analysis.vocabulary import Cause, Diagnosis
from faultline.evaluation.labels import NAMES_A_CAUSE
from faultline.lab.live.truth import LiveTruth
from faultline.lab.shop.faults import NO_CHANGE

IN_THE_FIRST = 3
"""Causes that a person reads before giving up."""


@dataclass(frozen=True)
class LiveGrade:
    """One incident. What the truth does not say is None: nobody is to blame in a false alarm."""

    number: int
    truth: LiveTruth
    problem: str = ""
    """Why there is nothing to grade: no alert fired, or no answer came."""
    alert: str = ""
    alert_after_s: float = 0.0
    """From the fault to the alert."""
    answer_after_s: float = 0.0
    """From the alert to the final message."""
    investigation: str = ""
    verdict: str = ""
    confidence: float = 0.0
    named: tuple[str, ...] = ()
    """Subjects of the causes, in order."""
    kind: str = ""
    blamed_change: str = NO_CHANGE
    guilty_change: str = NO_CHANGE
    summary: str = ""
    culprit_right: bool | None = None
    kind_right: bool | None = None
    """Whether the first cause is the culprit and tells what is wrong with it."""
    change_right: bool | None = None
    false_alarm: bool | None = None
    """Of a false alarm: whether a cause was named all the same."""
    place: int | None = None
    """Of the culprit among the causes, from 1."""
    cpu_pressure: float | None = None
    """Where it is high, the machine itself was the trouble, and the grade says little."""

    def as_json(self) -> dict[str, Any]:
        """One line of the output."""
        return {**asdict(self), "seal": self.truth.seal}


def grade_answer(
    number: int, truth: LiveTruth, diagnosis: Diagnosis, guilty_change: str, **facts: Any
) -> LiveGrade:
    """Hold the diagnosis against the truth. `facts` is what else is known of the incident."""
    names_a_cause = diagnosis.verdict in NAMES_A_CAUSE
    # A verdict without a cause blames nobody, whatever its causes list.
    causes = diagnosis.causes if names_a_cause else ()
    first = causes[0] if causes else None
    blamed = (first.change if first else None) or NO_CHANGE
    grade = LiveGrade(
        number=number,
        truth=truth,
        verdict=diagnosis.verdict.value,
        confidence=diagnosis.confidence,
        named=tuple(cause.subject for cause in causes[:5]),
        kind=first.kind if first else "",
        blamed_change=blamed,
        guilty_change=guilty_change,
        summary=first.summary if first else "",
        **facts,
    )
    # Nothing was wrong: any named cause is a false one.
    if not truth.subject:
        return replace(grade, false_alarm=first is not None, change_right=blamed == NO_CHANGE)
    place = _place(truth, causes)
    # The kind counts only where the first cause is the culprit.
    kinds = blamed_kinds(diagnosis) if place == 1 else frozenset[str]()
    return replace(
        grade,
        culprit_right=place == 1,
        kind_right=not kinds.isdisjoint(truth.kinds),
        change_right=blamed == guilty_change,
        place=place,
    )


def blamed_kinds(diagnosis: Diagnosis) -> frozenset[str]:
    """What the first cause says is wrong with its subject: its own kind, and what its findings
    speak of. The kind of a cause that blames a change is that of the change."""
    first = diagnosis.causes[0]
    kinds = {first.kind}
    for finding in diagnosis.findings:
        if finding.id not in first.findings or finding.subject != first.subject:
            continue
        fault = fault_of(finding)
        if fault is not None:
            kinds |= {fault.name, fault.as_cause.name}
    return frozenset(kinds)


def _place(truth: LiveTruth, causes: Sequence[Cause]) -> int | None:
    for number, cause in enumerate(causes, 1):
        if cause.subject in truth.accepts:
            return number
    return None


@dataclass
class CountedShare:
    """How many of how many."""

    hits: int = 0
    of: int = 0

    def count(self, hit: bool | None) -> None:
        """One more, unless it is not graded."""
        if hit is not None:
            self.of += 1
            self.hits += hit

    def __str__(self) -> str:
        return f"{self.hits} of {self.of}" if self.of else "none played"


@dataclass
class LiveFigures:
    """Counts of a run."""

    played: int = 0
    without_answer: int = 0
    culprit: CountedShare = field(default_factory=CountedShare)
    culprit_in_three: CountedShare = field(default_factory=CountedShare)
    kind: CountedShare = field(default_factory=CountedShare)
    change_of_guilty: CountedShare = field(default_factory=CountedShare)
    no_change_blamed: CountedShare = field(default_factory=CountedShare)
    """Where none is guilty."""
    false_alarms: CountedShare = field(default_factory=CountedShare)
    """Of healthy shops whose alert fired: those in which a cause was named."""


def live_figures(grades: Iterable[LiveGrade]) -> LiveFigures:
    """What the grades come to."""
    figures = LiveFigures()
    for grade in grades:
        figures.played += 1
        if grade.problem:
            figures.without_answer += 1
            continue
        figures.culprit.count(grade.culprit_right)
        figures.kind.count(grade.kind_right)
        figures.false_alarms.count(grade.false_alarm)
        # A false alarm has no culprit that could be among the first three.
        if grade.truth.subject:
            figures.culprit_in_three.count(grade.place is not None and grade.place <= IN_THE_FIRST)
        changes = figures.change_of_guilty if grade.truth.guilty else figures.no_change_blamed
        changes.count(grade.change_right)
    return figures


def summary_table(grades: Sequence[LiveGrade]) -> str:
    """The figures, and a line per incident."""
    figures = live_figures(grades)
    rows = [
        ("incidents played", f"{figures.played}"),
        ("without an alert or answer", f"{figures.without_answer}"),
        ("culprit first", f"{figures.culprit}"),
        ("culprit in the first three", f"{figures.culprit_in_three}"),
        ("kind of fault seen", f"{figures.kind}"),
        ("guilty change named", f"{figures.change_of_guilty}"),
        ("no change blamed where none is guilty", f"{figures.no_change_blamed}"),
        ("false alarms that named a cause", f"{figures.false_alarms}"),
    ]
    lines = []
    for name, value in rows:
        lines.append(f"{name:40s} {value}")
    lines.append("")
    for grade in grades:
        lines.append(_line(grade))
    return "\n".join(lines)


def _line(grade: LiveGrade) -> str:
    truth = f"{grade.truth.fault} of {grade.truth.subject or 'nothing'}"
    if grade.problem:
        return f"{grade.number:3d}  -          {truth:34s} {grade.problem}"
    marks = f"{_mark(grade.culprit_right)}{_mark(grade.kind_right)}{_mark(grade.change_right)}"
    phrase = f"{grade.verdict} {grade.confidence:.2f} {', '.join(grade.named[:2])} ({grade.kind})"
    return f"{grade.number:3d}  {marks}        {truth:34s} {phrase}"


def _mark(value: bool | None) -> str:
    if value is None:
        return "."
    return "+" if value else "-"
