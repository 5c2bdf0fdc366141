"""How readable the code is: figures of each floor and room, beside those of projects to learn from.

    python benchmarks/house.py [--floors] [--names] [--hardest N] [--json]
                               [--order "web, conversation > intake > store"]

One row per floor (a package of the wheel) and per folder in it, product code only, then the whole
product, then starlette, httpx and dbos as installed from PyPI, then the targets. A star marks what
misses its target. Below it: which units of each floor import each other in a circle, and which
imports go up against the layers that import-linter checks (or against `--order`, for `bot`).

`benchmarks/source_figures/source_file.py` says what a token, a code line and cyclomatic complexity
are here. `--hardest N` lists the N files with the highest product of tokens per code line and mean
cyclomatic complexity. `--names` lists the class names that several modules define.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.source_figures.imports import Shape, order_from_contracts, parse_order, shape
from benchmarks.source_figures.rooms import Room, floors, installed, measured, rooms_of
from benchmarks.source_figures.source_file import SourceFile
from benchmarks.source_figures.totals import FIGURES, Figure, repeated_class_names, totals

HOME = Path(__file__).resolve().parents[1]
COMPARED_WITH = ("starlette", "httpx", "dbos")
ORDERED_FLOOR = "bot"
"""The floor whose order `--order` gives."""


@dataclass(frozen=True)
class Row:
    """A line of the table; `of_product` rows are held against the targets."""

    name: str
    values: Mapping[str, float]
    of_product: bool


@dataclass(frozen=True)
class House:
    """Everything that is printed."""

    rows: Sequence[Row]
    shapes: Mapping[str, Shape]
    repeated: Mapping[str, Sequence[str]]
    hardest: Sequence[SourceFile]


def look(home: Path, orders: Mapping[str, list[list[str]]], hardest: int) -> House:
    """Measure the project at `home` and the packages that it is compared with.

    `orders` gives layers for floors whose contracts in pyproject.toml are not to be used.
    """
    names = floors(home)
    files_of = {name: measured(home / name) for name in names}
    product = [file for files in files_of.values() for file in files]
    repeated = repeated_class_names(product)
    rooms = [room for name in names for room in rooms_of(name, home, files_of[name])]
    rooms.append(Room("product", tuple(product)))
    rows = [Row(room.name, totals(room.files, repeated), of_product=True) for room in rooms]
    rows += [_compared(package) for package in COMPARED_WITH]
    shapes = {}
    for name in names:
        order = orders.get(name) or order_from_contracts(home / "pyproject.toml", name)
        shapes[name] = shape(home / name, order)
    product.sort(key=lambda file: file.hardness, reverse=True)
    return House(rows, shapes, _relative(repeated, home), product[:hardest])


def _compared(package: str) -> Row:
    files = measured(installed(package))
    return Row(package, totals(files, repeated_class_names(files)), of_product=False)


def _relative(names: Mapping[str, Sequence[Path]], home: Path) -> dict[str, list[str]]:
    relative = {}
    for name, paths in names.items():
        relative[name] = [path.relative_to(home).as_posix() for path in paths]
    return relative


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows in columns, with the targets last."""
    width = max(len(row.name) for row in rows)
    cells = [[figure.heading for figure in FIGURES]]
    cells += [[_cell(figure, row) for figure in FIGURES] for row in rows]
    cells.append([_target(figure) for figure in FIGURES])
    widths = [max(len(line[column]) for line in cells) for column in range(len(FIGURES))]
    names = ["", *(row.name for row in rows), "target"]
    for name, line in zip(names, cells, strict=True):
        columns = [cell.rjust(wide) for cell, wide in zip(line, widths, strict=True)]
        yield "  ".join([name.ljust(width), *columns])


def _cell(figure: Figure, row: Row) -> str:
    value = row.values[figure.key]
    # The space keeps the digits of a column below each other, with a star or without.
    mark = "*" if row.of_product and figure.missed_by(value) else " "
    return figure.pattern.format(value) + mark


def _target(figure: Figure) -> str:
    if figure.at_most is not None:
        return f"<={figure.at_most:g} "
    if figure.at_least is not None:
        return f">={figure.at_least:g} "
    return ""


def shape_lines(shapes: Mapping[str, Shape]) -> Iterator[str]:
    """What goes round in a circle, and what goes up."""
    for floor, found in shapes.items():
        if found.units < 2:
            continue
        cycle = found.largest_cycle
        line = f"{floor}: {found.units} units, {found.arrows} arrows, {len(cycle)} in a cycle"
        yield line + (f" ({', '.join(cycle)})" if cycle else "")
        if found.up is None:
            yield "  no order is known: no contract in pyproject.toml names layers in it"
            continue
        arrows = ", ".join(f"{source} -> {target}" for source, target in found.up)
        yield f"  {len(found.up)} arrows up" + (f": {arrows}" if arrows else "")
        if found.not_in_order:
            yield f"  in no layer: {', '.join(found.not_in_order)}"


def hardest_lines(files: Sequence[SourceFile], home: Path) -> Iterator[str]:
    """The hardest files, hardest first."""
    yield "hardness = tokens per code line x mean complexity"
    for file in files:
        name = file.path.relative_to(home).as_posix()
        parts = f"{file.tokens_per_line:5.2f} x {file.mean_complexity:5.2f}"
        yield f"{file.hardness:7.1f} = {parts}  {file.code_lines:4d} code lines  {name}"


def per_source_line(house: House) -> str:
    """The two shares of expressions again, per 1,000 source lines, with blank ones and prose."""
    whole = next(row.values for row in house.rows if row.name == "product")
    share = whole["code_lines"] / whole["lines"]
    comprehensions = whole["comprehensions_per_1000"] * share
    conditionals = whole["conditional_expressions_per_1000"] * share
    return (
        "product per 1,000 source lines instead of code lines: "
        f"comprehensions {comprehensions:.1f}, conditional expressions {conditionals:.1f}"
    )


def as_json(house: House) -> dict[str, Any]:
    """The same for programs; files by their path, rows by their name."""
    targets = {}
    for figure in FIGURES:
        if figure.at_most is not None:
            targets[figure.key] = {"at_most": figure.at_most}
        elif figure.at_least is not None:
            targets[figure.key] = {"at_least": figure.at_least}
    return {
        "rows": {row.name: dict(row.values) for row in house.rows},
        "targets": targets,
        "imports": {floor: asdict(found) for floor, found in house.shapes.items()},
        "repeated_class_names": dict(house.repeated),
        "hardest": [_hard_file(file) for file in house.hardest],
    }


def _hard_file(file: SourceFile) -> dict[str, Any]:
    return {
        "path": file.path.relative_to(HOME).as_posix(),
        "hardness": file.hardness,
        "tokens_per_code_line": file.tokens_per_line,
        "mean_complexity": file.mean_complexity,
        "code_lines": file.code_lines,
    }


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--floors", action="store_true", help="floors only, without their rooms")
    parser.add_argument("--names", action="store_true", help="class names defined repeatedly")
    parser.add_argument("--hardest", type=int, default=0, metavar="N", help="the hardest files")
    parser.add_argument("--order", default="", help=f"layers of {ORDERED_FLOOR}, top to bottom")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    given = arguments()
    orders = {ORDERED_FLOOR: parse_order(given.order)} if given.order else {}
    house = look(HOME, orders, given.hardest)
    if given.json:
        print(json.dumps(as_json(house), indent=2))
        return
    rows = [row for row in house.rows if not (given.floors and "/" in row.name)]
    print(*table(rows), "", sep="\n")
    print(per_source_line(house), "", sep="\n")
    print(*shape_lines(house.shapes), sep="\n")
    if given.names:
        print()
        for name, paths in house.repeated.items():
            print(f"{name} x{len(paths)}: {', '.join(paths)}")
    if given.hardest:
        print("", *hardest_lines(house.hardest, HOME), sep="\n")


if __name__ == "__main__":
    main()
