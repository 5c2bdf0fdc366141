"""Which weights and thresholds does no test hold? Each one is halved, and raised by half.

python benchmarks/guarded_weights.py [--rooms ranking,suspects,...] [--only FILE]

A constant is held when, with it halved or raised by half, a test of its room in `tests/analysis`
fails, or one of the small labelled cases in `tests/analysis/labelled` has another answer: a
verdict, a cause, its place or confidence, the strength of a finding. Tests of recorded cases, which
are not in the repository, do not count. Only tests and cases that read the constant are run.
Prints what holds each constant, and at the end how many are held by what.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import pkgutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType, ModuleType
from typing import NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.exempt_constants import is_exempt
from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.kinds.fault_kinds import FAULTS_OF_SERVICES, FaultKind
from tests.analysis.labelled.answers import CASES, in_short

HOME = Path(__file__).resolve().parents[1]
TESTS = HOME / "tests" / "analysis"
ROOMS = (
    "ranking",
    "suspects",
    "changes",
    "requests",
    "states",
    "metrics",
    "logs",
    "gpus",
    "kinds",
    "alert_signal",
    "case",
    "training",
)
FACTORS = (0.5, 1.5)
TEST, CASE, NOTHING = "a test of its room", "a labelled case", "nothing"
FAULTS = "fault_kinds"
"""Stands for the module of the weights in the table of faults."""
Factors = dict["Constant", float]
Readers = dict[str, set[tuple[str, str]]]
"""By case or test: the modules whose code it ran, each with the names that code reads."""


class Constant(NamedTuple):
    """A weight or threshold; the key is empty for a plain number."""

    module: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}" + (f"[{self.key}]" if self.key else "")

    @property
    def room(self) -> str:
        """The room whose tests are asked first."""
        return "kinds" if self.module == FAULTS else self.module.partition(".")[0]


def constants(modules: Sequence[str]) -> list[Constant]:
    """Every weight and threshold of these modules, and those of the table of faults."""
    weights = []
    for module_name in modules:
        module = importlib.import_module(f"faultline.analysis.{module_name}")
        for name, value in vars(module).items():
            if not name.isupper() or _is_elsewhere(module, name):
                continue
            if is_exempt(module_name, name, value):
                continue
            if _is_number(value):
                weights.append(Constant(module_name, name, ""))
            elif isinstance(value, dict) and value and all(map(_is_number, value.values())):
                weights += [Constant(module_name, name, str(key)) for key in value]
    if any(module.startswith("kinds.") for module in modules):
        weights += [Constant(FAULTS, "weight", fault.name) for fault in FAULTS_OF_SERVICES]
    return weights


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
        source = importlib.import_module(f"faultline.analysis.{module}")
        value = getattr(source, name)
        if key:
            table_key = next(candidate for candidate in value if str(candidate) == key)
            undo.append(
                lambda table=value, key=table_key, old=value[table_key]: table.update({key: old})
            )
            value[table_key] = _times(value[table_key], factor)
            continue
        for holder in [
            m for n, m in list(sys.modules.items()) if n.startswith("faultline.analysis.")
        ]:
            if getattr(holder, name, None) is value:
                undo.append(lambda holder=holder, name=name, old=value: setattr(holder, name, old))
                setattr(holder, name, _times(value, factor))
    _forget_what_is_cached()
    try:
        yield
    finally:
        for step in reversed(undo):
            step()
        _forget_what_is_cached()


def _set_weight(fault: FaultKind, weight: float) -> None:
    """Entries of the table are frozen, and everything holds the same entry."""
    object.__setattr__(fault, "weight", weight)


def _forget_what_is_cached() -> None:
    """No answer of one value is kept for another."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("faultline.analysis."):
            continue
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, timedelta)) and not isinstance(value, bool)


def _is_elsewhere(module: ModuleType, constant: str) -> bool:
    """Whether the module only imports it."""
    return not any(
        line.startswith((f"{constant} ", f"{constant}:", f"{constant},"))
        or f", {constant}" in line.partition(" = ")[0]
        for line in inspect.getsource(module).splitlines()
        if " = " in line
    )


def _times(value: float, factor: float) -> float:
    if isinstance(value, timedelta):
        return value * factor
    if isinstance(value, int):
        return max(1, round(value * factor))
    # What lies in [0, 1] is a share.
    return min(value * factor, 1.0) if 0 <= value <= 1 else value * factor


def modules_of(rooms: Sequence[str]) -> list[str]:
    """Modules of these rooms by their names below `analysis`."""
    modules = []
    for room in rooms:
        package = importlib.import_module(f"faultline.analysis.{room}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"faultline.analysis.{room}.{module.name}")
            modules.append(f"{room}.{module.name}")
    return modules


@contextmanager
def names_read(into: set[tuple[str, str]]) -> Iterator[None]:
    """Adds (module, name) for every name in the code of the analysis that runs meanwhile."""
    f_codes = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code not in f_codes:
            f_codes.add(frame.f_code)
            module = frame.f_globals.get("__name__", "")
            if module.startswith("faultline.analysis."):
                into.update((module, name) for name in frame.f_code.co_names)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


class LabelledCases:
    """The labelled cases: their usual answers, and what each of them reads."""

    def __init__(self, folder: Path) -> None:
        self.paths = {}
        self.readers: Readers = defaultdict(set)
        self.usual = {}
        for name, story in CASES.items():
            self.paths[name] = folder / name
            story(folder / name)
            with names_read(self.readers[name]):
                self.usual[name] = self.answer(name)

    def answer(self, name: str) -> object:
        """The answer to a case as the constants are now."""
        case: Case = read_case(self.paths[name])
        try:
            return in_short(diagnose(case))
        except ValueError as error:
            return str(error)

    def holds(self, constant: Constant, factor: float) -> bool:
        """Whether a case has another answer with the constant multiplied."""
        with multiplied({constant: factor}):
            for name in [name for name in self.paths if reads(self.readers[name], constant)]:
                if self.answer(name) != self.usual[name]:
                    # The next constant is likely held by the same case, which is tried first.
                    self.paths = {name: self.paths[name], **self.paths}
                    return True
        return False


class RoomTests:
    """The tests of these rooms: what each of them reads."""

    def __init__(self, rooms: Iterable[str]) -> None:
        self.readers: Readers = defaultdict(set)
        files: list[Path] = []
        for room in sorted(set(rooms)):
            files += sorted((TESTS / room).glob("test_*.py"))
        if files:
            _run_pytest(files, self)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Recorded cases are not in the repository."""
        items[:] = [item for item in items if "shared" not in getattr(item, "fixturenames", ())]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Notes what the test reads."""
        with names_read(self.readers[item.nodeid]):
            return (yield)

    def of_module(self, constant: Constant, factor: float) -> bool:
        """Whether its own test module fails with the constant multiplied."""
        return self._holds(constant, factor, in_module=True)

    def of_room(self, constant: Constant, factor: float) -> bool:
        """Whether another test of its room does."""
        return self._holds(constant, factor, in_module=False)

    def _holds(self, constant: Constant, factor: float, *, in_module: bool) -> bool:
        room = f"tests/analysis/{constant.room}/"
        file = f"{room}test_{constant.module.rpartition('.')[2]}.py"
        chosen = []
        for test, names in self.readers.items():
            if (
                test.startswith(room)
                and test.startswith(file) is in_module
                and reads(names, constant)
            ):
                chosen.append(test)
        if not chosen:
            return False
        files = dict.fromkeys(HOME / test.partition("::")[0] for test in chosen)
        with multiplied({constant: factor}):
            return _run_pytest(list(files), OnlyTests(chosen)) == pytest.ExitCode.TESTS_FAILED


class OnlyTests:
    """These tests in this order, and no others."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.places = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the tests that were chosen."""
        chosen = [item for item in items if item.nodeid in self.places]
        items[:] = sorted(chosen, key=lambda item: self.places[item.nodeid])


def reads(names: set[tuple[str, str]], constant: Constant) -> bool:
    """Whether code that ran reads the constant, wherever it was imported."""
    if constant.module == FAULTS:
        return bool(names)
    return any(name == constant.name for _, name in names)


def _run_pytest(files: Sequence[Path], plugin: object) -> int | pytest.ExitCode:
    options = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={HOME}"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return pytest.main([*options, *map(str, files)], plugins=[plugin])


def main() -> None:
    """Change each constant in turn and print those that nothing holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rooms", default=",".join(ROOMS))
    parser.add_argument("--only", type=Path, help="a file with names of constants, one a line")
    options = parser.parse_args()
    weights = constants(modules_of([room.strip() for room in options.rooms.split(",")]))
    if options.only:
        only = set(options.only.read_text().split())
        weights = [constant for constant in weights if str(constant) in only]
    with tempfile.TemporaryDirectory() as folder:
        tests = RoomTests(constant.room for constant in weights)
        cases = LabelledCases(Path(folder))
        counts: Counter[str] = Counter()
        for constant in weights:
            by = _guard_of(constant, tests, cases)
            counts[by] += 1
            print(f"{constant} is held by {by}", flush=True)
    by_what = ", ".join(f"{counts[by]} by {by}" for by in (TEST, CASE, NOTHING))
    print(f"{len(weights)} weights and thresholds, held {by_what}")


def _guard_of(constant: Constant, tests: RoomTests, cases: LabelledCases) -> str:
    """What is fastest to ask comes first: most tests of a room diagnose whole cases."""
    guards = ((TEST, tests.of_module), (CASE, cases.holds), (TEST, tests.of_room))
    for what, holds in guards:
        if any(holds(constant, factor) for factor in FACTORS):
            return what
    return NOTHING


if __name__ == "__main__":
    main()
