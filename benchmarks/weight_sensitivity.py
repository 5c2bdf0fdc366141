"""Does the accuracy rest on the exact weights? Each one is multiplied at random, and the cases are
graded again.

python benchmarks/weight_sensitivity.py CASES [--draws 30] [--seed 1] [--modules
explanations,victims,...] [--each]

Every weight and threshold of the modules that turn findings into causes (each number or table of
numbers in capitals at the top of `analysis/<module>.py`) is multiplied by a factor drawn
log-uniformly from 0.5 to 2, all at once and independently; what is at most 1 stays at most 1.
Faults that only training jobs have are left alone. Prints for each system AC@1 as it is, and its
mean, 5th percentile and least over the draws. `--each` halves and doubles one constant at a time,
and names those that move a case. Analyzers run once per case; only what follows them is repeated.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import math
import multiprocessing
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analysis import diagnosis
from analysis.case.folder import Case, read_case
from analysis.errors import FaultlineError
from analysis.kinds.fault_kinds import FAULTS_OF_SERVICES, FaultKind
from evaluation.labels import read_label, system_of
from evaluation.running import case_folders

LOWEST, HIGHEST = 0.5, 2.0
FAULTS = "fault_kinds"
"""Stands for the module of the weights in the table of faults."""
MODULES = (
    "suspects.explanations",
    "suspects.victims",
    "metrics.explained_share",
    "ranking.ranking",
)
UNTOUCHED = frozenset({"MAX_CAUSES", "MAX_SUPPORT", "MAX_EFFECTS", "MAX_AGAINST"})
"""How much is shown, not how it is weighed."""
Factors = dict[tuple[str, str, str], float]


@dataclass(frozen=True)
class Outcome:
    """One case: its system, the place of the true subject for each set of factors (None: not among
    the causes)."""

    system: str
    ranks: tuple[int | None, ...]


def constants(modules: Sequence[str]) -> list[tuple[str, str, str]]:
    """(module, name, key): every weight; the key is empty for a plain number."""
    found = []
    for name in modules:
        module = importlib.import_module(f"analysis.{name}")
        for constant, value in vars(module).items():
            if not constant.isupper() or constant in UNTOUCHED or _is_elsewhere(module, constant):
                continue
            if _is_number(value):
                found.append((name, constant, ""))
            elif isinstance(value, dict) and value and all(_is_number(v) for v in value.values()):
                found += [(name, constant, str(key)) for key in value]
    found += [(FAULTS, "weight", fault.name) for fault in FAULTS_OF_SERVICES]
    return found


def draws(of: Sequence[tuple[str, str, str]], count: int, seed: int) -> list[Factors]:
    """No change at all, then `count` random sets of factors."""
    chance = random.Random(seed)
    spread = (math.log(LOWEST), math.log(HIGHEST))
    return [{}, *({c: math.exp(chance.uniform(*spread)) for c in of} for _ in range(count))]


def one_by_one(of: Sequence[tuple[str, str, str]]) -> list[Factors]:
    """No change at all, then each constant halved, then each doubled."""
    return [{}, *({c: factor} for factor in (LOWEST, HIGHEST) for c in of)]


@contextmanager
def multiplied(factors: Factors) -> Iterator[None]:
    """The analysis with those constants multiplied, wherever they were imported."""
    undo: list[Callable[[], None]] = []
    faults = {fault.name: fault for fault in FAULTS_OF_SERVICES}
    for (module, name, key), factor in factors.items():
        if module == FAULTS:
            fault = faults[key]
            undo.append(lambda fault=fault, old=fault.weight: _set_weight(fault, old))
            _set_weight(fault, _times(fault.weight, factor))
            continue
        source = importlib.import_module(f"analysis.{module}")
        value = getattr(source, name)
        if key:
            undo.append(lambda table=value, key=key, old=value[key]: table.__setitem__(key, old))
            value[key] = _times(value[key], factor)
            continue
        for holder in [m for n, m in list(sys.modules.items()) if n.startswith("analysis.")]:
            if getattr(holder, name, None) is value:
                undo.append(lambda holder=holder, name=name, old=value: setattr(holder, name, old))
                setattr(holder, name, _times(value, factor))
    try:
        yield
    finally:
        for step in reversed(undo):
            step()


def _set_weight(fault: FaultKind, weight: float) -> None:
    """Entries of the table are frozen, and everything holds the same entry."""
    object.__setattr__(fault, "weight", weight)


def case_outcome(folder: Path, sets: Sequence[Factors]) -> Outcome | None:
    """The case graded with every set of factors; None where it has no subject or cannot be read."""
    try:
        label = read_label(folder)
        if label is None or not label.subject:
            return None
        case = read_case(folder)
        with _analyzers_run_once():
            return Outcome(
                system_of(folder.name), tuple(_rank(case, label.subject, f) for f in sets)
            )
    except FaultlineError as error:
        print(f"{folder.name}: {error}", file=sys.stderr)
        return None


def _rank(case: Case, subject: str, factors: Factors) -> int | None:
    with multiplied(factors):
        causes = diagnosis.diagnose(case).causes
    return next((c.rank for c in causes if c.subject == subject), None)


@contextmanager
def _analyzers_run_once() -> Iterator[None]:
    """Keep for one case what `diagnosis` computes from nothing but the case, analyzers first."""
    analyzers = {
        name: f
        for name, f in vars(diagnosis).items()
        if inspect.isfunction(f)
        and list(inspect.signature(f).parameters) == ["case"]
        and f.__module__ != diagnosis.__name__
    }
    kept: dict[str, Any] = {}
    listed = diagnosis.analyzers
    once = tuple(
        replace(one, find=_kept(f"{one.find.__module__}.{one.find.__name__}", one.find, kept))
        for one in listed()
    )
    diagnosis.analyzers = lambda: once
    for name, analyzer in analyzers.items():
        setattr(diagnosis, name, _kept(name, analyzer, kept))
    try:
        yield
    finally:
        diagnosis.analyzers = listed
        for name, analyzer in analyzers.items():
            setattr(diagnosis, name, analyzer)


def _kept(
    name: str, analyzer: Callable[[Case], Any], kept: dict[str, Any]
) -> Callable[[Case], Any]:
    def answer(case: Case) -> Any:
        if name not in kept:
            kept[name] = analyzer(case)
        return kept[name]

    return answer


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_elsewhere(module: ModuleType, constant: str) -> bool:
    """Whether the module only imports it."""
    return not any(
        line.startswith((f"{constant} ", f"{constant}:", f"{constant},"))
        or f", {constant}" in line.partition(" = ")[0]
        for line in inspect.getsource(module).splitlines()
        if " = " in line
    )


def _times(value: float, factor: float) -> float:
    new = min(value * factor, 1.0) if 0 <= value <= 1 else value * factor
    return max(1, round(new)) if isinstance(value, int) else new


def print_spread(found: dict[str, list[Outcome]]) -> None:
    """One row per system: AC@1 as it is and over the draws."""
    print(
        f"\n{'':<20} {'n':>4} {'AC@1':>6} {'mean':>6} {'5 %':>6} "
        f"{'least':>6} {'AC@3':>6} {'mean':>6}"
    )
    for system, outcomes in sorted(found.items()):
        first, third = (
            np.array([[r is not None and r <= k for r in o.ranks] for o in outcomes])
            for k in (1, 3)
        )
        at_1, at_3 = first.mean(axis=0), third.mean(axis=0)
        spread = [
            at_1[0],
            at_1[1:].mean(),
            np.percentile(at_1[1:], 5),
            at_1[1:].min(),
            at_3[0],
            at_3[1:].mean(),
        ]
        print(f"{system:<20} {len(outcomes):>4} " + " ".join(f"{v:6.2f}" for v in spread))


def print_movers(found: dict[str, list[Outcome]], sets: Sequence[Factors]) -> None:
    """Constants that by themselves, halved or doubled, change how many cases are right."""
    print("\none constant at a time, change in cases that are right at 1")
    for place, factors in enumerate(sets):
        moved = {
            system: sum((o.ranks[place] == 1) - (o.ranks[0] == 1) for o in outcomes)
            for system, outcomes in sorted(found.items())
        }
        if any(moved.values()):
            (module, name, key), factor = next(iter(factors.items()))
            what = f"{module}.{name}{f'[{key}]' if key else ''} x{factor:g}"
            print(
                f"  {what:<46} " + ", ".join(f"{system} {n:+d}" for system, n in moved.items() if n)
            )


def main() -> None:
    """Grade all cases with all sets of factors and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modules", default=",".join(MODULES))
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--workers", type=int, default=None)
    options = parser.parse_args()
    weights = constants([m.strip() for m in options.modules.split(",")])
    sets = one_by_one(weights) if options.each else draws(weights, options.draws, options.seed)
    print(f"{len(weights)} constants of {options.modules}, {len(sets) - 1} sets of factors")
    folders = case_folders(options.cases)
    found: dict[str, list[Outcome]] = defaultdict(list)
    with ProcessPoolExecutor(
        options.workers, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        for outcome in pool.map(case_outcome, folders, [sets] * len(folders)):
            if outcome is not None:
                found[outcome.system].append(outcome)
    print_movers(found, sets) if options.each else print_spread(found)


if __name__ == "__main__":
    main()
