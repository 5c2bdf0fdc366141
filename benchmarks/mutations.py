"""Which small faults in the source does no test notice?

python benchmarks/mutations.py [--count 200] [--seed 1] [--rooms bot/store,connectors] [--jobs 1]
    [--budget 60] [--results FILE] [--json] [--only FILE:LINE:KIND]
    [--lines FOLDER [--record "-n 2 --dist loadfile --lane first"]]

Draws mutations from all rooms of the product by the seed, makes each in a throw-away copy of the
working tree, and runs the tests that are nearest to it: those that import the module, those that
import a module which imports it, then the others of its room. It stops at the first failure, or
when tests that usually take --budget seconds have run. A mutation that makes the tests hang is
caught. Tests that fail without a mutation are named and left out. With --results a run that was
interrupted goes on where it ended: what stands in the file is not tried again, but for survivors
of a smaller --budget that left tests over. With --lines the tests are those that execute the
mutated statement, whichever room is theirs: --record runs pytest with these options and writes
into the folder which test file executes which lines. Prints each survivor, then how many were
caught by room and by kind. benchmarks/mutants/equivalent.toml lists mutations that make no
difference.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.mutants.equivalent import is_equivalent, read_equivalents
from benchmarks.mutants.executed_lines import ExecutedLines, record
from benchmarks.mutants.modules import ProjectModules
from benchmarks.mutants.mutation import Mutation
from benchmarks.mutants.nearest_tests import chosen_tests
from benchmarks.mutants.results import (
    ResultsFile,
    as_json,
    share_of,
    shares_by,
    survivor_text,
    table,
)
from benchmarks.mutants.sample import Sampler, room_of
from benchmarks.mutants.trials import Trial, try_mutation
from benchmarks.mutants.working_copy import WorkingCopy

HOME = Path(__file__).resolve().parents[1]
BUDGET_S = 60.0
"""Of each survivor. Half of the test files of a large room take about a minute."""


class Place(NamedTuple):
    """What `--only` names."""

    path: str
    line: int
    kind: str

    @classmethod
    def parse(cls, text: str) -> Place:
        """From FILE:LINE:KIND. Raises ValueError."""
        path, line, kind = text.rsplit(":", 2)
        return cls(path, int(line), kind)


class Options(argparse.Namespace):
    """The command line."""

    root: Path
    count: int
    seed: int
    rooms: str
    jobs: int
    budget: float
    json: bool
    only: Place | None
    results: Path | None
    lines: Path | None
    record: str | None


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the sample, try what is new of it, and print what survived."""
    options = _parser().parse_args(arguments, namespace=Options())
    modules = ProjectModules(options.root)
    if options.record is not None:
        if options.lines is None:
            raise SystemExit("--record needs --lines, the folder to write into")
        record(modules, options.lines, shlex.split(options.record))
    results = ResultsFile(options.results)
    mutations, equivalent = _chosen(options, modules)
    new = []
    for mutation in mutations:
        trial = results.trials.get(mutation.identity)
        if options.only is not None or trial is None or not trial.is_final(options.budget):
            new.append(mutation)
    _try_all(options, modules, results, new)
    trials = [results.trials[mutation.identity] for mutation in mutations]

    def room(trial: Trial) -> str:
        return room_of(modules.root, trial.mutation.path)

    if options.json:
        print(as_json(trials, room, results.clean.red))
        return
    for trial in trials:
        if trial.outcome == "survived":
            print(survivor_text(trial), end="\n\n")
    print(table("room", shares_by(trials, room)), end="\n\n")
    print(table("kind", shares_by(trials, lambda trial: trial.mutation.kind)), end="\n\n")
    for test in results.clean.red:
        print(f"left out, for it fails without a mutation: {test}")
    if equivalent:
        print(f"{equivalent} left out that make no difference: mutants/equivalent.toml")
    total = share_of(trials)
    print(f"{total} mutations caught (95 % interval {total.interval})")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", default="", help="only these, with commas between; all if unset")
    parser.add_argument("--jobs", type=int, default=1, help="copies that run side by side")
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS")
    parser.add_argument("--results", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", type=Place.parse, metavar="FILE:LINE:KIND")
    parser.add_argument("--lines", type=Path, metavar="FOLDER")
    parser.add_argument("--record", metavar="OPTIONS")
    parser.add_argument("--root", type=Path, default=HOME, help="another project")
    return parser


def _chosen(options: Options, modules: ProjectModules) -> tuple[list[Mutation], int]:
    """The mutations to try, and how many of the sample make no difference."""
    sampler = Sampler(modules)
    if options.only is not None:
        place = options.only
        mutations = sampler.at(place.path, place.line, place.kind)
        if not mutations:
            raise SystemExit(f"no mutation of kind {place.kind} on {place.path}:{place.line}")
        return mutations, 0
    rooms = [room.strip(" /") for room in options.rooms.split(",") if room.strip(" /")]
    sample = sampler.sample(options.count, options.seed, rooms)
    reasons = read_equivalents()
    different = [mutation for mutation in sample if not is_equivalent(mutation, reasons)]
    return different, len(sample) - len(different)


def _try_all(
    options: Options, modules: ProjectModules, results: ResultsFile, mutations: Sequence[Mutation]
) -> None:
    """Tries them, each job in its copy."""
    if not mutations:
        return
    executed = None if options.lines is None else ExecutedLines(modules, options.lines)
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        free: SimpleQueue[WorkingCopy] = SimpleQueue()
        copies = []
        for job in range(min(options.jobs, len(mutations))):
            copies.append(WorkingCopy(modules.root, Path(folder) / str(job)))
            free.put(copies[-1])

        def attempt(mutation: Mutation) -> Trial:
            copy = free.get()
            try:
                tests = chosen_tests(modules, mutation, executed)
                return try_mutation(copy, tests, results.clean, mutation, options.budget)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(len(copies)) as pool:
            for trial in pool.map(attempt, mutations):
                results.add(trial)
                progress = f"{trial.outcome} in {trial.seconds:.0f} s: {trial.mutation.place}"
                print(progress, trial.caught_by, file=sys.stderr, flush=True)
        for copy in copies:
            copy.close()


if __name__ == "__main__":
    main()
