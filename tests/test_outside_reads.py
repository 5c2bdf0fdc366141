"""What a test may read: what it makes, what the project holds, what every machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import outside_reads
from tests.outside_reads import HOME_OF_PROJECT, OutsideReads


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, in which an earlier run left one, and a home beside it."""
    folder, home = tmp_path / "tmp", tmp_path / "home"
    (folder / "ray").mkdir(parents=True)
    (folder / "ray" / "session").write_text("")
    home.mkdir()
    (home / ".netrc").write_text("")
    monkeypatch.setattr(outside_reads.tempfile, "gettempdir", lambda: str(folder))
    monkeypatch.setenv("HOME", str(home))
    return folder


def paths_after(reads: OutsideReads, *paths: Path) -> list[str]:
    for path in paths:
        reads.hook("open", (str(path), "r", 0))
    return reads.taken()


def test_what_an_earlier_run_or_a_user_left_is_named(temporary: Path) -> None:
    left, netrc = temporary / "ray" / "session", temporary.parent / "home" / ".netrc"
    assert paths_after(OutsideReads(), netrc, left) == [str(netrc), str(left)]


def test_what_the_test_makes_or_the_project_holds_is_not(temporary: Path) -> None:
    reads = OutsideReads()
    made = temporary / "made"
    made.write_text("")
    assert paths_after(reads, made, HOME_OF_PROJECT / "README.md", Path("README.md")) == []


def test_a_folder_for_temporary_files_may_lie_in_the_home(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(temporary.parent))
    reads = OutsideReads()
    made = temporary / "made"
    made.write_text("")
    assert paths_after(reads, temporary, made, temporary / "ray") == [str(temporary / "ray")]


def test_what_is_not_there_is_there_on_no_machine(temporary: Path) -> None:
    assert paths_after(OutsideReads(), temporary.parent / "home" / ".aws" / "config") == []


def test_each_test_answers_for_itself(temporary: Path) -> None:
    reads = OutsideReads()
    assert paths_after(reads, temporary / "ray")
    assert reads.taken() == []
