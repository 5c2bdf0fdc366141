"""The check of names: what names nothing is found, and what is allowed can only shrink."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from infra.checks import names
from infra.checks.definitions import Definitions, definitions, words_of
from infra.checks.product_files import dotted_names, python_files, shipped_folders

RULES = '[words]\nfound = "the thing found"\none = "the thing itself"\n'
NOTHING_ALLOWED = "[totals]\nover_15 = 0\nused_once = 0\n"


def read(source: str) -> Definitions:
    return definitions(ast.parse(source), {"found", "one", "kept"})


def visible(source: str) -> list[str]:
    return [definition.path for definition in read(source).visible]


def local(source: str) -> list[str]:
    return [definition.path for definition in read(source).local]


class Project:
    """A small project, and what the check prints about it."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.capsys = capsys
        self.rules = home / "names.toml"

    def write(self, file: str, source: str) -> None:
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)

    def allow(self, counts: str, totals: str = NOTHING_ALLOWED) -> None:
        self.rules.write_text(f"{RULES}\n{totals}\n{counts}")

    def totals(self, complex_functions: int) -> str:
        return f"[totals]\nover_15 = {complex_functions}\nused_once = 0\n"

    def check(self, *, update: bool = False) -> list[str]:
        status = names.check(self.home, self.rules, update=update)
        lines = self.capsys.readouterr().out.splitlines()
        assert status == (1 if lines else 0)
        return lines


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    return Project(tmp_path, capsys)


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("def read_found(): ...", "read_found"),
        ("class FoundRows: ...", "FoundRows"),
        ("class Reader:\n    def found(self): ...", "Reader.found"),
        ("class Reader:\n    found: int", "Reader.found"),
        ("class Reader:\n    def read(self):\n        self.found = 1", "Reader.found"),
        ("class Reader:\n    def read(self, *, found): ...", "Reader.read.found"),
        ("def read(found): ...", "read.found"),
        ("def read(*found, **kept): ...", "read.found read.kept"),
        ("ROWS_FOUND = 1", "ROWS_FOUND"),
        ("import rows as found", "found"),
    ],
)
def test_names_visible_outside_a_function(source: str, path: str) -> None:
    assert visible(source) == path.split()
    assert local(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "for one in rows: pass",
        "[one for one in rows]",
        "one = 1",
        "with rows as one: pass",
        "read(lambda one: 1)",
        "def one(): pass",
        "try:\n        pass\n    except OSError as one: pass",
        "match rows:\n        case [*one]: pass",
        "match rows:\n        case {**one}: pass",
        "match rows:\n        case int() as one: pass",
        "import rows as one",
        "if (one := rows): pass",
        "def inner(one): pass",
    ],
)
def test_names_inside_a_function_are_local(source: str) -> None:
    assert [path.rsplit(".", 1)[-1] for path in local(f"def read(rows):\n    {source}")] == ["one"]
    assert visible(f"def read(rows):\n    {source}") == []


@pytest.mark.parametrize(
    "source",
    [
        "def read(phone, foundry): ...",
        "def read(row):\n    row.found = other.found(one=1)",
        "from rows import found",
        "def read():\n    found_rows = 1",
        '"""found one"""',
        "KEPTIES = print(found)",
    ],
)
def test_uses_and_other_words_are_no_definitions(source: str) -> None:
    assert (visible(source), local(source)) == ([], [])


def test_a_field_counts_once_however_often_it_is_assigned() -> None:
    source = (
        "class A:\n    def b(self):\n        self.one = 1\n    def c(self):\n        self.one = 2"
    )
    assert [(each.path, each.line) for each in read(source).visible] == [("A.one", 3)]


def test_words_of_compounds() -> None:
    assert words_of("_read_held") == ["read", "held"]
    assert words_of("HTTPFoundRows") == ["http", "found", "rows"]
    assert words_of("ROWS_KEPT_2") == ["rows", "kept"]


def test_private_functions_used_once() -> None:
    source = (
        "def _once(): ...\ndef _twice(): ...\ndef _never(): ...\n"
        "class A:\n    def _method(self): self._method()\n"
        "def both():\n    _once()\n    return f'{_twice()} {_twice}'\n"
    )
    assert sorted(read(source).private) == ["_never", "_once", "_twice"]
    assert read(source).used_once == {"_once": 1}


def test_a_problem_names_file_line_name_and_what_to_write(project: Project) -> None:
    project.write("room/rows.py", "A = 1\ndef read(found_rows):\n    one = 1\n")
    project.allow("")
    assert project.check() == [
        "room/rows.py:2 read.found_rows: `found_rows` says `found`, which names nothing; "
        "write the thing found",
        "room/rows.py:3 read.one: `one` names nothing; write the thing itself",
    ]


def test_the_name_of_a_module_or_package_is_checked(project: Project) -> None:
    project.write("room/found_rows.py", "")
    project.write("found/__init__.py", "")
    project.allow("")
    places = [line.split(":", 1)[0] for line in project.check()]
    assert places == ["found/__init__.py", "room/found_rows.py"]


def test_tests_links_and_hidden_folders_are_left_out(project: Project) -> None:
    project.write("tests/test_rows.py", "found = 1")
    project.write(".tools/rows.py", "found = 1")
    project.write("room/rows.py", "")
    (project.home / "again").symlink_to(project.home / "room")
    project.allow("")
    assert project.check() == []
    assert python_files(project.home) == ["room/rows.py"]


def test_git_names_the_files_where_there_is_a_repository(project: Project) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project.home, check=True)
    project.write(".gitignore", "built/\n")
    project.write("built/rows.py", "")
    project.write("room/rows.py", "")
    assert python_files(project.home) == ["room/rows.py"]


def test_a_visible_name_may_stay_for_a_reason(project: Project) -> None:
    project.write("room/rows.py", "def read(found): ...\n")
    project.allow('[allowed]\n"room/rows.py:read.found" = "a vendor\'s keyword"\n')
    assert project.check() == []
    project.write("room/rows.py", "def read(rows): ...\n")
    (line,) = project.check()
    assert line.endswith("room/rows.py:read.found, which is not there: remove it from [allowed]")


def test_a_term_of_the_field_may_hold_such_a_word(project: Project) -> None:
    project.write("room/rows.py", "class Row:\n    first_found_at = 1\n    firstFound = 1\n")
    project.allow('[terms]\nfirst_found = "a vendor\'s field"\n')
    assert project.check() == []
    project.write("room/rows.py", "def read(found_first): ...\n")
    (line,) = project.check()
    assert line.startswith("room/rows.py:1 read.found_first: ")


def branching(name: str, branches: int) -> str:
    return f"def {name}(rows):\n" + "    if rows: pass\n" * branches


def test_functions_over_complexity_20_are_named(project: Project) -> None:
    project.write("rows.py", "class Rows:\n    " + branching("read", 20).replace("\n", "\n    "))
    project.allow("", "[totals]\nover_15 = 1\nused_once = 0\n")
    (line,) = project.check()
    assert line.startswith("rows.py:2 Rows.read: complexity 21, over 20: ")
    project.allow('[complexity]\n"rows.py:Rows.read" = 21\n', project.totals(1))
    assert project.check() == []


def test_an_allowed_complexity_can_only_fall(project: Project) -> None:
    project.write("rows.py", branching("read", 20) + branching("write", 19))
    allowed = '[complexity]\n"rows.py:read" = 22\n"rows.py:write" = 21\n'
    project.allow(allowed, project.totals(2))
    assert project.check() == [
        "names.toml allows rows.py:read a complexity of 22: lower it to 21",
        "names.toml allows rows.py:write a complexity of 21: remove it",
    ]
    assert project.check(update=True) == []
    assert project.rules.read_text().endswith('[complexity]\n"rows.py:read" = 21\n')
    project.write("rows.py", branching("read", 21) + branching("write", 19))
    (line,) = project.check(update=True)
    assert line.startswith("rows.py:1 read: complexity 22, over 21")


def test_functions_over_complexity_15_are_counted(project: Project) -> None:
    project.write("rows.py", branching("simple", 14) + branching("hard", 15))
    project.allow("", project.totals(0))
    (line,) = project.check()
    assert line.startswith("1 functions over complexity 15, at most 0 may be there")
    names.list_complex(names.read_files(project.home, frozenset()))
    assert project.capsys.readouterr().out == "rows.py:16 hard 16\n"
    project.allow("", project.totals(1))
    assert project.check() == []


def test_totals_can_only_fall(project: Project) -> None:
    project.write("rows.py", "def _read(): ...\n_read()\n")
    project.allow("", "[totals]\nover_15 = 3\nused_once = 0\n")
    lines = project.check(update=True)
    assert [line.split(",")[0] for line in lines] == [
        "1 private functions that their file uses once"
    ]
    names.list_used_once(names.read_files(project.home, frozenset()))
    assert project.capsys.readouterr().out == "rows.py:1 _read\n"
    assert "over_15 = 0\nused_once = 0\n" in project.rules.read_text()


def test_shipped_folders_are_those_that_links_lead_to_as_well(tmp_path: Path) -> None:
    for folder in ("product", "analysis", "extra"):
        (tmp_path / folder).mkdir()
    (tmp_path / "product" / "analysis").symlink_to("../analysis")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.hatch.build.targets.wheel]\npackages = ["product", "missing"]\n'
        '[tool.hatch.build.targets.wheel.force-include]\nextra = "product/extra"\n'
    )
    assert shipped_folders(tmp_path) == ["product", "extra", "analysis"]
    assert dotted_names(tmp_path / "analysis") == ("analysis", "product.analysis")
    assert dotted_names(tmp_path / "extra") == ("extra",)


def test_the_project_keeps_to_it() -> None:
    command = [sys.executable, "-m", "infra.checks.names"]
    run = subprocess.run(command, cwd=names.HOME, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "")
