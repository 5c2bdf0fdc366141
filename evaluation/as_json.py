"""`faultline eval --json`: one document; all but the times is the same in every run. It can be read
back, to be compared with or to be put into docs/accuracy.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from faultline.analysis.errors import EvidenceError
from faultline.analysis.vocabulary import Verdict
from faultline.evaluation.figures import (
    answer_pairs,
    by_condition,
    by_culprit_kind,
    by_distance,
    by_fault,
    by_system,
    change_pairs,
    figures,
    macro_ac1,
    methods_of,
    reliability,
)
from faultline.evaluation.intervals import PairedDifference, as_baseline, beside_baseline
from faultline.evaluation.labels import CaseLabel, CaseSetting, Grade
from faultline.evaluation.running import code_hash

DIGITS = 4
Groups = Mapping[str, Sequence[Grade]]


@dataclass(frozen=True)
class EvaluationResults:
    """An earlier evaluation: its grades, and the hash of the code that gave the answers."""

    code: str
    grades: tuple[Grade, ...]
    without: tuple[str, ...] = ()
    weights: str = ""


def as_json(
    grades: Sequence[Grade],
    without: Sequence[str] = (),
    *,
    weights: str = "",
    differences: Sequence[PairedDifference] = (),
) -> dict[str, Any]:
    """Figures of each system, of each fault and of all cases, reliability, and each case.
    `weights` names the file that the ranking's weights are from, if they are not its own."""
    systems = by_system(grades)
    return {
        "code": code_hash(),
        "weights": weights,
        "systems": _figures_by_group(systems),
        "faults": {name: _figures_by_group(by_fault(group)) for name, group in systems.items()},
        "overall": _figures(grades),
        "macro_ac1": _plain(macro_ac1(grades)),
        "distance": _figures_by_group(by_distance(grades)),
        "culprit_kind": _figures_by_group(by_culprit_kind(grades)),
        "telemetry": _figures_by_group(by_condition(grades)),
        "reliability": {
            "answer": _plain(reliability(answer_pairs(grades))),
            "change": _plain(reliability(change_pairs(grades))),
        },
        "baselines": {name: _baseline(grades, name) for name in methods_of(grades)},
        "compared": _plain(differences),
        "without": list(without),
        "cases": [_case(g) for g in grades],
    }


def read_results(file: Path) -> EvaluationResults:
    """What an earlier `--json` printed. Raises EvidenceError for anything else."""
    try:
        document = json.loads(file.read_bytes())
        grades = tuple(_grade(case) for case in document["cases"])
        return EvaluationResults(
            document["code"], grades, tuple(document["without"]), document["weights"]
        )
    except OSError as error:
        raise EvidenceError(str(file), f"cannot be read ({error.strerror})") from error
    # A broken file may fail anywhere: as JSON, at a key, or at a value.
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"is not what `faultline eval --json` prints ({type(error).__name__}: {error})"
        raise EvidenceError(str(file), reason) from error


def _figures_by_group(groups: Groups) -> dict[str, Any]:
    return {name: _figures(group) for name, group in groups.items()}


def _figures(grades: Sequence[Grade]) -> dict[str, Any]:
    return {**_plain(figures(grades))}


def _baseline(grades: Sequence[Grade], method: str) -> dict[str, Any]:
    answered = [as_baseline(g, method) for g in grades if method in g.baselines]
    baseline_figures = figures(answered)
    names = ("n", "ac1", "ac3", "ac5", "avg5")
    accuracy = {name: _plain(getattr(baseline_figures, name)) for name in names}
    ends = {
        name: _plain(interval)
        for name, interval in baseline_figures.intervals.items()
        if name in names
    }
    return {**accuracy, "intervals": ends, "ours_less_its": _plain(beside_baseline(grades, method))}


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
        "path_shown": g.path_shown,
        "cpu_s": _plain(g.cpu_s),
        "answer_why": g.answer_why,
        "truth_why": g.truth_why,
        "problem": g.problem,
        "label": g.label.model_dump(mode="json", exclude_none=True) if g.label else None,
        "setting": _plain(g.setting),
        "baselines": {name: list(named) for name, named in g.baselines.items()},
    }


def _grade(case: Mapping[str, Any]) -> Grade:
    label, verdict, setting = case["label"], case["verdict"], case["setting"]
    return Grade(
        case=case["case"],
        system=case["system"],
        fault=case["fault"],
        label=CaseLabel.model_validate(label) if label is not None else None,
        rank=case["rank"],
        causes=tuple(case["causes"]),
        verdict=Verdict(verdict) if verdict else None,
        confidence=case["confidence"],
        right=case["right"],
        change=case["change"],
        change_rank=case["change_rank"],
        decoys=tuple(case["decoys"]),
        decoy_first=case["decoy_first"],
        cpu_s=case["cpu_s"],
        answer_why=case["answer_why"],
        truth_why=case["truth_why"],
        setting=CaseSetting(
            tuple(setting["path"]),
            setting["distance"],
            setting["culprit_kind"],
            tuple((name, value) for name, value in setting["conditions"]),
        ),
        path_shown=case["path_shown"],
        baselines={name: tuple(named) for name, named in case["baselines"].items()},
        problem=case["problem"],
    )


def _plain(value: Any) -> Any:
    """Values of JSON, numbers rounded."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    # A dataclass type would be callable; here there are only values of them.
    if hasattr(value, "__dataclass_fields__"):
        return _plain(asdict(value))
    return value
