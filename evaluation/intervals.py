"""How sure a figure is: 95 % intervals, and what a difference between two methods proves.

Shares have Wilson's interval. Means have a percentile bootstrap over clusters, cases of one system,
service and fault, since such cases are hardly independent tests (Field and Welsh, JRSS B 2007). A
difference on the same cases is tested by the exact form of McNemar's test.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
