"""Which tests a mutation runs where a record says which test executes which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutants.executed_lines import ExecutedLines, record
from benchmarks.mutants.modules import ProjectModules
from benchmarks.mutants.mutation import Mutation
from benchmarks.mutants.nearest_tests import chosen_tests, nearest_tests
from benchmarks.mutants.sample import Sampler

FAR = "tests/desk/test_desk.py"
PROGRAM = "tests/desk/test_program.py"
MORE = {
    "shop/prices.py": (
        "def price(item, count):\n"
        "    if (\n"
        "        count\n"
        "        >= 10\n"
        "    ):\n"
        "        return item * count - 5\n"
        "    return item * count\n"
        "\n"
        "\n"
        "def refund(item):\n"
        "    return item - 1\n"
    ),
    "shop/desk.py": (
        "from shop.orders import total\n\n\ndef bill(*order):\n    return total(order)\n"
    ),
    "tests/desk/__init__.py": "",
    FAR: (
        "from shop.desk import bill\n"
        "\n"
        "\n"
        "def test_ten_are_cheaper():\n"
        "    assert bill(2, 10) == 16\n"
    ),
    PROGRAM: (
        "import subprocess\n"
        "import sys\n"
        "\n"
        "\n"
        "def test_a_program_pays():\n"
        "    program = 'from shop import desk; desk.bill(2, 10)'\n"
        "    subprocess.run([sys.executable, '-c', program], check=True)\n"
    ),
}


@pytest.fixture
def modules(project: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectModules:
    """The tiny project with a desk, whose tests are in another room."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for path, text in MORE.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    (project / "tests/shop/test_broken.py").unlink()
    return ProjectModules(project)


def mutation(modules: ProjectModules, line: int, kind: str) -> Mutation:
    return Sampler(modules).at("shop/prices.py", line, kind)[0]


def test_the_tests_are_those_that_execute_the_statement(
    modules: ProjectModules, tmp_path: Path
) -> None:
    record(modules, tmp_path / "lines", [])
    executed = ExecutedLines(modules, tmp_path / "lines")
    near = nearest_tests(modules, "shop/prices.py")
    assert near == [
        "tests/shop/test_prices.py",
        "tests/shop/test_orders.py",
        "tests/shop/test_turns.py",
    ]

    def chosen(line: int, kind: str) -> list[str]:
        return chosen_tests(modules, mutation(modules, line, kind), executed)

    # The head of a block takes four lines; a test that starts a program executes what that does.
    assert chosen(4, "comparison") == [*near[:2], FAR, PROGRAM]
    # Two buy less than ten.
    assert chosen(6, "sign") == [near[0], FAR, PROGRAM]
    # What no test executes was perhaps executed where nothing is recorded.
    assert chosen(11, "sign") == near
    assert chosen_tests(modules, mutation(modules, 6, "sign"), None) == near


def test_what_changed_since_is_taken_for_more_than_the_record_says(
    modules: ProjectModules, tmp_path: Path
) -> None:
    record(modules, tmp_path / "lines", [])
    turns = "tests/shop/test_turns.py"
    (modules.root / turns).write_text("def test_that_is_new():\n    pass\n")
    (modules.root / PROGRAM).unlink()
    now = ProjectModules(modules.root)
    executed = ExecutedLines(now, tmp_path / "lines")
    assert chosen_tests(now, mutation(now, 6, "sign"), executed) == [
        "tests/shop/test_prices.py",
        turns,
        FAR,
    ]
    (modules.root / "shop/prices.py").write_text("\n" + MORE["shop/prices.py"])
    now = ProjectModules(modules.root)
    assert chosen_tests(now, mutation(now, 7, "sign"), executed) == [
        "tests/shop/test_prices.py",
        "tests/shop/test_orders.py",
        turns,
        FAR,
    ]
