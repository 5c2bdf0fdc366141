"""The benchmarks are run by hand, so that nobody would see that a name they import was moved."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))


def imported_names(file: Path) -> list[tuple[str, str]]:
    """Module and name of everything that a file imports from a folder of this project."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            package = node.module.partition(".")[0]
            if (ROOT / package).is_dir():
                found += [(node.module, alias.name) for alias in node.names]
    return found


def is_there(module: str, name: str) -> bool:
    """Whether the module has such a name, or its package such a module."""
    if hasattr(importlib.import_module(module), name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_what_a_benchmark_imports_from_this_project_is_there(file: Path) -> None:
    missing = []
    for module, name in imported_names(file):
        try:
            there = is_there(module, name)
        except ModuleNotFoundError as error:
            # A benchmark may compare us with a package that is not installed here.
            there = not (ROOT / (error.name or "").partition(".")[0]).is_dir()
        if not there:
            missing.append(f"{module}.{name}")
    assert missing == []
