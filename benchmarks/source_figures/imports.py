"""Which rooms of one floor import which, where they go round in a circle, and which arrows go up.

A unit is a folder of the floor or a module that lies in no folder. An import counts wherever it
stands: at the top of a file, inside a function, or under `TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Arrows = Mapping[str, set[str]]
"""Unit to the units that it imports."""
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
    package = folder.name
    paths = sorted(folder.rglob("*.py"))
    units = {_unit_of(path.relative_to(folder)) for path in paths} - {"__init__"}
    arrows: dict[str, set[str]] = {unit: set() for unit in sorted(units)}
    for path in paths:
        inside = path.relative_to(folder)
        source = _unit_of(inside)
        if source == "__init__":
            continue
        where = (package, *inside.parent.parts)
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for name in _imported(tree, where):
            parts = name.split(".")
            if parts[0] == package and len(parts) > 1 and parts[1] in units:
                arrows[source].add(parts[1])
    for unit, targets in arrows.items():
        targets.discard(unit)
    return arrows


def _unit_of(inside: Path) -> str:
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


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
    seen: set[str] = set()
    waiting = list(arrows[start])
    while waiting:
        unit = waiting.pop()
        if unit not in seen:
            seen.add(unit)
            waiting.extend(arrows[unit])
    return seen


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


def order_from_contracts(pyproject: Path, package: str) -> list[list[str]]:
    """The layers that import-linter checks inside a package; empty where no contract names any.

    Understood are contracts of type `layers` that name modules of the package in full
    (`faultline.bot.store`), or by a container. Of several the one with most layers is taken.
    """
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    contracts = settings.get("tool", {}).get("importlinter", {}).get("contracts", [])
    found: list[list[str]] = []
    for contract in contracts:
        if contract.get("type") != "layers":
            continue
        layers = _layers_inside(contract["layers"], contract.get("containers", []), package)
        if len(layers) > len(found):
            found = layers
    return found


def _layers_inside(
    layers: Iterable[str],
    containers: Sequence[str],
    package: str,
) -> list[list[str]]:
    inside = []
    for layer in layers:
        # Units of one layer stand between "|" or ":"; a name in brackets may be missing.
        names = [name.strip(" ()") for name in layer.replace(":", "|").split("|")]
        if package in containers:
            inside.append(names)
            continue
        units = [name.split(".")[1] for name in names if name.startswith(f"{package}.")]
        if units:
            inside.append(units)
    return inside
