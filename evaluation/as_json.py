"""`faultline eval --json`: one document; all but the times is the same in every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evaluation.figures import answer_pairs, by_fault, by_system, change_pairs, figures, reliability
from evaluation.grading import Grade

DIGITS = 4


def as_json(grades: Sequence[Grade], without: Sequence[str] = ()) -> dict[str, Any]:
    """Figures of each system, of each fault and of all cases, reliability, and each case."""
    systems = by_system(grades)
    return {
        "systems": {name: _figures(group) for name, group in systems.items()},
        "faults": {name: _faults(group) for name, group in systems.items()},
        "overall": _figures(grades),
        "reliability": {
            "answer": _bins(answer_pairs(grades)),
            "change": _bins(change_pairs(grades)),
        },
        "without": list(without),
        "cases": [_case(g) for g in grades],
    }


def _faults(grades: Sequence[Grade]) -> dict[str, dict[str, Any]]:
    return {fault: _figures(part) for fault, part in by_fault(grades).items()}


def _figures(grades: Sequence[Grade]) -> dict[str, Any]:
    return _all_rounded(asdict(figures(grades)))


def _bins(pairs: Sequence[tuple[float, bool]]) -> list[dict[str, Any]]:
    return [_all_rounded(asdict(one)) for one in reliability(pairs)]


def _all_rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {key: _rounded(value) for key, value in values.items()}


def _case(g: Grade) -> dict[str, Any]:
    return {
        "case": g.case,
        "system": g.system,
        "fault": g.fault,
        "subject": g.subject,
        "rank": g.rank,
        "causes": list(g.causes),
        "verdict": g.verdict.value if g.verdict else None,
        "expected_verdict": g.label.verdict.value if g.label and g.label.verdict else None,
        "verdict_right": g.verdict_right,
        "confidence": g.confidence,
        "right": g.right,
        "change": g.change,
        "culprit": g.culprit,
        "change_rank": g.change_rank,
        "decoys": list(g.decoys),
        "decoy_first": g.decoy_first,
        "cpu_s": _rounded(g.cpu_s),
        "answer_why": g.answer_why,
        "truth_why": g.truth_why,
        "problem": g.problem,
    }


def _rounded(value: Any) -> Any:
    return round(value, DIGITS) if isinstance(value, float) else value
