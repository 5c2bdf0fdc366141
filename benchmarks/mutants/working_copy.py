"""A throw-away copy of the working tree, in which mutations are made and tests run."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.mutation import Mutation

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".tools", ".faultline", ".*_cache", ".hypothesis", "dist", "node_modules"
)
LINKED = (".venv", ".tools")
"""What tests need and never write to."""
SERVER = Path(__file__).with_name("forked_tests.py")
PASSED, NOTHING_COLLECTED = 0, 5
"""Exit statuses of pytest."""


@dataclass(frozen=True)
class TestResult:
    """One part of a test: its set-up, its call or what comes after."""

    __test__ = False

    test: str
    outcome: str
    seconds: float

    @property
    def file(self) -> str:
        """The file that holds the test."""
        return self.test.partition("::")[0]


@dataclass(frozen=True)
class TestRun:
    """What pytest said of some files."""

    __test__ = False

    status: int | None
    """None where it ran out of time."""
    results: tuple[TestResult, ...]

    @property
    def is_green(self) -> bool:
        """Whether nothing failed."""
        return self.status in (PASSED, NOTHING_COLLECTED)

    @property
    def failures(self) -> list[str]:
        """The tests that failed, in the order in which they did."""
        failed = (result.test for result in self.results if result.outcome == "failed")
        return list(dict.fromkeys(failed))


class WorkingCopy:
    """The copy, with a process that runs its tests."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = folder / "project"
        self._log, self._output = folder / "results.jsonl", folder / "output.txt"
        # Makes the folder, too.
        shutil.copytree(root, self.root, symlinks=True, ignore=LEFT_OUT)
        for name in LINKED:
            if (root / name).exists():
                (self.root / name).symlink_to((root / name).resolve())
        shared = root.parent / "shared"
        if shared.is_dir():
            # Public data sets that lie beside the project; tests without them skip.
            (folder / "shared").symlink_to(shared.resolve())
        self._server = subprocess.Popen(
            # -P: the folder of the program itself holds modules of common names.
            [sys.executable, "-P", str(SERVER)],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        files: Sequence[str],
        *,
        timeout_s: float,
        options: Sequence[str] = (),
        stop_after_s: float | None = None,
    ) -> TestRun:
        """Runs the tests of these files in this order. After `stop_after_s` no further file is
        begun. Raises ChildProcessError where the process that runs them was killed."""
        self._log.write_text("")
        request = {
            "files": list(files),
            "options": list(options),
            "timeout_s": timeout_s,
            "stop_after_s": stop_after_s,
            "log": str(self._log),
            "output": str(self._output),
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise ChildProcessError("the process that runs the tests has ended")
        status = json.loads(answer)
        results = []
        for line in self._log.read_text(encoding="utf-8").splitlines():
            results.append(TestResult(**json.loads(line)))
        return TestRun(status, tuple(results))

    @property
    def output(self) -> str:
        """What pytest printed last."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """The copy with the fault in it, for the time of the block."""
        path = self.root / mutation.path
        source = path.read_bytes()
        _write(path, mutation.applied(source))
        try:
            yield
        finally:
            _write(path, source)

    def close(self) -> None:
        """Ends the process; the folder is the caller's."""
        self._server.communicate()


def _write(path: Path, source: bytes) -> None:
    """Python would take compiled code of the same second and size for that of this source."""
    path.write_bytes(source)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
