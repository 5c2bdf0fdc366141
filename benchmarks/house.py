"""How readable the code is: figures of each floor and room, beside those of projects to learn from.

    python benchmarks/house.py [--floors] [--names] [--complex] [--hardest N] [--run] [--json]
                               [--order "web, conversation > intake > store"]

One row per floor (a package of the wheel) and per folder in it, product code only, then the whole
product, then starlette, httpx and dbos as installed from PyPI, then the targets. A star marks what
misses its target. A second table with the same rows is about names and functions. Below it: figures
of the product as a whole, which units of each floor import each other in a circle, and which
imports go up against the layers that import-linter checks (or against `--order`, for `bot`).

`benchmarks/source_figures/source_file.py` says what a token, a code line and cyclomatic complexity
are here. `--hardest N` lists the N files with the highest product of tokens per code line and mean
cyclomatic complexity. `--names` lists the class names that several modules define, `--complex` the
functions over complexity 15. `--run` counts what one investigation runs: it takes some seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.source_figures.imports import (
    Shape,
    file_arrows,
    largest_cycle,
    most_imported,
    order_from_contracts,
    parse_order,
    shape,
)
from benchmarks.source_figures.rooms import Room, floors, installed, measured, rooms_of
from benchmarks.source_figures.source_file import SourceFile
from benchmarks.source_figures.totals import (
    DENSITY,
    FIGURES,
    NAMING,
    Figure,
    repeated_class_names,
    totals,
)
from benchmarks.source_figures.traced_run import CASE, TracedRun, investigate
from infra.checks.product_files import TESTS, dotted_names

HOME = Path(__file__).resolve().parents[1]
COMPARED_WITH = ("starlette", "httpx", "dbos")
ORDERED_FLOOR = "bot"
"""The floor whose order `--order` gives."""
CONNECTORS = "connectors"
GROUND = "analysis"
"""The floor on which all others stand: its files may not import each other in a circle."""
MOST_IMPORTED = 100
COMPLEX = 15
WHOLE = (
    Figure("product_lines", "lines of Python that the wheel ships", "{:.0f}", at_most=200_000),
    Figure("test_lines", "lines of tests", "{:.0f}"),
    Figure("common_names", f"names that name nothing, {MOST_IMPORTED} files", "{:.0f}", at_most=0),
    Figure("common_wide", "the same by the wide list", "{:.0f}", at_most=0),
    Figure("connector_units", f"units of {CONNECTORS}", "{:.0f}", at_most=55),
    Figure("ground_cycle", f"files of {GROUND} in one import cycle", "{:.0f}", at_most=0),
    Figure("run_files", "files that one investigation runs", "{:.0f}", at_most=150),
    Figure("run_functions", "functions that one investigation runs", "{:.0f}", at_most=1100),
)
"""Figures of the product as a whole. Imports under `TYPE_CHECKING` count for the cycle."""


@dataclass(frozen=True)
class Row:
    """A line of the table; `of_product` rows are held against the targets."""

    name: str
    values: Mapping[str, float]
    of_product: bool


@dataclass(frozen=True)
class House:
    """Everything that is printed; `whole` holds figures of the product as a whole, by their key."""

    rows: Sequence[Row]
    not_installed: Sequence[str]
    whole: Mapping[str, float]
    cycle: Sequence[str]
    complex: Sequence[str]
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
    compared, not_installed = _compared_rows()
    shapes = {}
    for name in names:
        packages = dotted_names(home / name)
        order = orders.get(name) or order_from_contracts(home / "pyproject.toml", *packages)
        shapes[name] = shape(home / name, order)
    arrows = file_arrows(home / name for name in names)
    cycle = _ground_cycle(arrows, home)
    whole = {
        "product_lines": sum(file.lines for file in product),
        "test_lines": _lines_below(home / TESTS),
        "connector_units": shapes[CONNECTORS].units if CONNECTORS in shapes else 0,
        "ground_cycle": len(cycle),
    }
    common = set(most_imported(arrows, MOST_IMPORTED))
    whole |= _names_of([file for file in product if file.path in common])
    by_hardness = sorted(product, key=lambda file: file.hardness, reverse=True)
    return House(
        rows=[*rows, *compared],
        not_installed=not_installed,
        whole=whole,
        cycle=cycle,
        complex=list(_complex_functions(product, home)),
        shapes=shapes,
        repeated=_relative(repeated, home),
        hardest=by_hardness[:hardest],
    )


def _compared_rows() -> tuple[list[Row], list[str]]:
    """The rows of other projects, and why some are missing."""
    rows = []
    not_installed = []
    for package in COMPARED_WITH:
        try:
            rows.append(_compared(package))
        except LookupError as error:
            not_installed.append(str(error))
    return rows, not_installed


def _names_of(files: Sequence[SourceFile]) -> dict[str, int]:
    return {
        "common_names": sum(file.empty_names for file in files),
        "common_wide": sum(file.wide_names for file in files),
    }


def _compared(package: str) -> Row:
    files = measured(installed(package))
    return Row(package, totals(files, repeated_class_names(files)), of_product=False)


def _ground_cycle(arrows: Mapping[Path, set[Path]], home: Path) -> tuple[str, ...]:
    """The most files of the ground that all reach each other."""
    ground = home / GROUND
    inside = {}
    for path, targets in arrows.items():
        if path.is_relative_to(ground):
            below = [target for target in targets if target.is_relative_to(ground)]
            inside[str(path.relative_to(home))] = {str(path.relative_to(home)) for path in below}
    return largest_cycle(inside)


def _lines_below(folder: Path) -> int:
    lines = 0
    for path in folder.rglob("*.py"):
        lines += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def _complex_functions(files: Sequence[SourceFile], home: Path) -> Iterator[str]:
    """`file:line name complexity` of the functions over the limit, the most complex first."""
    functions = []
    for file in files:
        for function in file.functions:
            if function.complexity > COMPLEX:
                where = f"{file.path.relative_to(home).as_posix()}:{function.line}"
                functions.append((-function.complexity, where, function.name))
    for complexity, where, name in sorted(functions):
        yield f"{where} {name} {-complexity}"


def _relative(names: Mapping[str, Sequence[Path]], home: Path) -> dict[str, list[str]]:
    relative = {}
    for name, paths in names.items():
        relative[name] = [path.relative_to(home).as_posix() for path in paths]
    return relative


def table(rows: Sequence[Row], figures: Sequence[Figure] = DENSITY) -> Iterator[str]:
    """The rows in columns, with the targets last."""
    width = max(len(row.name) for row in rows)
    cells = [[figure.heading for figure in figures]]
    cells += [[_cell(figure, row) for figure in figures] for row in rows]
    cells.append([_target(figure) for figure in figures])
    widths = [max(len(line[column]) for line in cells) for column in range(len(figures))]
    names = ["", *(row.name for row in rows), "target"]
    for name, line in zip(names, cells, strict=True):
        columns = [cell.rjust(wide) for cell, wide in zip(line, widths, strict=True)]
        yield "  ".join([name.ljust(width), *columns])


def _cell(figure: Figure, row: Row) -> str:
    value = row.values[figure.key]
    # The space keeps the digits of a column below each other, with a star or without.
    mark = "*" if row.of_product and figure.missed_by(value) else " "
    return figure.pattern.format(value) + mark


def whole_lines(whole: Mapping[str, float]) -> Iterator[str]:
    """Figures of the product as a whole with their targets, one a line, those that are there."""
    width = max(len(figure.heading) for figure in WHOLE)
    for figure in WHOLE:
        if figure.key in whole:
            cell = _cell(figure, Row("product", whole, of_product=True))
            yield f"{figure.heading.ljust(width)} {cell:>9} {_target(figure)}".rstrip()


def with_run(house: House, run: TracedRun) -> House:
    """The same house with the figures of one investigation."""
    whole = {**house.whole, "run_files": run.files, "run_functions": run.functions}
    return dataclasses.replace(house, whole=whole)


def _target(figure: Figure) -> str:
    if figure.at_most is not None:
        return f"<={figure.at_most:g} "
    if figure.at_least is not None:
        return f">={figure.at_least:g} "
    return ""


def shape_lines(shapes: Mapping[str, Shape]) -> Iterator[str]:
    """What goes round in a circle, and what goes up."""
    for floor, floor_shape in shapes.items():
        if floor_shape.units < 2:
            continue
        cycle = floor_shape.largest_cycle
        line = (
            f"{floor}: {floor_shape.units} units, {floor_shape.arrows} arrows, {len(cycle)} "
            "in a cycle"
        )
        yield line + (f" ({', '.join(cycle)})" if cycle else "")
        if floor_shape.up is None:
            yield "  no order is known: no contract in pyproject.toml names layers in it"
            continue
        arrows = ", ".join(f"{source} -> {target}" for source, target in floor_shape.up)
        yield f"  {len(floor_shape.up)} arrows up" + (f": {arrows}" if arrows else "")
        if floor_shape.not_in_order:
            yield f"  in no layer: {', '.join(floor_shape.not_in_order)}"


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
    for figure in [*FIGURES, *WHOLE]:
        if figure.at_most is not None:
            targets[figure.key] = {"at_most": figure.at_most}
        elif figure.at_least is not None:
            targets[figure.key] = {"at_least": figure.at_least}
    return {
        "rows": {row.name: dict(row.values) for row in house.rows},
        "targets": targets,
        "not_installed": list(house.not_installed),
        "whole": dict(house.whole),
        "cycle": list(house.cycle),
        "complex": list(house.complex),
        "imports": {floor: asdict(floor_shape) for floor, floor_shape in house.shapes.items()},
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
    parser.add_argument("--complex", action="store_true", help="functions over complexity 15")
    parser.add_argument("--run", action="store_true", help=f"investigate {CASE}, and count")
    parser.add_argument("--hardest", type=int, default=0, metavar="N", help="the hardest files")
    parser.add_argument("--order", default="", help=f"layers of {ORDERED_FLOOR}, top to bottom")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = arguments()
    orders = {ORDERED_FLOOR: parse_order(options.order)} if options.order else {}
    house = look(HOME, orders, options.hardest)
    if options.run:
        house = with_run(house, investigate(HOME, floors(HOME)))
    if options.json:
        print(json.dumps(as_json(house), indent=2))
        return
    rows = [row for row in house.rows if not (options.floors and "/" in row.name)]
    print(*table(rows), "", *table(rows, NAMING), "", sep="\n")
    for reason in house.not_installed:
        print(f"left out: {reason}")
    print(*whole_lines(house.whole), "", sep="\n")
    if house.cycle:
        print("in that cycle:", ", ".join(house.cycle), "\n")
    print(per_source_line(house), "", sep="\n")
    print(*shape_lines(house.shapes), sep="\n")
    if options.names:
        print()
        for name, paths in house.repeated.items():
            print(f"{name} x{len(paths)}: {', '.join(paths)}")
    if options.complex:
        print("", *house.complex, sep="\n")
    if options.hardest:
        print("", *hardest_lines(house.hardest, HOME), sep="\n")


if __name__ == "__main__":
    main()
