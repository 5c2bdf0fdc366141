"""Fit how sure an answer may be, and show how well it holds on systems that were not fitted on.

    python benchmarks/confidence_calibration.py CASES [--variants 8] [--seed 1]

The answers to labelled cases are mostly right, and say nothing about wrong ones. So each case is
also answered with part of its evidence taken away: without tables, with a share of the rows, with a
third of the services unseen, with the windows moved. Whether the first cause names the labelled
subject is fitted by a logistic model of the facts in `analysis.ranking.confidence.Standing`. Prints
the coefficients to put there, the expected calibration error (ten bins) of all answers, of the
whole cases alone, and of each system when it is left out of the fit.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analysis.case.folder import Case, read_case
from analysis.diagnosis import diagnose
from analysis.ranking import confidence, ranking
from analysis.ranking.confidence import HIGHEST, LOWEST, FirstSuspectStanding
from evaluation.labels import read_label, system_of
from evaluation.running import case_folders

TABLES = ("metrics", "logs", "spans", "changes", "topology")
RIDGE = 1.0
WHOLE = 8.0
"""A whole case weighs as much as its variants together: it is what users have."""
BINS = 10


@dataclass(frozen=True)
class Answer:
    """One graded answer: what the model sees, and whether the first cause was right."""

    system: str
    whole: bool
    standing: FirstSuspectStanding
    right: bool

    @property
    def facts(self) -> list[float]:
        """In the order of the coefficients."""
        s = self.standing
        return [1.0, s.lead, s.share, math.log1p(s.victims)]


def variants(case: Case, count: int, chance: random.Random) -> Iterator[Case]:
    """The case with part of its evidence taken away, `count` times."""
    for n in range(count):
        tables: dict[str, pl.DataFrame] = {t: getattr(case, t) for t in TABLES}
        kind = n % 4
        if kind == 0:
            for name in chance.sample([t for t in TABLES if tables[t].height], k=1):
                tables[name] = tables[name].clear()
        elif kind == 1:
            share = chance.choice([0.1, 0.25, 0.5])
            for name in ("logs", "spans"):
                tables[name] = tables[name].sample(fraction=share, seed=chance.randrange(2**30))
            tables["metrics"] = tables["metrics"].filter(
                pl.col("time").rank("dense") % chance.choice([1, 2, 3]) == 0
            )
        elif kind == 2:
            services = sorted(set(tables["metrics"]["service"].drop_nulls()))
            unseen = chance.sample(services, k=len(services) // 3)
            for name in ("metrics", "logs", "spans"):
                tables[name] = tables[name].filter(~pl.col("service").is_in(unseen))
        else:
            tables = tables | {
                t: tables[t].clear() for t in ("logs", "spans") if chance.random() < 0.5
            }
            moved = timedelta(seconds=chance.choice([-60, 60, 120]))
            window = case.scope.incident
            end = max(window.end + moved, window.start + moved + timedelta(seconds=60))
            scope = case.scope.model_copy(
                update={
                    "incident": window.model_copy(
                        update={"start": window.start + moved, "end": end}
                    )
                }
            )
            yield _with_tables(replace(case, scope=scope), tables)
            continue
        yield _with_tables(case, tables)


def _with_tables(case: Case, tables: dict[str, pl.DataFrame]) -> Case:
    changed = replace(case)
    changed.__dict__.update(tables)
    return changed


def answers(folder: Path, count: int, seed: int) -> list[Answer]:
    """The graded answers to one case: whole, and with part of its evidence."""
    label = read_label(folder)
    if label is None or label.subject is None:
        return []
    seen: list[FirstSuspectStanding] = []
    original = confidence.confidence_of

    def noted(standing: FirstSuspectStanding, **given: Any) -> float:
        seen.append(standing)
        return original(standing, **given)

    ranking.confidence_of = noted  # type: ignore[attr-defined]
    case, found = read_case(folder), []
    for n, one in enumerate([case, *variants(case, count, random.Random(f"{seed} {folder.name}"))]):
        seen.clear()
        causes = diagnose(one).causes
        if causes and seen:
            found.append(
                Answer(system_of(folder.name), n == 0, seen[-1], causes[0].subject == label.subject)
            )
    return found


def fit(found: Sequence[Answer]) -> np.ndarray:
    """Coefficients of the logistic model by Newton's method, with a small ridge; systems weigh the
    same."""
    x = np.array([a.facts for a in found])
    y = np.array([float(a.right) for a in found])
    sizes = {s: sum(a.system == s for a in found) for s in {a.system for a in found}}
    w = np.array(
        [len(found) / len(sizes) / sizes[a.system] * (WHOLE if a.whole else 1.0) for a in found]
    )
    beta = np.zeros(x.shape[1])
    ridge = np.diag([0.0] + [RIDGE] * (x.shape[1] - 1))
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ beta))
        gradient = x.T @ (w * (y - p)) - ridge @ beta
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + ridge
        beta = beta + np.linalg.solve(hessian, gradient)
    return beta


def said(found: Sequence[Answer], beta: np.ndarray) -> np.ndarray:
    """The confidence of each answer."""
    return np.clip(1 / (1 + np.exp(-np.array([a.facts for a in found]) @ beta)), LOWEST, HIGHEST)


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error over ten bins of equal width (Naeini et al. 2015)."""
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    return float(
        sum(
            abs(sure[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean()
            for b in np.unique(bins)
        )
    )


def report(name: str, found: Sequence[Answer], beta: np.ndarray) -> None:
    """One line."""
    sure, right = said(found, beta), np.array([a.right for a in found])
    print(
        f"{name:34s} {len(found):6d} {right.mean():7.2f} {sure.mean():10.2f} "
        f"{calibration_error(sure, right):8.3f}"
    )


def main() -> None:
    """Read the arguments, answer, fit, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path)
    parser.add_argument("--variants", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    folders = list(case_folders(given.cases))
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        each = pool.map(
            answers, folders, [given.variants] * len(folders), [given.seed] * len(folders)
        )
        found = [a for some in each for a in some]
    beta = fit(found)
    names = ("INTERCEPT", "LEAD", "SHARE", "VICTIMS")
    print(", ".join(names), "=", ", ".join(f"{b:.2f}" for b in beta))
    print(f"{'answers':34s} {'n':>6s} {'right':>7s} {'said':>10s} {'ECE':>8s}")
    report("all, fitted on all", found, beta)
    whole = [a for a in found if a.whole]
    report("whole cases, fitted on all", whole, beta)
    for system in sorted({a.system for a in found}):
        without = fit([a for a in found if a.system != system])
        report(f"{system}, all, not fitted on", [a for a in found if a.system == system], without)
        report(f"{system}, whole, not fitted on", [a for a in whole if a.system == system], without)


if __name__ == "__main__":
    main()
