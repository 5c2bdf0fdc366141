"""The test files that may notice a mutation, those nearest to it first."""

from __future__ import annotations

from pathlib import PurePosixPath

from benchmarks.mutants.executed_lines import ExecutedLines
from benchmarks.mutants.modules import ProjectModules
from benchmarks.mutants.mutation import Mutation
from benchmarks.mutants.sample import room_of

Rank = tuple[int, bool, int, bool, str]


def chosen_tests(
    modules: ProjectModules, mutation: Mutation, executed: ExecutedLines | None
) -> list[str]:
    """Those that execute the mutated statement, where a record says so: the nearest first, then
    whatever other room's tests reach it."""
    nearest = nearest_tests(modules, mutation.path)
    reached = None if executed is None else executed.tests_of(mutation)
    if executed is None or reached is None:
        return nearest
    chosen = [test for test in nearest if test in reached or test in executed.unrecorded]
    home = f"tests/{room_of(modules.root, mutation.path)}"
    beyond = sorted(
        (*_distance(test, mutation.path, home), test)
        for test in reached.difference(nearest)
        if (modules.root / test).is_file()
    )
    return chosen + [rank[-1] for rank in beyond]


def nearest_tests(modules: ProjectModules, path: str) -> list[str]:
    """Test files that import the module, then those that import a module which imports it, then
    the others of its room."""
    room = room_of(modules.root, path)
    home = f"tests/{room}"
    direct = modules.importers[path]
    beyond: set[str] = set()
    for importer in direct:
        beyond |= modules.importers[importer]
    ranks: list[Rank] = []
    for test in modules.files:
        if not (test.startswith("tests/") and PurePosixPath(test).name.startswith("test_")):
            continue
        is_in_room = test.startswith(f"{home}/")
        if test in direct:
            hops = 0
        elif test in beyond:
            hops = 1
        elif is_in_room:
            hops = 2
        else:
            continue
        ranks.append((hops, *_distance(test, path, home), test))
    return [rank[-1] for rank in sorted(ranks)]


def _distance(test: str, path: str, home: str) -> tuple[bool, int, bool]:
    """Whether it is named after another module, the folders between, and whether it is named
    after nothing around the module: a vendor's tests are named after its folder."""
    module, file = PurePosixPath(path), PurePosixPath(test)
    is_of_another = file.stem != f"test_{module.stem}"
    ours, theirs = PurePosixPath(home).parts, file.parent.parts
    shared = 0
    for here, there in zip(ours, theirs, strict=False):
        if here != there:
            break
        shared += 1
    folders = len(ours) + len(theirs) - 2 * shared
    is_named_otherwise = not any(
        name in file.stem
        for name in (module.stem, module.parent.name, module.parent.parent.name)
        if name
    )
    return is_of_another, folders, is_named_otherwise
