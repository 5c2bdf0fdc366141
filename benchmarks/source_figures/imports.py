"""Which rooms of one floor import which, where they go round in a circle, and which arrows go up.

A unit is a folder of the floor or a module that lies in no folder. In `shared/` and `vendors/`
each folder and module is a unit, because these two hold many that are independent. An import
counts wherever it stands: at the top of a file, inside a function, or under `TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.checks.product_files import dotted_names

FOLDERS_OF_UNITS = ("shared", "vendors")

Arrows = Mapping[str, set[str]]
"""Unit to the units that it imports, or file to files."""
Order = Sequence[Sequence[str]]
"""Layers from top to bottom, each with its units."""


@dataclass(frozen=True)
class Shape:
    """How the units of a floor hang together; `up` is None where no order is known."""

    units: int
    arrows: int
    largest_cycle: tuple[str, ...]
    up: tuple[tuple[str, str], ...] | None
    not_in_order: tuple[str, ...]


def shape(folder: Path, order: Order) -> Shape:
    """Read all imports below `folder`; its name is the package's."""
    arrows = unit_arrows(folder)
    placed = {unit for layer in order for unit in layer}
    missing = tuple(sorted(unit for unit in arrows if unit not in placed)) if order else ()
    return Shape(
        units=len(arrows),
        arrows=sum(len(targets) for targets in arrows.values()),
        largest_cycle=largest_cycle(arrows),
        up=tuple(arrows_up(arrows, order)) if order else None,
        not_in_order=missing,
    )


def unit_arrows(folder: Path) -> dict[str, set[str]]:
    """Which unit imports which other; every unit has an entry."""
    packages = dotted_names(folder)
    paths = sorted(folder.rglob("*.py"))
    units = {_unit_of(_module_parts(path.relative_to(folder))) for path in paths} - {""}
    arrows: dict[str, set[str]] = {unit: set() for unit in sorted(units)}
    for path in paths:
        source = _unit_of(_module_parts(path.relative_to(folder)))
        if not source:
            continue
        for name in _imports_of(path, folder):
            target = _unit_of(_inside(name, packages).split("."))
            if target in units:
                arrows[source].add(target)
    for unit, targets in arrows.items():
        targets.discard(unit)
    return arrows


def _module_parts(inside: Path) -> list[str]:
    """`a/b.py` and `a/b/__init__.py` are both the module `a.b`."""
    parts = inside.with_suffix("").parts
    return list(parts[:-1] if parts[-1] == "__init__" else parts)


def _unit_of(parts: Sequence[str]) -> str:
    """The unit that a module belongs to; empty for the floor itself."""
    depth = 2 if parts and parts[0] in FOLDERS_OF_UNITS else 1
    return ".".join(parts[:depth]) if len(parts) >= depth else ""


def _inside(name: str, packages: Iterable[str]) -> str:
    """A dotted name without the package it lies in; empty where it lies in none of them."""
    for package in packages:
        if name.startswith(f"{package}."):
            return name.removeprefix(f"{package}.")
    return ""


def file_arrows(folders: Iterable[Path]) -> dict[Path, set[Path]]:
    """Which file imports which other in these folders; every file has an entry."""
    files: dict[str, Path] = {}
    arrows: dict[Path, set[Path]] = {}
    home: dict[Path, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            home[path] = folder
            for package in dotted_names(folder):
                files[".".join([package, *_module_parts(path.relative_to(folder))])] = path
    for path, folder in home.items():
        targets = set()
        for name in _imports_of(path, folder):
            # The last part may be a module, or something that its package defines.
            target = files.get(name) or files.get(name.rpartition(".")[0])
            if target is not None and target != path:
                targets.add(target)
        arrows[path] = targets
    return arrows


def most_imported(arrows: Mapping[Path, set[Path]], count: int) -> list[Path]:
    """The files that most others import, most first."""
    importers: Counter[Path] = Counter()
    for targets in arrows.values():
        importers.update(targets)
    ordered = sorted(importers, key=lambda path: (-importers[path], path))
    return ordered[:count]


def _imports_of(path: Path, folder: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return _imported(tree, (folder.name, *path.relative_to(folder).parent.parts))


def _imported(tree: ast.Module, where: tuple[str, ...]) -> Iterator[str]:
    """Absolute dotted names; `from a import b` gives `a.b`, which may be a module or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            # One dot is the package that holds the file, each further dot one package above.
            above = where[: len(where) - node.level + 1] if node.level else ()
            prefix = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{prefix}.{alias.name}"


def largest_cycle(arrows: Arrows) -> tuple[str, ...]:
    """The most units that all reach each other, sorted; empty where there is no cycle."""
    reached = {unit: _reachable(unit, arrows) for unit in arrows}
    largest: tuple[str, ...] = ()
    for unit in sorted(arrows):
        if unit not in reached[unit]:
            continue
        together = tuple(sorted(other for other in reached[unit] if unit in reached[other]))
        if len(together) > len(largest):
            largest = together
    return largest


def _reachable(start: str, arrows: Arrows) -> set[str]:
    units: set[str] = set()
    waiting = list(arrows[start])
    while waiting:
        unit = waiting.pop()
        if unit not in units:
            units.add(unit)
            waiting.extend(arrows[unit])
    return units


def arrows_up(arrows: Arrows, order: Order) -> Iterator[tuple[str, str]]:
    """Imports of a higher layer by a lower one; units in no layer are left out."""
    depth = {unit: level for level, layer in enumerate(order) for unit in layer}
    for source, targets in arrows.items():
        for target in sorted(targets):
            if source in depth and target in depth and depth[target] < depth[source]:
                yield source, target


def parse_order(text: str) -> list[list[str]]:
    """`web, conversation > intake > store`: top to bottom, units of one layer by commas."""
    layers = []
    for layer in text.split(">"):
        layers.append([unit.strip() for unit in layer.split(",") if unit.strip()])
    return layers


def order_from_contracts(pyproject: Path, *packages: str) -> list[list[str]]:
    """The layers that import-linter checks inside a package; empty where no contract names any.

    Understood are contracts of type `layers` that name modules of the package in full
    (`faultline.bot.store`), or by a container. `packages` are the dotted names of the
    package. Of several contracts the one with most layers is taken.
    """
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    contracts = settings.get("tool", {}).get("importlinter", {}).get("contracts", [])
    longest_order: list[list[str]] = []
    for contract in contracts:
        if contract.get("type") != "layers":
            continue
        layers = _layers_inside(contract["layers"], contract.get("containers", []), packages)
        if len(layers) > len(longest_order):
            longest_order = layers
    return longest_order


def _layers_inside(
    layers: Iterable[str],
    containers: Sequence[str],
    packages: Sequence[str],
) -> list[list[str]]:
    inside = []
    for layer in layers:
        # Units of one layer stand between "|" or ":"; a name in brackets may be missing.
        names = [name.strip(" ()") for name in layer.replace(":", "|").split("|")]
        if any(package in containers for package in packages):
            inside.append(names)
            continue
        units = [_inside(name, packages).split(".")[0] for name in names]
        units = [unit for unit in units if unit]
        if units:
            inside.append(units)
    return inside
