"""Words that make code and its docstrings hard to read, and how often they occur."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

from infra.checks.names import CONFIGURATION, rules_of

_tables = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))
RULES = rules_of(_tables)
EMPTY_WORDS = frozenset(_tables["words"])
"""Words that name nothing, wherever they stand."""
WIDE_WORDS = EMPTY_WORDS | frozenset(_tables["further_words"])
"""These, and words that seldom name anything."""

DIALECT = (
    "whom",
    "of which",
    "nothing of",
    "so many",
    "is told",
    "what became of",
    "could not be had",
    "of its own",
    "lets end",
    "holds up",
)
# A phrase may run over the end of a line.
_PHRASES = "|".join(phrase.replace(" ", r"\s+") for phrase in DIALECT)
DIALECT_PATTERN = re.compile(rf"\b(?:{_PHRASES})\b", re.IGNORECASE)
DOCUMENTED_NODES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(nodes: list[ast.AST]) -> Iterator[str]:
    """The docstrings of a module, its classes and its functions."""
    for node in nodes:
        if isinstance(node, DOCUMENTED_NODES):
            text = ast.get_docstring(node, clean=False)
            if text:
                yield text


def names_in_fstrings(nodes: list[ast.AST]) -> Iterator[str]:
    """Names in the expressions of f-strings, which `tokenize` shows from Python 3.12 on only."""
    inside: dict[int, ast.AST] = {}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            # An f-string may hold another, whose names count once.
            inside.update((id(part), part) for part in ast.walk(node))
    for part in inside.values():
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.arg | ast.keyword) and part.arg is not None:
            yield part.arg
