"""`benchmarks/house.py` counts what it says it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import house
from benchmarks.source_figures.imports import (
    order_from_contracts,
    parse_order,
    shape,
    unit_arrows,
)
from benchmarks.source_figures.rooms import installed, measured, rooms_of
from benchmarks.source_figures.source_file import SourceFile, measure
from benchmarks.source_figures.totals import FIGURES, percentile, repeated_class_names, totals

SAMPLE = '''"""A docstring
over three lines
is one token."""

# A comment alone.
LIMIT = 3  # and one behind code


class Shape:
    def area(self, sides: list[int]) -> int:
        if sides and LIMIT or not sides:
            return sum(side for side in sides if side)
        return 1 if LIMIT else 0


class _Hidden:
    pass


def outer(kind):
    def inner():
        while True:
            break

    try:
        match kind:
            case "a":
                return f"{kind} and {LIMIT}"
            case _:
                return inner
    except (ValueError, Exception):
        return None
'''


@pytest.fixture
def sample(tmp_path: Path) -> SourceFile:
    path = tmp_path / "sample.py"
    path.write_text(SAMPLE)
    return measure(path)


def test_tokens_are_names_operators_numbers_and_strings_on_the_line_where_they_begin(
    tmp_path: Path,
) -> None:
    path = tmp_path / "short.py"
    path.write_text('"""One\ntoken."""\n\n# none\nvalue = f"{a} {b}" + \'c\'  # none\n')
    counted = measure(path)
    # The docstring is one; `value`, `=`, the f-string, `+` and the string are five more.
    assert (counted.tokens, counted.code_lines) == (6, 2)
    assert counted.tokens_per_line == 3.0


def test_lines_and_comments(sample: SourceFile) -> None:
    assert sample.lines == len(SAMPLE.splitlines())
    assert sample.comment_lines == 2
    assert sample.code_lines == 21
    assert sample.long_lines == 0


def test_a_line_of_101_characters_is_long(tmp_path: Path) -> None:
    path = tmp_path / "wide.py"
    path.write_text("#" * 100 + "\n" + "#" * 101 + "\n")
    assert measure(path).long_lines == 1


def test_expressions_and_broad_excepts(sample: SourceFile) -> None:
    assert sample.comprehensions == 1
    assert sample.conditional_expressions == 1
    assert sample.broad_excepts == 1


def test_complexity_and_length_of_each_function(sample: SourceFile) -> None:
    found = {one.name: (one.complexity, one.length) for one in sample.functions}
    # area: 1, the if, `and`, `or`, the comprehension with its if, the conditional expression.
    # outer: 1, one case of two, the except; what inner does is its own.
    assert found == {"area": (7, 4), "outer": (3, 13), "inner": (2, 3)}
    assert sample.mean_complexity == 4.0


def test_a_file_without_functions_has_complexity_one(tmp_path: Path) -> None:
    path = tmp_path / "table.py"
    path.write_text("A = 1\n")
    assert measure(path).hardness == 3.0


def test_only_public_classes_can_be_repeated(sample: SourceFile, tmp_path: Path) -> None:
    assert sample.public_classes == ("Shape",)
    other = tmp_path / "other.py"
    other.write_text("class Shape: ...\nclass Lone: ...\nclass _Hidden: ...\n")
    files = [sample, measure(other)]
    repeated = repeated_class_names(files)
    assert list(repeated) == ["Shape"]
    # Two of three definitions carry a name that is defined elsewhere too.
    share = totals(files, repeated)["repeated_class_names_percent"]
    assert share == pytest.approx(200 / 3)


def test_totals_are_shares_of_all_files_together(sample: SourceFile, tmp_path: Path) -> None:
    path = tmp_path / "table.py"
    path.write_text("A = 1\n")
    found = totals([sample, measure(path)], [])
    assert found["code_lines"] == 22
    assert found["comprehensions_per_1000"] == pytest.approx(1000 / 22)
    assert found["mean_complexity"] == 4.0
    assert set(found) == {figure.key for figure in FIGURES}


def test_percentiles() -> None:
    assert percentile([], 95) == 0
    assert [percentile(range(1, 21), at) for at in (50, 95, 100)] == [10, 19, 20]


def a_floor(home: Path, **modules: str) -> Path:
    """A package `floor`; `a__b` is the module `a/b.py`."""
    for name, text in modules.items():
        path = home / "floor" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return home / "floor"


def test_cycles_and_arrows_up_between_rooms(tmp_path: Path) -> None:
    folder = a_floor(
        tmp_path,
        web__pages="from floor.store import tables\nimport floor.store.rows\n",
        web__forms="from floor.web.pages import page\n",
        store__tables="def later():\n    from ..queue import order\n",
        queue__order="from floor import store, settings\n",
        settings="import json\n",
    )
    arrows = unit_arrows(folder)
    expected = {"web": {"store"}, "store": {"queue"}, "queue": {"store", "settings"}}
    assert arrows == {**expected, "settings": set()}
    found = shape(folder, parse_order("web > queue > store"))
    assert (found.units, found.arrows) == (4, 4)
    assert found.largest_cycle == ("queue", "store")
    assert found.up == (("store", "queue"),)
    assert found.not_in_order == ("settings",)
    assert shape(folder, []).up is None


@pytest.mark.parametrize(
    "contract",
    [
        'layers = ["floor.web", "floor.queue | floor.store", "(floor.settings)"]',
        'containers = ["floor"]\nlayers = ["web", "queue | store", "(settings)"]',
    ],
)
def test_the_order_is_that_of_the_import_contracts(tmp_path: Path, contract: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(f'[[tool.importlinter.contracts]]\ntype = "layers"\n{contract}\n')
    assert order_from_contracts(path, "floor") == [["web"], ["queue", "store"], ["settings"]]
    assert order_from_contracts(path, "other") == []


def test_rooms_are_the_folders_there_are(tmp_path: Path) -> None:
    folder = a_floor(tmp_path, alone="A = 1\n", web__pages="B = 2\n", web__deep__forms="C = 3\n")
    rooms = {room.name: len(room.files) for room in rooms_of("floor", tmp_path, measured(folder))}
    assert rooms == {"floor": 3, "floor/*.py": 1, "floor/web": 2}


def test_starlette_and_httpx_measure_as_the_targets_were_chosen() -> None:
    found = {}
    for package in ("starlette", "httpx"):
        found[package] = totals(measured(installed(package)), [])["tokens_per_code_line"]
    assert found == {"starlette": pytest.approx(7.5, abs=0.2), "httpx": pytest.approx(6, abs=0.2)}


def test_the_table_holds_every_room_and_marks_what_misses_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "COMPARED_WITH", ("starlette",))
    a_floor(tmp_path, alone="A = 1\n", web__pages="B = [c for c in range(3) if c]  # 14 tokens\n")
    packages = 'packages = ["floor", "missing"]'
    (tmp_path / "pyproject.toml").write_text(f"[tool.hatch.build.targets.wheel]\n{packages}\n")
    seen = house.look(tmp_path, {}, hardest=1)
    assert [row.name for row in seen.rows] == [
        "floor",
        "floor/*.py",
        "floor/web",
        "product",
        "starlette",
    ]
    assert [file.path.name for file in seen.hardest] == ["pages.py"]
    lines = {line.split()[0]: line for line in house.table(seen.rows)}
    assert "14.00*" in lines["floor/web"]
    assert "3.00 " in lines["floor/*.py"]
    assert "<=7.5" in lines["target"]
