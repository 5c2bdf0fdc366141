"""Runs tests in forks of one process that has imported what takes long and is never mutated.

Started in the folder whose tests are run. Reads one request in JSON a line, and answers each with
a line: the exit status of pytest, or null where it ran out of time.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

IMPORTED_ONCE = (
    "pytest",
    "hypothesis.strategies",
    "hypothesis.internal.conjecture.engine",
    "numpy",
    "polars",
    "pydantic",
    "httpx",
    "aiohttp",
    "starlette.applications",
    "starlette.testclient",
    "uvicorn",
    "sqlalchemy.orm",
    "jinja2",
    "yaml",
    "cryptography.x509",
    "slack_sdk.web",
    "rich.console",
    "typer",
)
OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-p",
    "no:schemathesis",
    "-W",
    # What is imported before pytest starts cannot be rewritten, and does not need to be.
    "ignore::pytest.PytestAssertRewriteWarning",
)
SHORT_WAIT_S = 0.05


class TestLog:
    """A plugin of pytest that writes each result at once, so that those before a kill are known."""

    __test__ = False

    def __init__(self, path: Path, stop_after_s: float | None) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._stop_after_s = stop_after_s
        self._began = time.monotonic()
        self._test_file = ""

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool | None:
        """Between two files, look at the time. Run again what fails, for a test that fails
        only now and then on a busy machine has noticed nothing."""
        from _pytest.runner import runtestprotocol

        test_file = item.nodeid.partition("::")[0]
        if test_file != self._test_file and self._is_late():
            item.session.shouldstop = "out of time"
            return True
        self._test_file = test_file
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if any(report.failed for report in reports):
            item._initrequest()
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        return True

    def _is_late(self) -> bool:
        elapsed = time.monotonic() - self._began
        return (
            bool(self._test_file)
            and self._stop_after_s is not None
            and (elapsed > self._stop_after_s)
        )

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One line for each part of a test."""
        self._write(report.nodeid, report.outcome, report.duration)

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported has failed."""
        if report.failed:
            self._write(report.nodeid, report.outcome, 0.0)

    def _write(self, test: str, outcome: str, seconds: float) -> None:
        self._file.write(json.dumps({"test": test, "outcome": outcome, "seconds": seconds}) + "\n")


def run_forked(request: dict[str, Any]) -> int | None:
    """The exit status of pytest in a fork; None where it ran out of time."""
    child = os.fork()
    if not child:
        os.setsid()
        status = 70
        try:
            status = _run(request)
        finally:
            os._exit(status)
    deadline = time.monotonic() + request["timeout_s"]
    status = None
    while status is None and time.monotonic() < deadline:
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            status = os.waitstatus_to_exitcode(code)
        else:
            time.sleep(SHORT_WAIT_S)
    _end_group(child)
    if status is None:
        os.waitpid(child, 0)
    return status


def _end_group(leader: int) -> None:
    """What the tests left running goes with them."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _run(request: dict[str, Any]) -> int:
    import pytest

    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = TestLog(Path(request["log"]), request["stop_after_s"])
    arguments = [*OPTIONS, *request["options"], *request["files"]]
    return int(pytest.main(arguments, plugins=[log]))


def import_once(names: Sequence[str], project: str) -> None:
    """Import what the project depends on and what is installed."""
    for name in names:
        package = name.partition(".")[0]
        if package.replace("_", "-") in project:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def main() -> None:
    """Answer requests until there are no more."""
    import_once(IMPORTED_ONCE, Path("pyproject.toml").read_text(encoding="utf-8"))
    for line in sys.stdin:
        print(json.dumps(run_forked(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
