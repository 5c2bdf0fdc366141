"""Which test files execute which lines, as one run of the first lane under coverage recorded it.

Imports say which tests may notice a fault; this says which can. A record grows old as the code
changes: of a file that has changed since, whole functions moved, so every test counts that ran any
line of it, and a test file that has changed or is new counts as one that may run anything.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import coverage

from benchmarks.mutants.modules import ProjectModules
from benchmarks.mutants.mutation import Mutation

HOME = Path(__file__).resolve().parents[2]
PLUGIN = "benchmarks.mutants.line_recorder"
SETTINGS = """\
[run]
parallel = true
data_file = DATA_FILE
# A program that a test starts inherits the name of the test file.
context = ${FAULTLINE_TEST_FILE-}
source = .
omit =
  tests/*
  benchmarks/*
sigterm = true
patch =
  fork
  _exit
"""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class ExecutedLines:
    """The record in a folder."""

    def __init__(self, modules: ProjectModules, folder: Path) -> None:
        self._modules = modules
        self._data = coverage.CoverageData(str(folder / "lines"))
        self._data.read()
        hashes = json.loads((folder / "files.json").read_text(encoding="utf-8"))
        self._recorded: dict[str, str] = hashes["files"]
        self._root: str = hashes["root"]

    def tests_of(self, mutation: Mutation) -> set[str] | None:
        """Test files that execute the statement; None where the record has nothing of it, because
        it is new or because nothing that was recorded executes it."""
        path = mutation.path
        lines = self._data.contexts_by_lineno(f"{self._root}/{path}")
        tests = set()
        for line in lines if self._is_changed(path) else self._statement_lines(mutation):
            # What runs before the first test has no name.
            tests.update(name for name in lines.get(line, ()) if name)
        return tests or None

    @cached_property
    def unrecorded(self) -> set[str]:
        """Test files of which the record says nothing that still holds."""
        return {
            path
            for path in self._modules.files
            if path.startswith("tests/") and self._is_changed(path)
        }

    def _is_changed(self, path: str) -> bool:
        return self._recorded.get(path) != _digest(self._modules.root / path)

    def _statement_lines(self, mutation: Mutation) -> range:
        """Those of the innermost statement around the mutation, or of the head of a block."""
        tree = ast.parse((self._modules.root / mutation.path).read_bytes())
        last_line = mutation.line + mutation.original.count("\n")
        lines = range(mutation.line, last_line + 1)
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt) and not isinstance(node, _DEFINITIONS):
                body = getattr(node, "body", None)
                end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
                # Deeper statements come later in the walk.
                if node.lineno <= mutation.line <= max(end, node.lineno):
                    lines = range(node.lineno, max(end, last_line) + 1)
        return lines


def record(modules: ProjectModules, folder: Path, options: Sequence[str]) -> None:
    """Runs pytest with these options under coverage. Tests that fail do not spoil the record."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("lines*"):
        old.unlink()
    hashes = {path: _digest(modules.root / path) for path in modules.files}
    settings = folder / "coverage.ini"
    settings.write_text(SETTINGS.replace("DATA_FILE", str(folder / "lines")), encoding="utf-8")
    python_path = os.pathsep.join([str(HOME), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, *options],
        cwd=modules.root,
        env={**os.environ, "COVERAGE_PROCESS_START": str(settings), "PYTHONPATH": python_path},
        check=False,
    )
    combined = coverage.Coverage(data_file=folder / "lines", config_file=str(settings))
    combined.combine(data_paths=[str(folder)])
    combined.save()
    document = {"root": str(modules.root), "files": hashes}
    (folder / "files.json").write_text(json.dumps(document), encoding="utf-8")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
