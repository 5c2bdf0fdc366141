"""What a test leaves open fails this test, with the line that opened it.

Python says that a file or a socket was left open when it collects it. Left alone, the collector may
do so in any later test.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import pytest
from _pytest.unraisableexception import collect_unraisable

TRACED = "FAULTLINE_TRACED_TESTS"
"""Set in the second run of a file of tests."""
FRAMES = 20
PATIENT_S = 300
OPENED = re.compile(r"Object allocated at.*?:\n(?P<lines>(?:E? +\S.*\n)+)")
"""In pytest's report of such an object, while memory is traced."""


class Unclosed:
    """A plugin of pytest."""

    def pytest_collection_finish(self) -> None:
        """Trace what tests make, and not what was imported before: that would take minutes."""
        if TRACED in os.environ:
            tracemalloc.start(FRAMES)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Collect what the test and its fixtures left. Raises PytestUnraisableExceptionWarning."""
        yield
        if isinstance(item, pytest.Function):
            item.funcargs.clear()
        # What the fixtures of a file held has grown old by its end. Only then all is looked
        # through, because that takes longer than most tests.
        gc.collect(2 if _is_last_of_file(item, nextitem) else 1)
        collect_unraisable(item.config)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        """Name the line that opened it. To trace memory slows every test down, so only the file of
        this one runs again with it."""
        report = yield
        error = call.excinfo and call.excinfo.value
        errors = error.exceptions if isinstance(error, BaseExceptionGroup) else (error,)
        if not tracemalloc.is_tracing() and any(
            isinstance(error, pytest.PytestUnraisableExceptionWarning) for error in errors
        ):
            report.sections.append(("opened at", _openers(item)))
        return report


def _is_last_of_file(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    return nextitem is None or nextitem.path != item.path


def _openers(item: pytest.Item) -> str:
    command = [sys.executable, "-m", "pytest", str(item.path), "-c", str(item.config.inipath)]
    try:
        run = subprocess.run(
            [*command, "-p", "no:xdist", "-p", "no:cacheprovider"],
            check=False,
            capture_output=True,
            text=True,
            cwd=item.config.rootpath,
            env={**os.environ, TRACED: "yes"},
            timeout=PATIENT_S,
        )
    except subprocess.TimeoutExpired:
        return f"unknown: {item.path} did not end within {PATIENT_S} s with memory traced"
    openers = [match["lines"] for match in OPENED.finditer(run.stdout)]
    return "\n".join(dict.fromkeys(openers)) or "unknown: nothing was left open in a second run"
