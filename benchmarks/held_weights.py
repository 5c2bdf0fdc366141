"""Which weights and thresholds do no labelled case hold? Each one is halved, and raised by half.

python benchmarks/held_weights.py [--rooms ranking,suspects,...] [--only FILE]

A constant is held when at least one of the small labelled cases in `tests/analysis/labelled` has
another answer with it halved or raised by half: a verdict, a cause, its place or confidence, or the
strength of a finding. Prints how many are held, and names those that are not; `tests/analysis`
holds some of these by tests of their own.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analysis.case.folder import Case, read_case
from analysis.diagnosis import diagnose
from analysis.kinds.fault_kinds import FAULTS_OF_SERVICES, FaultKind
from tests.analysis.labelled.answers import CASES, in_short

ROOMS = ("ranking", "suspects", "changes", "metrics", "logs", "requests")
BOUNDS = re.compile(
    r"^(MAX_|LARGEST|MANY$|NAMED$|TWO_LINES|SUSPECTS|MOST$|MOST_(ROWS|ROUNDS|RANKS|DAYS)|LONGEST_"
    r"|CHUNK|BLOCK|TITLE_LENGTH|SHORT_HASH|SHORTEST_NAME|LINE_TEXT|STEP_TEXT|DAY_NS|.*_LIMIT$"
    r"|HARMFUL_EVENTS|THERMAL_EVENTS|POWER_BRAKE|BLANK|PINO_ERROR)"
)
"""Bounds on work and on how much is said, and vendors' codes; no weights."""
FACTORS = (0.5, 1.5)
FAULTS = "fault_kinds"
"""Stands for the module of the weights in the table of faults."""
UNTOUCHED = frozenset({"MAX_CAUSES", "MAX_SUPPORT", "MAX_EFFECTS", "MAX_AGAINST"})
"""How much is shown, not how it is weighed."""
Factors = dict[tuple[str, str, str], float]


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


def modules_of(rooms: tuple[str, ...]) -> list[str]:
    """Modules of these rooms by their names below `analysis`."""
    found = []
    for room in rooms:
        package = importlib.import_module(f"analysis.{room}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"analysis.{room}.{module.name}")
            found.append(f"{room}.{module.name}")
    return found


def written_cases(folder: Path) -> dict[str, Path]:
    """Every labelled case, written once."""
    for name, story in CASES.items():
        story(folder / name)
    return {name: folder / name for name in CASES}


def answers(cases: dict[str, Path]) -> Iterator[tuple[str, object]]:
    """The answer to each case as the constants are now."""
    for name, path in cases.items():
        case: Case = read_case(path)
        try:
            yield name, in_short(diagnose(case))
        except ValueError as error:
            yield name, str(error)


def held_by(cases: dict[str, Path], usual: dict[str, object], factors: Factors) -> str:
    """The first case whose answer these factors change; empty where none does."""
    changed = ""
    with multiplied(factors):
        for name, answer in answers(cases):
            if answer != usual[name]:
                changed = name
                break
    if changed:
        # The next constant is likely held by the same case, so that one is tried first.
        first = {changed: cases.pop(changed)}
        first.update(cases)
        cases.clear()
        cases.update(first)
    return changed


def _named(module: str, name: str, key: str) -> str:
    return f"{module}.{name}" + (f"[{key}]" if key else "")


def main() -> None:
    """Change each constant in turn and print those that nothing holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rooms", default=",".join(ROOMS))
    parser.add_argument("--only", type=Path, help="a file with names of constants, one a line")
    options = parser.parse_args()
    rooms = tuple(room.strip() for room in options.rooms.split(","))
    only = set(options.only.read_text().split()) if options.only else None
    weights = []
    for module, name, key in constants(modules_of(rooms)):
        # A table by whole numbers holds codes, and no weights.
        if not BOUNDS.match(name) and not name.startswith("_") and not key.isdigit():
            if only is not None and _named(module, name, key) not in only:
                continue
            weights.append((module, name, key))
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        cases = written_cases(Path(folder))
        usual = dict(answers(cases))
        for module, name, key in weights:
            if not any(held_by(cases, usual, {(module, name, key): f}) for f in FACTORS):
                missed.append(_named(module, name, key))
    print(f"{len(weights)} weights and thresholds, {len(weights) - len(missed)} held by a case")
    for name in missed:
        print(f"  not held: {name}")


if __name__ == "__main__":
    main()
