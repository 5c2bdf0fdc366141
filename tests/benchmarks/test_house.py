"""`benchmarks/house.py` counts what it says it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import house
from benchmarks.source_figures.imports import (
    file_arrows,
    most_imported,
    order_from_contracts,
    parse_order,
    shape,
    unit_arrows,
)
from benchmarks.source_figures.rooms import installed, measured, rooms_of
from benchmarks.source_figures.source_file import SourceFile, measure
from benchmarks.source_figures.totals import (
    FIGURES,
    NAMING,
    percentile,
    repeated_class_names,
    totals,
)
from benchmarks.source_figures.traced_run import counted, traced

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


def written(home: Path, name: str, source: str) -> SourceFile:
    path = home / name
    path.write_text(source)
    return measure(path)


def test_names_that_name_nothing_count_wherever_code_says_them(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "rows.py",
        '''"""One found row."""
for one in rows:  # found
    found = one.own + "kept"
    seen = f"{found} and {f'{one}'} known {row.told(asked=1)}"
found_rows = 1
''',
    )
    # one, found, one, own; in the f-string found, one, told, asked. `seen` is of the wide list.
    assert (file.empty_names, file.wide_names) == (8, 9)
    assert totals([file], [])["empty_names_per_1000"] == 1000 * 8 / 5


def test_visible_names_hold_such_a_word_and_so_does_a_module(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "held_rows.py",
        "class Rows:\n    def read(self, known_rows):\n        one = self.found = 1\n",
    )
    assert file.visible_names == 3
    assert written(tmp_path, "rows.py", "def read(phone):\n    one = 1\n").visible_names == 0


def test_private_functions_that_are_used_once(tmp_path: Path) -> None:
    source = "def _once(): ...\ndef _twice(): ...\n_once()\n_twice()\n_twice()\n"
    figures = totals([written(tmp_path, "rows.py", source)], [])
    assert figures["used_once_per_1000"] == 200
    assert figures["used_once_percent"] == 50


def test_dialect_counts_in_docstrings_alone(tmp_path: Path) -> None:
    source = '''"""Rows, of
    which nothing of use is left."""
NOTE = "nothing of it"  # of which


def read():
    """To whom it speaks."""
'''
    figures = totals([written(tmp_path, "rows.py", source)], [])
    # Three phrases in twelve words.
    assert figures["dialect_per_1000"] == 250


def test_statements_files_and_functions_over_each_limit(tmp_path: Path) -> None:
    branching = "def read(rows):\n" + "    if rows: a = 1\n" * 15
    files = [written(tmp_path, "rows.py", branching), written(tmp_path, "a.py", "a = 1\nb = 2\n")]
    figures = totals(files, [])
    assert (figures["complexity_over_15"], figures["complexity_over_20"]) == (1, 0)
    assert figures["lines_per_file"] == 9
    # The function is a statement, and each `if` with what it holds is two.
    assert figures["tokens_per_statement"] == pytest.approx((6 + 15 * 6 + 6) / 33)


def test_functions_over_the_limit_are_listed_the_most_complex_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "COMPARED_WITH", ())
    for name, branches in (("rows", 15), ("series", 17), ("spans", 14)):
        a_floor(tmp_path, **{name: f"def {name}(a):\n" + "    if a: pass\n" * branches})
    packages = 'packages = ["floor"]'
    (tmp_path / "pyproject.toml").write_text(f"[tool.hatch.build.targets.wheel]\n{packages}\n")
    measurement = house.look(tmp_path, {}, hardest=0)
    assert list(measurement.complex) == ["floor/series.py:1 series 18", "floor/rows.py:1 rows 16"]


def test_units_in_shared_and_vendors_count_for_themselves(tmp_path: Path) -> None:
    folder = a_floor(
        tmp_path,
        shared__http="import json\n",
        vendors__aws__logs="from floor.shared import http\n",
        vendors__jaeger__spans="from floor.vendors.aws.logs import rows\n",
        registry="from floor.vendors import aws\n",
    )
    (folder / "shared" / "__init__.py").write_text("")
    assert unit_arrows(folder) == {
        "registry": {"vendors.aws"},
        "shared.http": set(),
        "vendors.aws": {"shared.http"},
        "vendors.jaeger": {"vendors.aws"},
    }


def test_a_folder_behind_a_link_is_imported_by_both_names(tmp_path: Path) -> None:
    folder = a_floor(tmp_path, a__b="from floor.c import d\nfrom product.floor.e import f\n")
    a_floor(tmp_path, c="", e="")
    (tmp_path / "product").mkdir()
    (tmp_path / "product" / "floor").symlink_to("../floor")
    assert unit_arrows(folder)["a"] == {"c", "e"}
    arrows = file_arrows([folder])
    assert arrows[folder / "a" / "b.py"] == {folder / "c.py", folder / "e.py"}


def test_the_files_that_most_others_import(tmp_path: Path) -> None:
    folder = a_floor(
        tmp_path,
        a="from floor.room import rows\nfrom . import b\n",
        b="from floor.room.rows import Row\nimport floor.a\n",
        c="def later():\n    from floor.room.rows import Row, Rows\n    import floor.a\n",
        room__rows="",
    )
    names = [path.name for path in most_imported(file_arrows([folder]), 2)]
    assert names == ["rows.py", "a.py"]


def test_the_cycle_of_the_ground_counts_imports_for_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "GROUND", "floor")
    monkeypatch.setattr(house, "COMPARED_WITH", ("no_such_package",))
    later = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from floor.a import A\n"
    a_floor(tmp_path, a="from floor.b import found\n", b=later, c="import floor.a\n")
    packages = 'packages = ["floor"]'
    (tmp_path / "pyproject.toml").write_text(f"[tool.hatch.build.targets.wheel]\n{packages}\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("\n\n")
    measurement = house.look(tmp_path, {}, hardest=0)
    assert list(measurement.cycle) == ["floor/a.py", "floor/b.py"]
    # a is imported by two files, b by one: both are among the most imported. c is not.
    assert measurement.whole == {
        "product_lines": 5,
        "test_lines": 2,
        "connector_units": 0,
        "ground_cycle": 2,
        "common_names": 1,
        "common_wide": 1,
    }
    assert list(measurement.not_installed) == ["no_such_package is not installed: uv sync"]
    lines = list(house.whole_lines(measurement.whole))
    assert any(line.endswith("2* <=0") for line in lines)
    assert "visible" in next(house.table(measurement.rows, NAMING))


def test_one_run_counts_functions_in_all_threads_of_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """import json, threading
class Rows:
    def read(self):
        return [row for row in json.loads("[1]")]
def unused(): ...
def main():
    thread = threading.Thread(target=Rows().read)
    thread.start()
    thread.join()
    raise SystemExit(0)
"""
    (tmp_path / "traced_program.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.argv", [])
    run = counted(traced("traced_program:main", []), [tmp_path])
    # The class body, `read` and `main`.
    assert (run.files, run.functions) == (1, 3)
    assert counted({str(tmp_path / "rows.py"): ["1 read"]}, [tmp_path / "room"]).files == 0
