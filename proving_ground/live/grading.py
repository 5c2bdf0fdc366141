"""One answer of the bot beside the truth, and what a run of them comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.vocabulary import Diagnosis
from evaluation.grading import NAMES_A_CAUSE
from proving_ground.live.truth import LiveTruth
from proving_ground.shop.faults import NO_CHANGE


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
    number: int, truth: LiveTruth, diagnosis: Diagnosis, guilty_change: str, **told: Any
) -> LiveGrade:
    """Hold the diagnosis against the truth. `told` is what else is known of the incident."""
    names_a_cause = diagnosis.verdict in NAMES_A_CAUSE
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
        **told,
    )
    if not truth.subject:
        return _with(grade, false_alarm=first is not None, change_right=blamed == NO_CHANGE)
    places = [n for n, cause in enumerate(causes, 1) if cause.subject in truth.accepts]
    return _with(
        grade,
        culprit_right=bool(places) and places[0] == 1,
        kind_right=first is not None and first.kind in truth.kinds,
        change_right=blamed == guilty_change,
        place=places[0] if places else None,
    )


def _with(grade: LiveGrade, **values: Any) -> LiveGrade:
    return LiveGrade(**{**{k: getattr(grade, k) for k in grade.__dataclass_fields__}, **values})


@dataclass(frozen=True)
class LiveFigures:
    """Counts of a run: how many of how many."""

    played: int
    without_answer: int
    culprit: tuple[int, int]
    culprit_in_three: tuple[int, int]
    kind: tuple[int, int]
    change_of_guilty: tuple[int, int]
    no_change_blamed: tuple[int, int]
    """Where none is guilty."""
    false_alarms: tuple[int, int]
    """Of healthy shops whose alert fired: those in which a cause was named."""


def live_figures(grades: Sequence[LiveGrade]) -> LiveFigures:
    """What the grades come to."""
    answered = [one for one in grades if not one.problem]
    broken = [one for one in answered if one.truth.subject]
    calm = [one for one in answered if not one.truth.subject]
    guilty = [one for one in broken if one.truth.guilty]
    innocent = [one for one in answered if not one.truth.guilty]
    in_three = [one for one in broken if one.place is not None and one.place <= 3]
    return LiveFigures(
        played=len(grades),
        without_answer=len(grades) - len(answered),
        culprit=_count([one.culprit_right for one in broken]),
        culprit_in_three=(len(in_three), len(broken)),
        kind=_count([one.kind_right for one in broken]),
        change_of_guilty=_count([one.change_right for one in guilty]),
        no_change_blamed=_count([one.change_right for one in innocent]),
        false_alarms=_count([one.false_alarm for one in calm]),
    )


def _count(values: Sequence[bool | None]) -> tuple[int, int]:
    return sum(bool(one) for one in values), len(values)


def summary_table(grades: Sequence[LiveGrade]) -> str:
    """The figures, and a line per incident."""
    found = live_figures(grades)
    rows = [
        ("incidents played", f"{found.played}"),
        ("without an alert or answer", f"{found.without_answer}"),
        ("culprit first", _share(found.culprit)),
        ("culprit in the first three", _share(found.culprit_in_three)),
        ("kind of fault seen", _share(found.kind)),
        ("guilty change named", _share(found.change_of_guilty)),
        ("no change blamed where none is guilty", _share(found.no_change_blamed)),
        ("false alarms that named a cause", _share(found.false_alarms)),
    ]
    lines = [f"{name:40s} {value}" for name, value in rows]
    lines.append("")
    for one in grades:
        lines.append(_line(one))
    return "\n".join(lines)


def _line(one: LiveGrade) -> str:
    truth = f"{one.truth.fault} of {one.truth.subject or 'nothing'}"
    if one.problem:
        return f"{one.number:3d}  -          {truth:34s} {one.problem}"
    marks = f"{_mark(one.culprit_right)}{_mark(one.kind_right)}{_mark(one.change_right)}"
    said = f"{one.verdict} {one.confidence:.2f} {', '.join(one.named[:2])} ({one.kind})"
    return f"{one.number:3d}  {marks}        {truth:34s} {said}"


def _mark(value: bool | None) -> str:
    if value is None:
        return "."
    return "+" if value else "-"


def _share(count: tuple[int, int]) -> str:
    right, of = count
    return f"{right} of {of}" if of else "none played"
