"""Whether a machine was to blame more often than chance would have it.

If machines are alike, each of the m machines of a job is as likely to be the one that an answer
blames. The number of jobs in which a given machine is blamed then has a Poisson binomial
distribution (Wang, "On the number of successes in independent trials", Statistica Sinica 1993),
with the chance (blamed machines / machines) for each job that it took part in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from faultline.analysis.vocabulary import Frozen

MIN_BLAMED = 2
"""Once is no pattern, however many machines the job has."""
BY_CHANCE = 0.05
"""Usual level of a single test (Fisher 1925). Where all machines of a fleet are looked through, it
is divided by their number (Bonferroni)."""


class BlamedPart(Frozen):
    """A machine that an answer blames, and which part of it: `gpu3`, `mlx5_0`, or "" for the
    whole."""

    host: str
    part: str = ""
    fault: str


def by_chance(blamed: int, chances: Sequence[float]) -> float:
    """The probability that a machine like all others is blamed at least so often, in [0, 1]."""
    # counts[k] is the probability of k successes so far; the last entry takes all beyond.
    counts = [1.0] + [0.0] * blamed
    for raw_chance in chances if blamed else ():
        chance = min(1.0, max(0.0, raw_chance))
        counts[blamed] += counts[blamed - 1] * chance
        for k in range(blamed - 1, 0, -1):
            counts[k] = counts[k] * (1 - chance) + counts[k - 1] * chance
        counts[0] *= 1 - chance
    return min(1.0, counts[blamed])


def is_repeated(blamed: int, probability: float, tested: int = 1) -> bool:
    """Whether this is more than chance, where that many machines were looked through."""
    return blamed >= MIN_BLAMED and probability * max(1, tested) < BY_CHANCE


def majority_part(parts: Iterable[str]) -> str:
    """The part that most of them name; empty where they name several equally often, or none."""
    counted: dict[str, int] = {}
    total = 0
    for part in parts:
        total += 1
        if part:
            counted[part] = counted.get(part, 0) + 1
    most = max(counted, key=lambda part: (counted[part], part), default="")
    return most if most and 2 * counted[most] > total else ""
