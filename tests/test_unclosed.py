"""A file that a test leaves open is reported in this test, with the line that opened it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.lanes import ROOT

CONFTEST = """
from tests.unclosed import Unclosed


def pytest_configure(config):
    config.pluginmanager.register(Unclosed())
"""
TESTS = """
import gc
import pytest


class Circle:
    def __init__(self):
        self.me = self
        self.file = open(__file__)  # opened here


@pytest.fixture(scope="module")
def shared():
    return Circle()


@pytest.fixture
def opened():
    return Circle()


def test_opens(opened, shared):
    pass


def test_follows():
    pass


def test_collects():
    gc.collect()
"""


def test_what_a_test_leaves_open_is_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "pytest.ini", "-rE"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    errors = [line for line in run.stdout.splitlines() if line.startswith("ERROR")]
    blamed = [error.partition(" - ")[0].rpartition("::")[2] for error in errors]
    # What a fixture of the file leaves is an error of the last test, because it ends with the file.
    assert blamed == ["test_opens", "test_collects"]
    assert run.stdout.count("opened at") == 2
    assert "self.file = open(__file__)  # opened here" in run.stdout
