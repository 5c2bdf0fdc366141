"""Rows of changes from code hosts: kinds by path, diffs within limits, services of a shared
repository."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.changes.text import read_change_text
from faultline.connectors.shared.changes.code_changes import (
    DIFF_LENGTH,
    DIFFS_LENGTH,
    LINE_LENGTH,
    PATCH_LENGTH,
    ChangeRows,
    CodeChange,
    CodeComparison,
    DiffBudget,
    FileChange,
    Rollout,
    diff_of,
    kind_of,
    listed_paths,
)

AT = datetime(2026, 3, 2, 11, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("paths", "kind"),
    [
        (["db/migrate/20260302_add_index.rb", "app/models/cart.rb"], "migration"),
        (["shop/migrations/0042_auto.py"], "migration"),
        (["sql/V12__add_column.sql"], "migration"),
        (["migrate/000001_x.up.sql"], "migration"),
        (["config/feature_flags/new_cart.yml"], "flag"),
        (["flags.goff.yaml", "README.md"], "flag"),
        (["charts/cart/values-prod.yaml", "docs/cart.md"], "config"),
        (["terraform/cart/main.tf"], "config"),
        (["src/main/resources/application-prod.yml"], "config"),
        (["config/app.yaml", "src/cart.py"], None),
        (["src/config/loader.py"], None),
        (["docs/config/app.yaml"], None),
        ([".github/workflows/deploy.yml"], None),
        ([], None),
    ],
)
def test_paths_tell_the_kind_of_a_change(paths: list[str], kind: str | None) -> None:
    assert kind_of(paths) == kind


def test_a_diff_is_cut_by_file_by_change_and_in_all_and_says_so() -> None:
    long = "".join(f"+line {n}\n" for n in range(10_000))
    budget = DiffBudget()
    diff = diff_of(
        [FileChange("README.md", "+docs\n"), *(FileChange(f"src/{n}.py", long) for n in range(9))],
        budget,
    )
    assert diff is not None
    assert len(diff) < DIFF_LENGTH + 1000
    assert diff.startswith("--- a/src/0.py\n+++ b/src/0.py\n+line 0\n")
    assert "(cut here, after " in diff
    assert all(len(part) < PATCH_LENGTH + 200 for part in diff.split("--- a/"))
    assert (
        budget.summary()
        == f"{budget.shortened} diffs shortened; the diffs of {budget.left_out} files left out"
    )
    assert budget.shortened + budget.left_out >= 9
    spent = DiffBudget(left=0)
    assert diff_of([FileChange("a.py", "+x")], spent) is None
    assert (spent.left_out, DIFFS_LENGTH) == (1, 1_000_000)


def test_a_line_of_a_megabyte_is_cut() -> None:
    diff = diff_of([FileChange("a.min.py", "+" + "x" * 1_000_000)], budget := DiffBudget())
    assert diff is not None
    assert len(diff) < 2 * LINE_LENGTH
    assert budget.shortened == 1


def test_secrets_in_files_made_for_them_and_private_keys_are_never_taken() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n-MIIEabc\n-DEFG\n------END RSA PRIVATE KEY-----\n"
    files = [
        FileChange("prod.env", "+a=1"),
        FileChange(".env", "+TOKEN=1"),
        FileChange("a.py", f"@@\n-{key}+after\n"),
    ]
    diff = diff_of(files, DiffBudget())
    assert diff is not None
    assert "TOKEN" not in diff
    assert "MIIE" not in diff
    assert "DEFG" not in diff
    assert "+after" in diff


def test_paths_left_out_are_an_entry_so_that_a_cut_list_is_not_taken_for_documentation_alone() -> (
    None
):
    shown = listed_paths([f"docs/{n}.md" for n in range(500)] + ["src/a.py"])
    assert shown[0] == "src/a.py"
    assert shown[-1] == "(and 201 more files)"
    assert not read_change_text("", json.dumps(listed_paths(["docs/a.md"], None)), None).harmless


def test_a_change_that_was_carried_stands_at_its_rollout_and_one_that_was_not_at_its_merge() -> (
    None
):
    rows = ChangeRows(("cart",))
    change = CodeChange(
        "a" * 40, "Pool", AT, "dana", "https://x/1", 1, frozenset(), (FileChange("a.py", "+x"),)
    )
    rollout = Rollout("b" * 40, "production", AT + timedelta(hours=1), "Deployment")
    rows.add_change(change, rollout)
    rows.add_change(CodeChange("c" * 40, "Later", AT), None)
    table = conform(rows.table(), "changes", "changes")
    assert table.sort("time").select("id", "kind", "time", "service").rows() == [
        ("c" * 40, "merge", AT, "cart"),
        ("a" * 40, "deploy", AT + timedelta(hours=1), "cart"),
    ]


def test_a_rollout_has_its_own_row_unless_a_deployed_change_is_its_revision() -> None:
    rollout = Rollout("a" * 40, "production", AT, "Deployment of main to production", author="bot")
    rows = ChangeRows(("cart",))
    rows.add_change(CodeChange("a" * 40, "Pool", AT), rollout)
    rows.add_rollout(rollout, CodeComparison(paths=("a.py",)))
    assert rows.table()["title"].to_list() == ["Pool"]
    rows = ChangeRows(("cart",))
    rows.add_change(CodeChange("a" * 40, "Pool", AT, files=(FileChange("config/a.yaml"),)), rollout)
    rows.add_rollout(rollout, CodeComparison(paths=("a.py",), goes_back=3))
    assert rows.table().select("kind", "title").rows() == [
        ("config", "Pool"),
        (
            "deploy",
            "Deployment of main to production (back to an earlier revision; 3 commits taken out)",
        ),
    ]


def test_in_a_shared_repository_a_change_is_of_the_services_it_names_else_of_all() -> None:
    rows = ChangeRows(("cart", "checkout"))
    named = CodeChange("a" * 40, "Faster", AT, files=(FileChange("services/cart/main.go"),))
    rows.add_change(named, None)
    rows.add_change(
        CodeChange("b" * 40, "Bump the shared library", AT, files=(FileChange("lib/x.go"),)), None
    )
    assert sorted((r["id"][0], r["service"]) for r in rows.table().to_dicts()) == [
        ("a", "cart"),
        ("b", "cart"),
        ("b", "checkout"),
    ]


def test_a_change_that_names_a_neighbour_is_the_neighbours_too() -> None:
    rows = ChangeRows(("cart",), neighbours=("payments", "search"))
    files = (FileChange("services/payments/main.go"),)
    rows.add_change(CodeChange("a" * 40, "Faster", AT, files=files), None)
    assert sorted(rows.table()["service"].to_list()) == ["cart", "payments"]


def test_hostile_titles_and_paths_become_short_printable_text() -> None:
    rows = ChangeRows(("cart",))
    rows.add_change(
        CodeChange("a" * 40, "x\x1b[2J\n" * 500, AT, files=(FileChange("a\n\x00.py" * 200),)), None
    )
    (row,) = rows.table().to_dicts()
    assert len(row["title"]) <= 200
    assert row["title"].isprintable()
    assert all(len(path) <= 300 and path.isprintable() for path in json.loads(row["files"]))


def test_a_change_of_a_repository_that_is_nobodys_stands_without_a_service() -> None:
    rows = ChangeRows(())
    rows.add_change(CodeChange("a" * 40, "Pool", AT), None)
    assert rows.table()["service"].to_list() == [None]
