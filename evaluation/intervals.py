"""How sure a figure is: 95 % intervals, and what a difference between two methods proves.

Shares have Wilson's interval. Means have a percentile bootstrap over clusters, cases of one system,
service and fault, since such cases are hardly independent tests (Field and Welsh, JRSS B 2007). A
difference on the same cases is tested by the exact form of McNemar's test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from faultline.evaluation.labels import Grade

Z = 1.959964
"""The normal distribution's 97.5th percentile."""
DRAWS = 1000
SEED = 20261121
LEVEL = (2.5, 97.5)
BOUND_LEVEL = 0.95
HALVINGS = 40
"""Enough to find a share to twelve digits."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ConfidenceInterval:
    """The lower and the upper end of a 95 % interval."""

    low: float
    high: float


def wilson(hits: int, of: int) -> ConfidenceInterval | None:
    """Of a share; None without cases."""
    if of == 0:
        return None
    # Wilson's interval stays within 0 and 1, and is right for few cases too.
    share = hits / of
    spread = Z * math.sqrt(share * (1 - share) / of + Z**2 / (4 * of**2))
    centre = share + Z**2 / (2 * of)
    scale = 1 + Z**2 / of
    return ConfidenceInterval(
        max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
    )


def redrawn(clusters: Sequence[Hashable]) -> Floats:
    """How often each case counts when whole clusters are drawn with replacement; shape [draws,
    cases]. Equal clusters give equal draws."""
    numbers: dict[Hashable, int] = {}
    for cluster in clusters:
        numbers.setdefault(cluster, len(numbers))
    chance = np.random.default_rng(SEED)
    shares = np.full(len(numbers), 1 / len(numbers))
    times = chance.multinomial(len(numbers), shares, size=DRAWS)
    columns = [numbers[cluster] for cluster in clusters]
    return np.asarray(times[:, columns], dtype=np.float64)


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable]
) -> ConfidenceInterval | None:
    """Of a mean; None without cases."""
    if not values:
        return None
    times = redrawn(clusters)
    return percentiles(times @ np.array(values, dtype=np.float64) / times.sum(axis=1))


def calibration_interval(
    gaps: Sequence[float], bins: Sequence[int], clusters: Sequence[Hashable]
) -> ConfidenceInterval | None:
    """Of the expected calibration error; `gaps` are right or not, less the stated confidence."""
    if not gaps:
        return None
    times = redrawn(clusters)
    weighted = times * np.array(gaps)
    numbers = np.array(bins)
    errors = np.zeros(len(times))
    for number in set(bins):
        errors += np.abs(weighted[:, numbers == number].sum(axis=1))
    return percentiles(errors / times.sum(axis=1))


def mean_over_groups(
    values: Sequence[float], groups: Sequence[str], clusters: Sequence[Hashable]
) -> tuple[float, ConfidenceInterval] | None:
    """The mean of the groups' means, with an interval by drawing groups, and clusters inside
    them."""
    by_group: dict[str, tuple[list[float], list[Hashable]]] = {}
    for value, group, cluster in zip(values, groups, clusters, strict=True):
        group_samples = by_group.setdefault(group, ([], []))
        group_samples[0].append(value)
        group_samples[1].append(cluster)
    if not by_group:
        return None
    means, drawn = [], []
    for group_values, group_clusters in by_group.values():
        means.append(float(np.mean(group_values)))
        times = redrawn(group_clusters)
        drawn.append(times @ np.array(group_values) / times.sum(axis=1))
    every = np.array(drawn)
    chance = np.random.default_rng(SEED + 1)
    picked = chance.integers(len(every), size=(DRAWS, len(every)))
    # Each group has the same seed inside: another draw of it is taken each time it is picked.
    turns = chance.integers(DRAWS, size=picked.shape)
    return float(np.mean(means)), percentiles(every[picked, turns].mean(axis=1))


def percentiles(drawn: Floats) -> ConfidenceInterval:
    """The interval that the middle 95 % of the draws span."""
    low, high = np.percentile(drawn, LEVEL)
    return ConfidenceInterval(float(low), float(high))


def sign_test(won: int, lost: int) -> float:
    """The two-sided exact p of McNemar's test: that chance alone splits the cases so unevenly."""
    of = won + lost
    if of == 0:
        return 1.0
    # The smaller side, doubled: either side could have won by chance.
    tail = sum(math.comb(of, k) for k in range(min(won, lost) + 1))
    return min(1.0, float(2 * tail / 2**of))


def at_most(hits: int, of: int) -> float:
    """The exact one-sided 95 % limit of a share (Clopper and Pearson): it is beyond with a chance
    of 5 %."""
    low, high = 0.0, 1.0
    if of == 0 or hits == of:
        return high
    for _ in range(HALVINGS):
        share = (low + high) / 2
        chance = sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(hits + 1))
        low, high = (share, high) if chance > 1 - BOUND_LEVEL else (low, share)
    return high


# Two sets of answers to the same cases: which cases one wins and loses, and what that proves.


@dataclass(frozen=True)
class PairedDifference:
    """One yes-or-no question about the cases that both sets answered, new less old.

    `difference` is of the shares of yes; `p` that of the exact McNemar test. A gain is proven only
    where the interval excludes 0.
    """

    question: str
    n: int
    old: float
    new: float
    difference: float
    interval: ConfidenceInterval
    won: tuple[str, ...]
    lost: tuple[str, ...]
    p: float


def compared(new: Sequence[Grade], old: Sequence[Grade]) -> list[PairedDifference]:
    """What is different on the cases that both have, by name; questions without a case are left
    out."""
    earlier = _by_name(old)
    pairs = []
    for key, grade in _by_name(new).items():
        if key in earlier:
            pairs.append((grade, earlier[key]))
    # Ask each question only about the cases whose label answers it.
    located = [pair for pair in pairs if pair[0].subject]
    changed = [pair for pair in pairs if pair[0].culprit]
    answered = [pair for pair in pairs if None not in (pair[0].right, pair[1].right)]
    differences = [
        paired("culprit first", located, lambda g: g.hit(1)),
        paired("culprit in the first three", located, lambda g: g.hit(3)),
        paired("answer right", answered, lambda g: g.right is True),
        paired("change right", changed, lambda g: g.change_hit(1)),
        paired("no decoy blamed", changed, lambda g: not g.decoy_first),
    ]
    return [difference for difference in differences if difference is not None]


def beside_baseline(grades: Sequence[Grade], method: str) -> PairedDifference | None:
    """How much more often the first cause is right than the first that the method names."""
    located = [g for g in grades if g.subject and method in g.baselines]
    pairs = [(g, as_baseline(g, method)) for g in located]
    return paired("culprit first", pairs, lambda g: g.hit(1))


def as_baseline(grade: Grade, method: str) -> Grade:
    """The grade that the method would have got: it names services and nothing else."""
    named = grade.baselines.get(method, ())
    rank = named.index(grade.subject) + 1 if grade.subject in named else None
    return replace(
        grade,
        causes=named,
        rank=rank,
        confidence=None,
        right=None,
        change=None,
        change_rank=None,
        decoys=(),
        decoy_first=False,
        path_shown=None,
    )


def paired(
    question: str, pairs: Sequence[tuple[Grade, Grade]], holds: Callable[[Grade], bool]
) -> PairedDifference | None:
    """`pairs` are of (new, old); None without any."""
    won, lost, differences = [], [], []
    for new, old in pairs:
        differences.append(float(holds(new)) - float(holds(old)))
        if holds(new) and not holds(old):
            won.append(new.case)
        elif holds(old) and not holds(new):
            lost.append(new.case)
    # Cases of one cluster are hardly independent, so draw whole clusters.
    interval = mean_interval(differences, [new.cluster for new, _ in pairs])
    if interval is None:
        return None
    before = sum(holds(old) for _, old in pairs) / len(pairs)
    difference = (len(won) - len(lost)) / len(pairs)
    return PairedDifference(
        question,
        len(pairs),
        before,
        before + difference,
        difference,
        interval,
        tuple(won),
        tuple(lost),
        sign_test(len(won), len(lost)),
    )


def _by_name(grades: Sequence[Grade]) -> dict[tuple[str, int], Grade]:
    """Two folders may have a case of the same name; their order tells which is which."""
    grades_by_name: dict[tuple[str, int], Grade] = {}
    for grade in grades:
        number = 0
        while (grade.case, number) in grades_by_name:
            number += 1
        grades_by_name[grade.case, number] = grade
    return grades_by_name
