"""`benchmarks/mutations.py` from its command line to its tables, on a tiny project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.mutants.modules import ProjectModules
from benchmarks.mutants.mutation import Mutation
from benchmarks.mutants.sample import Sampler
from benchmarks.mutants.working_copy import WorkingCopy

ROOT = Path(__file__).resolve().parents[3]


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(ROOT / "benchmarks/mutations.py"), "--root", str(project)]
    # The tiny project's tests need no plugin, and each would be loaded for each mutation.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*program, *arguments], capture_output=True, text=True, check=True, env=environment
    )


def test_all_mutations_of_a_project_are_tried_once(project: Path, tmp_path: Path) -> None:
    (project / "shop/turns.py").unlink()
    (project / "tests/shop/test_turns.py").unlink()
    before = {path: path.read_bytes() for path in project.rglob("*.py")}
    results = tmp_path / "results.jsonl"
    done = run(project, "--count", "1000", "--results", str(results))
    outcomes = {}
    for line in map(json.loads, results.read_text().splitlines()):
        if "trial" in line:
            mutation = Mutation(**line["trial"]["mutation"])
            outcome = line["trial"]["outcome"], line["trial"]["caught_by"]
            outcomes[mutation.place, mutation.replacement] = outcome

    # No test buys nine, ten or eleven.
    assert outcomes["shop/prices.py:2:comparison", ">"] == ("survived", "")
    assert "shop/prices.py:2:comparison\n  - if count >= 10:\n  + if count > 10:\n" in done.stdout
    test = "tests/shop/test_prices.py::test_many_are_cheaper"
    assert outcomes["shop/prices.py:3:sign", "+"] == ("caught", test)
    # Only the test of another module notices that this one fails.
    test = "tests/shop/test_orders.py::test_post_is_added"
    assert outcomes["shop/orders.py:5:sign", "-"] == ("caught", test)
    caught = [place for place, (outcome, _) in outcomes.items() if outcome == "caught"]
    total = f"{len(caught)} / {len(outcomes)} mutations caught (95 % interval "
    assert total in done.stdout
    # What fails without a mutation notices nothing, and is named.
    assert "fails without a mutation: tests/shop/test_broken.py" in done.stdout
    assert "mutation: tests/shop/test_orders.py::test_that_fails_in_any_case" in done.stdout
    # The working tree is as it was.
    assert {path: path.read_bytes() for path in project.rglob("*.py")} == before

    written = results.read_text()
    again = run(project, "--count", "1000", "--results", str(results), "--json")
    document = json.loads(again.stdout)
    assert (document["caught"], document["all"]) == (len(caught), len(outcomes))
    assert again.stderr == ""
    assert results.read_text() == written


def test_a_program_that_hangs_is_stopped(project: Path, tmp_path: Path) -> None:
    (endless,) = Sampler(ProjectModules(project)).at("shop/turns.py", 3, "statement")
    copy = WorkingCopy(project, tmp_path / "copy")
    with copy.mutated(endless):
        assert copy.run(["tests/shop/test_turns.py"], timeout_s=3).status is None
    done = copy.run(["tests/shop/test_turns.py"], timeout_s=60)
    copy.close()
    assert done.is_green
    assert {result.test for result in done.results} == {
        "tests/shop/test_turns.py::test_it_comes_to_rest"
    }
