"""Temporary files of processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from faultline.bot.runtime.scratch import LOCK_NAME, MADE_WITHIN_S, PREFIX, Scratch

HOLDER = """
import sys, tempfile, time
from faultline.bot.runtime.scratch import Scratch
scratch = Scratch()
tempfile.mkdtemp(prefix="faultline-collect-")
print(tempfile.gettempdir(), flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary files are made."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_what_a_killed_process_left_the_next_one_removes(root: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        assert [path.name for path in left.iterdir() if path.is_dir()], (
            "what it works on lies in it"
        )
        Scratch().remove()
        assert left.is_dir(), "it still works"
        process.send_signal(signal.SIGKILL)
        process.wait()
    scratch = Scratch()
    assert list(root.iterdir()) == [Path(tempfile.gettempdir())]
    scratch.remove()
    assert list(root.iterdir()) == []


def test_temporary_files_of_children_lie_in_it_too(root: Path) -> None:
    scratch = Scratch()
    ask = [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"]
    own = Path(tempfile.gettempdir())
    assert own.parent == root
    assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip() == str(
        own
    )
    scratch.remove()
    assert tempfile.gettempdir() == str(root)
    assert os.environ["TMPDIR"] == str(root)


def test_one_that_is_being_made_is_left_alone(root: Path) -> None:
    young, old = root / f"{PREFIX}young", root / f"{PREFIX}old"
    young.mkdir()
    old.mkdir()
    long_ago = time.time() - 2 * MADE_WITHIN_S
    os.utime(old, (long_ago, long_ago))
    Scratch().remove()
    assert [path.name for path in root.iterdir()] == [young.name]


def test_nothing_is_removed_through_a_link(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").touch()
    (elsewhere / LOCK_NAME).touch()
    (root / f"{PREFIX}link").symlink_to(elsewhere)
    Scratch().remove()
    assert (elsewhere / "kept").exists()


def test_without_a_place_the_process_works_on_where_files_were_made_before(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    scratch = Scratch()
    assert tempfile.gettempdir() == str(root)
    assert "No space left" in caplog.text
    scratch.remove()
    assert tempfile.gettempdir() == str(root)
