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
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analysis.case.folder import Case, read_case
from analysis.diagnosis import diagnose
from benchmarks.weight_sensitivity import Factors, constants, multiplied
from tests.analysis.labelled.answers import CASES, in_short

ROOMS = ("ranking", "suspects", "changes", "metrics", "logs", "requests")
BOUNDS = re.compile(
    r"^(MAX_|LARGEST|MANY$|NAMED$|TWO_LINES|SUSPECTS|MOST$|MOST_(ROWS|ROUNDS|RANKS|DAYS)|LONGEST_"
    r"|CHUNK|BLOCK|TITLE_LENGTH|SHORT_HASH|SHORTEST_NAME|LINE_TEXT|STEP_TEXT|DAY_NS|.*_LIMIT$"
    r"|HARMFUL_EVENTS|THERMAL_EVENTS|POWER_BRAKE|BLANK|PINO_ERROR)"
)
"""Bounds on work and on how much is said, and vendors' codes; no weights."""
FACTORS = (0.5, 1.5)


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
