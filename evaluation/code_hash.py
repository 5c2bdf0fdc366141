"""A hash of the code that decides: equal hashes give equal answers to equal cases.

It covers `analysis/` with its fitted weights and tables of words. Comments, docstrings and layout
do not count, nor does the reading of GPU traces, which no case of docs/accuracy.md holds.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from faultline import analysis

ROOT = Path(analysis.__file__).resolve().parent
NOT_MEASURED = ("traces",)
DIGITS = 12


@cache
def code_hash() -> str:
    """The hash of the code that runs, read once."""
    return hash_of(ROOT)


def hash_of(root: Path) -> str:
    """The first 12 hex digits of the hash of a package."""
    what_decides = hashlib.sha256()
    for path in sorted(_files(root), key=lambda path: path.relative_to(root).as_posix()):
        what_decides.update(path.relative_to(root).as_posix().encode())
        what_decides.update(_what_decides(path))
    return what_decides.hexdigest()[:DIGITS]


def _files(root: Path) -> Iterator[Path]:
    for path in root.rglob("*"):
        inside = path.relative_to(root).parts
        if inside[0] not in NOT_MEASURED and path.suffix in (".py", ".toml"):
            yield path


def _what_decides(path: Path) -> bytes:
    text = path.read_bytes()
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [node for node in node.body if not _is_text(node)]
    # Written again from its tree, code has no comments and one layout.
    return ast.unparse(tree).encode()


def _is_text(node: ast.stmt) -> bool:
    """Whether it is a docstring, of a module, a class, a function or an attribute."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)
