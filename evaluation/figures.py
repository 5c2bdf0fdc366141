"""What all grades come to: accuracy by system and by fault, changes, calibration, cost.

AC@k is the share of cases with a true subject among the first k causes; Avg@5 the mean of AC@1..5.
Expected calibration error: answers in ten equal bins of the stated confidence, the mean distance of
each bin's share of right answers from its mean confidence, weighted by size (Naeini et al., AAAI
2015).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.grading import Grade

BINS = 10
DRAWS = 2000
SEED = 20261121


@dataclass(frozen=True)
class Bin:
    """Answers whose confidence lies in [low, high), the last bin with its end."""

    low: float
    high: float
    n: int
    confidence: float
    right: float


@dataclass(frozen=True)
class AccuracyFigures:
    """One group of cases. None where no case has what it is about; shares in [0, 1], times in CPU
    seconds.

    `n` cases have a true subject; `failed` of all have no answer. `decoys` counts cases whose first
    cause blames a decoy, `decoys3` those that do in the first three. `ece` is about the answer,
    `ece_change` about the change named. `ece_floor` is what a perfectly calibrated bot that states
    these confidences would show on so few cases.
    """

    cases: int
    n: int
    ac1: float | None
    ac3: float | None
    ac5: float | None
    avg5: float | None
    change_n: int
    change1: float | None
    change3: float | None
    decoys: int
    decoys3: int
    verdict_n: int
    verdict_right: float | None
    verdicts: dict[str, int]
    answers_right: float | None
    ece: float | None
    ece_floor: float | None
    ece_change: float | None
    cpu_s: float
    cpu_max_s: float
    failed: int


def figures(grades: Sequence[Grade]) -> AccuracyFigures:
    """The figures of one group."""
    located = [g for g in grades if g.subject]
    changed = [g for g in grades if g.culprit]
    judged = [g for g in grades if g.verdict_right is not None]
    answers = answer_pairs(grades)
    at = [_mean([float(g.hit(k)) for g in located]) for k in range(1, 6)]
    return AccuracyFigures(
        cases=len(grades),
        n=len(located),
        ac1=at[0],
        ac3=at[2],
        ac5=at[4],
        avg5=_mean([share for share in at if share is not None]),
        change_n=len(changed),
        change1=_share(changed, lambda g: g.change_hit(1)),
        change3=_share(changed, lambda g: g.change_hit(3)),
        decoys=sum(g.decoy_first for g in grades),
        decoys3=sum(bool(g.decoys) for g in grades),
        verdict_n=len(judged),
        verdict_right=_share(judged, lambda g: g.verdict_right is True),
        verdicts=dict(sorted(Counter(str(g.verdict) for g in grades if g.verdict).items())),
        answers_right=_mean([float(right) for _, right in answers]),
        ece=calibration_error(answers),
        ece_floor=_calibrated_error([confidence for confidence, _ in answers]),
        ece_change=calibration_error(change_pairs(grades)),
        cpu_s=_mean([g.cpu_s for g in grades]) or 0.0,
        cpu_max_s=max((g.cpu_s for g in grades), default=0.0),
        failed=sum(g.verdict is None for g in grades),
    )


def by_system(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    """The grades of each system, by its name."""
    return _grouped(grades, lambda g: g.system)


def by_fault(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    """The grades of each fault, by its name."""
    return _grouped(grades, lambda g: g.fault)


def answer_pairs(grades: Iterable[Grade]) -> list[tuple[float, bool]]:
    """Stated confidence, and whether the answer was right."""
    pairs = []
    for grade in grades:
        if grade.confidence is not None and grade.right is not None:
            pairs.append((grade.confidence, grade.right))
    return pairs


def change_pairs(grades: Iterable[Grade]) -> list[tuple[float, bool]]:
    """Stated confidence, and whether the change named (or "none") was right."""
    pairs = []
    for grade in grades:
        if grade.confidence is not None and grade.culprit:
            pairs.append((grade.confidence, grade.change_hit(1)))
    return pairs


def reliability(pairs: Sequence[tuple[float, bool]]) -> list[Bin]:
    """The bins that hold an answer, lowest first."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in pairs:
        # 0.7 * 10 is 6.999... in binary, and 1.0 belongs into the last bin.
        number = min(int(confidence * BINS + 1e-9), BINS - 1)
        bins.setdefault(number, []).append((confidence, right))
    return [_bin(number, bins[number]) for number in sorted(bins)]


def _bin(number: int, pairs: Sequence[tuple[float, bool]]) -> Bin:
    return Bin(
        low=number / BINS,
        high=(number + 1) / BINS,
        n=len(pairs),
        confidence=sum(confidence for confidence, _ in pairs) / len(pairs),
        right=sum(right for _, right in pairs) / len(pairs),
    )


def calibration_error(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Expected calibration error; None without answers."""
    if not pairs:
        return None
    gaps = [one.n * abs(one.right - one.confidence) for one in reliability(pairs)]
    return sum(gaps) / len(pairs)


def _calibrated_error(confidences: Sequence[float]) -> float | None:
    """The mean error when each answer is right with just the probability it states: what chance
    alone gives."""
    if not confidences:
        return None
    stated = np.array(confidences)
    where = np.minimum((stated * BINS + 1e-9).astype(int), BINS - 1)
    right = np.random.default_rng(SEED).random((DRAWS, len(stated))) < stated
    gaps = []
    for number in sorted(set(where.tolist())):
        inside = where == number
        gaps.append(np.abs((right[:, inside] - stated[inside]).sum(axis=1)))
    return float(np.sum(gaps, axis=0).mean() / len(stated))


def _grouped(grades: Iterable[Grade], key: Callable[[Grade], str]) -> dict[str, list[Grade]]:
    groups: dict[str, list[Grade]] = {}
    for one in grades:
        groups.setdefault(key(one), []).append(one)
    return {name: groups[name] for name in sorted(groups)}


def _share(grades: Sequence[Grade], holds: Callable[[Grade], bool]) -> float | None:
    return _mean([float(holds(g)) for g in grades])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
