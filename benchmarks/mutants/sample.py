"""A sample of mutations over all rooms, the same for the same seed and the same code.

Each room has its share by lines of code. Within a room a file is drawn by its lines, then one of
the kinds that occur in it, then one place of that kind: kinds are drawn evenly, or removed
statements would be most of the sample.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.mutants.modules import ProjectModules
from benchmarks.mutants.mutation import Mutation
from benchmarks.mutants.mutator import Edit, Edits, mutations_of
from benchmarks.mutants.signatures import Signatures
from benchmarks.mutants.source_text import SourceText

NOT_PRODUCT = frozenset({"tests", "benchmarks", "docs", "infra"})
DRAWS_PER_MUTATION = 50
"""A room that is nearly used up ends the search after that many draws for each it should give."""


def product_files(modules: ProjectModules) -> list[str]:
    """The files that may be mutated: those of packages that are the product."""
    files = []
    for path in modules.files:
        floor, _, inside = path.partition("/")
        is_package = (modules.root / floor / "__init__.py").is_file()
        if inside and is_package and floor not in NOT_PRODUCT:
            files.append(path)
    return files


def room_of(root: Path, path: str) -> str:
    """The nearest folder around a file that has tests in the folder of the same name."""
    folders = [parent.as_posix() for parent in Path(path).parents][:-1]
    for folder in folders:
        tests = root / "tests" / folder
        if tests.is_dir() and any(tests.rglob("test_*.py")):
            return folder
    return folders[-1]


def code_lines(source: bytes) -> int:
    """Lines that are neither blank nor a comment."""
    count = 0
    for line in source.splitlines():
        text = line.strip()
        count += bool(text) and not text.startswith(b"#")
    return count


def quotas(lines: Mapping[str, int], count: int) -> dict[str, int]:
    """How many of `count` each room gives, by largest remainder (Hamilton)."""
    total = sum(lines.values())
    if not total:
        return {}
    exact = {room: count * share / total for room, share in lines.items()}
    quota = {room: math.floor(share) for room, share in exact.items()}
    left = count - sum(quota.values())
    for room in sorted(exact, key=lambda room: (quota[room] - exact[room], room))[:left]:
        quota[room] += 1
    return quota


class Sampler:
    """Draws mutations from the rooms of a project."""

    def __init__(self, modules: ProjectModules) -> None:
        self._modules = modules
        self._signatures = Signatures(modules)
        self._texts: dict[str, SourceText] = {}
        self._edits: dict[str, dict[str, list[Edit]]] = {}
        self._mutations: dict[tuple[str, Edit], Mutation | None] = {}

    def sample(self, count: int, seed: int, rooms: Sequence[str] = ()) -> list[Mutation]:
        """`count` mutations of these rooms and those within them, or of all."""
        lines: dict[str, dict[str, int]] = defaultdict(dict)
        for path in product_files(self._modules):
            room = room_of(self._modules.root, path)
            if not rooms or any(
                (room == folder or room.startswith(f"{folder}/")) for folder in rooms
            ):
                lines[room][path] = code_lines((self._modules.root / path).read_bytes())
        quota = quotas({room: sum(files.values()) for room, files in lines.items()}, count)
        drawn: list[Mutation] = []
        for room in sorted(quota):
            # A change in one room leaves what is drawn from the others as it was.
            chance = random.Random(f"{seed} {room}")
            drawn += self._of_room(lines[room], quota[room], chance)
        return drawn

    def at(self, path: str, line: int, kind: str) -> list[Mutation]:
        """The mutations of one kind on one line."""
        chosen = []
        for mutation in mutations_of(self._text(path), self._signatures):
            if mutation.line == line and mutation.kind == kind:
                chosen.append(mutation)
        return chosen

    def _of_room(
        self, lines: Mapping[str, int], quota: int, chance: random.Random
    ) -> list[Mutation]:
        drawn: dict[str, Mutation] = {}
        files, weights = list(lines), list(lines.values())
        for _ in range(quota * DRAWS_PER_MUTATION):
            if len(drawn) == quota:
                break
            (path,) = chance.choices(files, weights)
            by_kind = self._edits_of(path)
            if not by_kind:
                continue
            kind = chance.choice(sorted(by_kind))
            mutation = self._mutation(path, chance.choice(by_kind[kind]))
            if mutation is not None:
                drawn[mutation.identity] = mutation
        return sorted(drawn.values(), key=lambda mutation: (mutation.path, mutation.start))

    def _edits_of(self, path: str) -> dict[str, list[Edit]]:
        if path not in self._edits:
            by_kind: dict[str, list[Edit]] = defaultdict(list)
            for edit in Edits(self._text(path), self._signatures).all():
                by_kind[edit[0]].append(edit)
            self._edits[path] = by_kind
        return self._edits[path]

    def _mutation(self, path: str, edit: Edit) -> Mutation | None:
        # A small room draws the same edit many times.
        if (path, edit) not in self._mutations:
            self._mutations[path, edit] = self._text(path).mutation(*edit)
        return self._mutations[path, edit]

    def _text(self, path: str) -> SourceText:
        if path not in self._texts:
            source = (self._modules.root / path).read_bytes()
            self._texts[path] = SourceText(path, source)
        return self._texts[path]
