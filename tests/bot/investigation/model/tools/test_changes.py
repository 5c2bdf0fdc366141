"""The list of changes: which are nearest to the alert, and what is said of each."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.bot.investigation.model.tools.changes import (
    LONGEST_DIFF,
    MOST_LINES,
    DiffLine,
    diff_lines,
)
from faultline.bot.investigation.model.tools.contract import MOST_ROWS
from tests.bot.investigation.model.tools.conftest import Desk
from tests.scenarios.small_case import STARTED

PROVENANCE = 1
"""The first line of every result."""


@pytest.fixture(scope="module")
def folder(rich_case: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(rich_case, tmp_path_factory.mktemp("changes") / "case")


def change(name: str, minutes: float, **more: Any) -> dict[str, Any]:
    time = (STARTED + timedelta(minutes=minutes)).isoformat()
    common = {"service": "checkout", "kind": "deploy", "title": name}
    return {"time": time, "id": name, **common, **more}


def desk_with(folder: Path, work: Path, *changes: dict[str, Any]) -> Desk:
    (folder / "changes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changes))
    return Desk(folder, work)


def test_the_nearest_on_either_side_of_the_alert_come_newest_first(
    folder: Path, tmp_path: Path
) -> None:
    changes = [change(f"before{n}", -n) for n in range(1, MOST_ROWS)]
    # After the alert, as near as the second and the third before it.
    changes += [change("after2", 1.5), change("after3", 2.5)]
    rows = desk_with(folder, tmp_path, *changes).rows("changes")
    assert len(rows) == PROVENANCE + MOST_ROWS + 1
    assert [row.split(" of ")[0].split()[-1] for row in rows[1:4]] == [
        "after3",
        "after2",
        "before1",
    ]
    assert f"before{MOST_ROWS - 2} " in rows[-2]
    assert rows[-1] == "cut: 1 further from the alert; narrow with service"


def test_as_many_as_are_shown_leave_none_out(folder: Path, tmp_path: Path) -> None:
    changes = [change(f"v{n}", -n) for n in range(1, MOST_ROWS + 1)]
    rows = desk_with(folder, tmp_path, *changes).rows("changes")
    assert len(rows) == PROVENANCE + MOST_ROWS
    assert "cut" not in rows[-1]


def test_a_row_says_who_changed_what_and_how_long_its_diff_is(folder: Path, tmp_path: Path) -> None:
    desk = desk_with(
        folder,
        tmp_path,
        change("v3", -1, author="jo", diff="-a\n+b", title="Faster"),
        change("v2", -2, service=None),
    )
    _, full, bare = desk.rows("changes")
    assert "deploy v3 of checkout by " in full
    assert ", diff of 2 lines" in full
    assert full.endswith('"Faster"')
    assert "deploy v2 of no service, no diff" in bare
    details = desk.cited(full).details
    assert isinstance(details, ObservationDetails)
    assert (details.change, details.quote) == ("v3", "Faster")


def test_one_service_s_changes_are_listed_alone(folder: Path, tmp_path: Path) -> None:
    desk = desk_with(folder, tmp_path, change("v2", -1), change("w1", -2, service="web"))
    assert [row for row in desk.rows("changes", service="web")[1:] if "w1" not in row] == []
    assert "no change of cart" in desk.error("changes", service="cart")


def test_an_id_that_begins_several_changes_is_refused(folder: Path, tmp_path: Path) -> None:
    desk = desk_with(folder, tmp_path, change("v21", -1), change("v22", -2))
    assert "several changes begin so" in desk.error("changes", id="v2")
    assert "no change of this id" in desk.error("changes", id="w")


def test_the_longest_diff_of_several_sources_is_read(folder: Path, tmp_path: Path) -> None:
    desk = desk_with(
        folder,
        tmp_path,
        change("v2", -1, diff="+short", files="a.py"),
        change("v2", -2, diff="+long\n+longer", files="a.py, b.py"),
    )
    _, *heads, first, second = desk.rows("changes", id="v2")
    assert [head.partition("; files ")[2].split(' "')[0] for head in heads] == [
        "a.py",
        "a.py, b.py",
    ]
    assert (first.endswith('"long"'), second.endswith('"longer"')) == (True, True)


def test_a_long_diff_is_read_on_from_a_line(folder: Path, tmp_path: Path) -> None:
    diff = "\n".join(f"+line {n}" for n in range(1, MOST_LINES + 3))
    desk = desk_with(folder, tmp_path, change("v2", -1, diff=diff))
    rows = desk.rows("changes", id="v2")
    assert f'"line {MOST_LINES}"' in rows[-2]
    following = MOST_LINES + 1
    assert rows[-1] == f"cut: 2 more lines; from_line={following}, or contains"
    more = desk.rows("changes", id="v2", from_line=following)
    assert [row.split('"')[1] for row in more[2:]] == ["line 81", "line 82"]
    assert len(desk.rows("changes", id="v2", from_line=3)) == 2 + MOST_LINES


def test_a_diff_is_read_up_to_a_limit(folder: Path, tmp_path: Path) -> None:
    diff = f"+{'x' * (LONGEST_DIFF - 1)}\n+y"
    rows = desk_with(folder, tmp_path, change("v2", -1, diff=diff)).rows("changes", id="v2")
    assert len(rows) == PROVENANCE + 2


def test_lines_of_a_diff_know_their_file_and_side() -> None:
    diff = """diff --git a/old.py b/new.py
index 123..456 100644
--- a/old.py
+++ b/new.py
@@ -1,3 +1,3 @@
 same
--- a comment of SQL
+added

--- a/gone.py
+++ /dev/null
-removed
bare"""
    assert list(diff_lines(diff)) == [
        DiffLine(6, "new.py", "unchanged", "same"),
        DiffLine(7, "new.py", "removed", "-- a comment of SQL"),
        DiffLine(8, "new.py", "added", "added"),
        DiffLine(12, "gone.py", "removed", "removed"),
        DiffLine(13, "gone.py", "unchanged", "bare"),
    ]


def test_a_name_of_a_file_stands_on_the_first_two_lines_too() -> None:
    assert [line.file for line in diff_lines("--- a/x.py\n+++ b/x.py\n+y")] == ["x.py"]
    # Neither is a name of a file without the other.
    assert [line.side for line in diff_lines("+++ b/x.py\n--- a/x.py")] == ["added", "removed"]
