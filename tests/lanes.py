"""Which lane of `./run test` a test runs in, by the table in lanes.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("lanes.toml")
LANES = ("first", "second", "all")


@dataclass(frozen=True)
class Lanes:
    """Paths are relative to the project."""

    second: frozenset[str]
    """Folders, files and tests (`file::test`) that run in the second lane only."""
    long: Mapping[str, frozenset[str]]
    """Files that run in the second lane, except for the tests named here."""
    first_case: frozenset[str]
    """Files and folders in which the first lane runs one case of each test."""

    def is_second(self, path: str) -> bool:
        """Whether no test of this file or folder runs in the first lane."""
        return _lies_in(path, self.second) or self.long.get(path) == frozenset()

    def is_first(self, path: str) -> bool:
        """Whether every test of this file runs in the first lane."""
        mixed = {place.partition("::")[0] for place in self.second} | self.long.keys()
        return not (path in mixed or self.is_second(path) or _lies_in(path, self.first_case))

    def needs_one_case(self, path: str, name: str) -> bool:
        """Whether the first lane runs one case of this test, or none: no other need be made."""
        return _lies_in(path, self.first_case) or not self._has_first(path, name)

    def _has_first(self, path: str, name: str) -> bool:
        in_second = self.is_second(path) or f"{path}::{name}" in self.second
        return not in_second and name in self.long.get(path, {name})

    def first_of(self, items: Iterable[pytest.Item]) -> set[pytest.Item]:
        """The tests of the first lane."""
        first: set[pytest.Item] = set()
        represented: set[str] = set()
        for item in items:
            path, test = path_of(item.path), item.nodeid.partition("[")[0]
            name = test.rpartition("::")[2]
            if not self._has_first(path, name):
                continue
            if _lies_in(path, self.first_case):
                if test in represented:
                    continue
                represented.add(test)
            first.add(item)
        return first


@cache
def read_lanes(table: Path = TABLE) -> Lanes:
    """The table as it stands."""
    content = tomllib.loads(table.read_text())
    return Lanes(
        second=frozenset(path for group in content["second"] for path in group["paths"]),
        long={path: frozenset(names) for path, names in content["long"]["files"].items()},
        first_case=frozenset(content["first_case"]["paths"]),
    )


@cache
def path_of(path: Path) -> str:
    """Relative to the project."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()


def divide(items: Sequence[pytest.Item], lane: str) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests of this lane, and the others."""
    if lane == "all":
        return list(items), []
    first = read_lanes().first_of(items)
    wanted = [item for item in items if (item in first) == (lane == "first")]
    others = [item for item in items if (item in first) != (lane == "first")]
    return wanted, others


def _lies_in(path: str, places: frozenset[str]) -> bool:
    return path in places or any(path.startswith(f"{place}/") for place in places)
