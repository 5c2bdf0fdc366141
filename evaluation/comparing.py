"""Two sets of answers to the same cases: which cases one wins and loses, and what that proves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from faultline.evaluation.grading import Grade
from faultline.evaluation.intervals import ConfidenceInterval, mean_interval, sign_test


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
