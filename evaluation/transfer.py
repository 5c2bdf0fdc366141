"""Does the confidence carry over? It is refitted on all systems but one, and judged on the one left
out.

The refit is Platt's (1999): the logit of being right is a line in the logit of the stated
confidence, fitted by Newton's method with a small ridge, so that few answers, or none that are
wrong, still give a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.figures import answer_pairs, by_system, calibration_error
from evaluation.grading import Grade

RIDGE = 1.0
STEPS = 50
EDGE = 0.02
"""Confidences are kept this far from 0 and 1, where the logit has no end."""
Pairs = Sequence[tuple[float, bool]]


@dataclass(frozen=True)
class Transfer:
    """Expected calibration error on one system: as stated, refitted on the others, refitted on
    itself."""

    system: str
    n: int
    stated: float | None
    from_others: float | None
    from_itself: float | None


def leave_one_out(grades: Sequence[Grade]) -> list[Transfer]:
    """One row for each system that has answers."""
    pairs = {system: answer_pairs(group) for system, group in by_system(grades).items()}
    rows = []
    for system, own in pairs.items():
        if not own:
            continue
        others: list[tuple[float, bool]] = []
        for name, group in pairs.items():
            if name != system:
                others += group
        row = Transfer(
            system,
            len(own),
            stated=calibration_error(own),
            from_others=_error_refitted(own, others),
            from_itself=_error_refitted(own, own),
        )
        rows.append(row)
    return rows


def _error_refitted(pairs: Pairs, fitted_on: Pairs) -> float | None:
    if not fitted_on:
        return None
    return calibration_error(refitted(pairs, fitted_on))


def refitted(pairs: Pairs, fitted_on: Pairs) -> list[tuple[float, bool]]:
    """The same answers with the confidence that those others would have given them."""
    line = _fit(_logits(fitted_on), np.array([right for _, right in fitted_on], dtype=float))
    new = _sigmoid(_logits(pairs) @ line)
    return [(float(c), right) for c, (_, right) in zip(new, pairs, strict=True)]


def _logits(pairs: Pairs) -> NDArray[np.float64]:
    stated = np.clip([confidence for confidence, _ in pairs], EDGE, 1 - EDGE)
    return np.column_stack([np.ones(len(stated)), np.log(stated / (1 - stated))])


def _fit(x: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intercept and slope, drawn toward 0 and 1: the confidence as it was stated."""
    stated = np.array([0.0, 1.0])
    line = stated.copy()
    for _ in range(STEPS):
        chance = _sigmoid(x @ line)
        gradient = x.T @ (right - chance) - RIDGE * (line - stated)
        weights = chance * (1 - chance)
        curvature = (x * weights[:, None]).T @ x + RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        line = line + step
        if float(np.abs(step).max()) < 1e-9:
            break
    return line


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -30, 30))))
