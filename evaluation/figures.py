"""What all grades come to: accuracy by system and by fault, changes, calibration, cost.

AC@k is the share of cases with a true subject among the first k causes; Avg@5 the mean of AC@1..5.
Expected calibration error: answers in ten equal bins of the stated confidence, the mean distance of
each bin's share of right answers from its mean confidence, weighted by size (Naeini et al., AAAI
2015). Intervals are explained in `faultline.evaluation.intervals`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from faultline.analysis.vocabulary import Verdict
from faultline.evaluation.intervals import (
    ConfidenceInterval,
    calibration_interval,
    mean_interval,
    mean_over_groups,
    wilson,
)
from faultline.evaluation.labels import NAMES_A_CAUSE, NO_CHANGE, Grade

LARGEST_SHIFT = "largest shift"
"""The simple method that the product is compared with, case by case."""
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

    `n` cases have a true subject; `failed` of all have no answer. `guilty` cases have a change that
    is to blame, `decoy_n` changes that are not: `decoys` counts those whose first cause blames one,
    `decoys3` those that do in the first three. `accused` is the share of the `quiet` cases, in
    which nothing is wrong, that name a cause or say that there was one. `path` is the share of the
    cases with a known path that show it. `ece` is about the answer, `ece_change` about the change
    named. `ece_floor` is what a perfectly calibrated bot that states these confidences would show
    on so few cases. `intervals` holds 95 % intervals by the figure's name.
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
    guilty: int
    guilty1: float | None
    decoy_n: int
    decoys: int
    decoys3: int
    decoy_share: float | None
    quiet: int
    accused: float | None
    verdict_n: int
    verdict_right: float | None
    verdicts: dict[str, int]
    answers_right: float | None
    path_n: int
    path: float | None
    ece: float | None
    ece_floor: float | None
    ece_change: float | None
    cpu_s: float
    cpu_max_s: float
    failed: int
    intervals: Mapping[str, ConfidenceInterval] = field(default_factory=dict)


@dataclass(frozen=True)
class CountedGrades:
    """How many of the grades that a question is about answer it with yes."""

    hits: int
    of: int

    @property
    def share(self) -> float | None:
        """In [0, 1]; None without cases."""
        return self.hits / self.of if self.of else None


@dataclass(frozen=True)
class MacroMean:
    """A mean over systems."""

    systems: int
    value: float
    interval: ConfidenceInterval


def figures(grades: Sequence[Grade]) -> AccuracyFigures:
    """The figures of one group."""
    located = [g for g in grades if g.subject]
    changed = [g for g in grades if g.culprit]
    answers, changes = answer_pairs(grades), change_pairs(grades)
    shares = _shares(grades, located, changed)
    share = {name: counted.share for name, counted in shares.items()}
    seconds = [g.cpu_s for g in grades]
    return AccuracyFigures(
        cases=len(grades),
        n=len(located),
        ac1=share["ac1"],
        ac3=share["ac3"],
        ac5=share["ac5"],
        # The mean of the five AC@k, as in its definition.
        avg5=_mean([share[f"ac{k}"] for k in range(1, 6)]),
        change_n=len(changed),
        change1=share["change1"],
        change3=share["change3"],
        guilty=shares["guilty1"].of,
        guilty1=share["guilty1"],
        decoy_n=shares["decoy_share"].of,
        decoys=sum(g.decoy_first for g in grades),
        decoys3=sum(bool(g.decoys) for g in grades),
        decoy_share=share["decoy_share"],
        quiet=shares["accused"].of,
        accused=share["accused"],
        verdict_n=shares["verdict_right"].of,
        verdict_right=share["verdict_right"],
        verdicts=dict(sorted(Counter(str(g.verdict) for g in grades if g.verdict).items())),
        answers_right=share["answers_right"],
        path_n=shares["path"].of,
        path=share["path"],
        ece=calibration_error(answers),
        ece_floor=_calibrated_error(answers),
        ece_change=calibration_error(changes),
        cpu_s=_mean(seconds) or 0.0,
        cpu_max_s=max(seconds, default=0.0),
        failed=sum(g.verdict is None for g in grades),
        intervals=_intervals(shares, grades, located),
    )


def _shares(
    grades: Sequence[Grade], located: Sequence[Grade], changed: Sequence[Grade]
) -> dict[str, CountedGrades]:
    guilty = [g for g in changed if g.culprit != NO_CHANGE]
    tempted = [g for g in grades if g.label and g.label.decoys]
    quiet = [g for g in grades if is_quiet(g)]
    # Without a confidence nothing was answered.
    answers = [g.right for g in grades if g.confidence is not None]
    shares = {
        "change1": _count(changed, lambda g: g.change_hit(1)),
        "change3": _count(changed, lambda g: g.change_hit(3)),
        "guilty1": _count(guilty, lambda g: g.change_hit(1)),
        "decoy_share": _count(tempted, lambda g: g.decoy_first),
        "accused": _count(quiet, lambda g: g.verdict in NAMES_A_CAUSE),
        "verdict_right": _count_decided(g.verdict_right for g in grades),
        "answers_right": _count_decided(answers),
        "path": _count_decided(g.path_shown for g in grades),
    }
    for k in range(1, 6):
        shares[f"ac{k}"] = CountedGrades(sum(g.hit(k) for g in located), len(located))
    return shares


def is_quiet(grade: Grade) -> bool:
    """Whether nothing was wrong, by its label."""
    return grade.label is not None and grade.label.verdict is Verdict.NO_ACTIVE_INCIDENT


def _intervals(
    shares: Mapping[str, CountedGrades], grades: Sequence[Grade], located: Sequence[Grade]
) -> dict[str, ConfidenceInterval]:
    wilsons = {name: wilson(counted.hits, counted.of) for name, counted in shares.items()}
    means = [sum(g.hit(k) for k in range(1, 6)) / 5 for g in located]
    wilsons["avg5"] = mean_interval(means, [g.cluster for g in located])
    wilsons["cpu_s"] = mean_interval([g.cpu_s for g in grades], [g.cluster for g in grades])
    stated = [g for g in grades if g.confidence is not None and g.right is not None]
    wilsons["ece"] = _ece_interval(answer_pairs(stated), stated)
    named = [g for g in grades if g.confidence is not None and g.culprit]
    wilsons["ece_change"] = _ece_interval(change_pairs(named), named)
    return {name: interval for name, interval in wilsons.items() if interval is not None}


def _ece_interval(
    pairs: Sequence[tuple[float, bool]], grades: Sequence[Grade]
) -> ConfidenceInterval | None:
    gaps = [right - confidence for confidence, right in pairs]
    bins = [_bin_of(confidence) for confidence, _ in pairs]
    return calibration_interval(gaps, bins, [g.cluster for g in grades])


def macro_ac1(grades: Sequence[Grade]) -> MacroMean | None:
    """The mean of the systems' AC@1, each system counting alike; None without a case."""
    located = [g for g in grades if g.subject]
    hits = [float(g.hit(1)) for g in located]
    # Draw systems first: cases of one system are alike.
    mean = mean_over_groups(hits, [g.system for g in located], [g.cluster for g in located])
    if mean is None:
        return None
    return MacroMean(len({g.system for g in located}), mean[0], mean[1])


def methods_of(grades: Iterable[Grade]) -> list[str]:
    """The simple methods that answered any of the cases, in the order of their first answers."""
    return list(dict.fromkeys(name for grade in grades for name in grade.baselines))


def by_system(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    """The grades of each system, by its name."""
    return _grouped(grades, lambda g: g.system)


def by_fault(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    """The grades of each fault, by its name."""
    return _grouped(grades, lambda g: g.fault)


def by_distance(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    """Those with a known place of the culprit, by how far it is from the alert."""
    placed_grades = [g for g in grades if g.subject and g.setting.distance]
    return _grouped(placed_grades, lambda g: g.setting.distance)


def by_culprit_kind(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    """Those with a known kind of culprit, such as "database"."""
    placed_grades = [g for g in grades if g.subject and g.setting.culprit_kind]
    return _grouped(placed_grades, lambda g: g.setting.culprit_kind)


def by_condition(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    """The grades of each telemetry condition, such as "topology: partial"; a case is in several.

    Where simple methods were asked, whether the culprit has the largest shift of all is one of
    them: methods that look for the loudest do well where it has.
    """
    groups: dict[str, list[Grade]] = {}
    for grade in grades:
        loudest = grade.baselines.get(LARGEST_SHIFT)
        if loudest is None or not grade.subject:
            loudness = []
        else:
            # A tie for the loudest is decided by the method's order, so only its first counts.
            loudness = [("culprit the loudest", "yes" if loudest[:1] == (grade.subject,) else "no")]
        for name, value in (*grade.setting.conditions, *loudness):
            groups.setdefault(f"{name}: {value}", []).append(grade)
    return {name: groups[name] for name in sorted(groups)}


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
        bins.setdefault(_bin_of(confidence), []).append((confidence, right))
    return [_bin(number, bins[number]) for number in sorted(bins)]


def _bin_of(confidence: float) -> int:
    # 0.7 * 10 is 6.999... in binary, and 1.0 belongs in the last bin.
    return min(int(confidence * BINS + 1e-9), BINS - 1)


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
    gaps = [bucket.n * abs(bucket.right - bucket.confidence) for bucket in reliability(pairs)]
    return sum(gaps) / len(pairs)


def _calibrated_error(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """The mean error when each answer is right with just the probability it states: what chance
    alone gives."""
    if not pairs:
        return None
    stated = np.array([confidence for confidence, _ in pairs])
    where = np.minimum((stated * BINS + 1e-9).astype(int), BINS - 1)
    # The seed is fixed, so that the page has the same figures in every run.
    right = np.random.default_rng(SEED).random((DRAWS, len(stated))) < stated
    gaps = []
    for number in sorted(set(where.tolist())):
        inside = where == number
        gaps.append(np.abs((right[:, inside] - stated[inside]).sum(axis=1)))
    return float(np.sum(gaps, axis=0).mean() / len(stated))


def _grouped(grades: Iterable[Grade], key: Callable[[Grade], str]) -> dict[str, list[Grade]]:
    groups: dict[str, list[Grade]] = {}
    for grade in grades:
        groups.setdefault(key(grade), []).append(grade)
    return {name: groups[name] for name in sorted(groups)}


def _count(grades: Sequence[Grade], holds: Callable[[Grade], bool]) -> CountedGrades:
    return CountedGrades(sum(holds(g) for g in grades), len(grades))


def _count_decided(verdicts: Iterable[bool | None]) -> CountedGrades:
    """The verdicts that are true, of those that the label decides."""
    decided = [verdict for verdict in verdicts if verdict is not None]
    return CountedGrades(sum(decided), len(decided))


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are there; None where there are none."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None
