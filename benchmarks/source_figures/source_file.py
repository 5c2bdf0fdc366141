"""Figures of one Python file.

What is counted, and how:

- A **token** is a name, an operator, a number or a string, as the standard `tokenize` module
  finds them; an f-string counts as one string in every version of Python. Line ends, indents and
  comments are not tokens.
- A **code line** is a line on which a token begins. A docstring is therefore one token on one
  line, however long it is: prose makes code neither denser nor thinner.
- A **comment line** is a line that holds a comment, alone or behind code.
- **Cyclomatic complexity**, and which names are visible, is said in infra/checks/definitions.py.
- An **empty name** is a name that is a word of infra/checks/names.toml, also within an f-string.
  A visible one for which names.toml has a reason does not count.
- A **statement** is a node of the syntax tree that is one, docstrings included.
- A **function's length** is its lines from `def` to its end, docstring included, decorators not.
- A **broad except** names no type, `Exception` or `BaseException`.
"""

from __future__ import annotations

import ast
import io
import os
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.source_figures.words import (
    DIALECT_PATTERN,
    EMPTY_WORDS,
    RULES,
    WIDE_WORDS,
    docstrings,
    names_in_fstrings,
)
from infra.checks.definitions import Function, definitions, module_definition
from infra.checks.names import HOME, without_reason

LONGEST_LINE = 100
COMPREHENSION_NODES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BROAD_TYPES = {"Exception", "BaseException"}
COUNTED_TOKENS = {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING}
# Python 3.12 splits an f-string into parts; older versions lack these two names.
FSTRING_START = getattr(tokenize, "FSTRING_START", None)
FSTRING_END = getattr(tokenize, "FSTRING_END", None)


@dataclass(frozen=True)
class SourceFile:
    """Counts of one file; `public_classes` are the classes at the top level of the module."""

    path: Path
    lines: int
    code_lines: int
    tokens: int
    comment_lines: int
    long_lines: int
    comprehensions: int
    conditional_expressions: int
    broad_excepts: int
    functions: tuple[Function, ...]
    public_classes: tuple[str, ...]
    statements: int
    empty_names: int
    wide_names: int
    visible_names: int
    private_functions: int
    used_once: int
    docstring_words: int
    dialect: int

    @property
    def tokens_per_line(self) -> float:
        """Tokens per code line; 0 for a file without code."""
        return self.tokens / self.code_lines if self.code_lines else 0.0

    @property
    def mean_complexity(self) -> float:
        """Mean cyclomatic complexity of its functions; 1 where there are none."""
        if not self.functions:
            return 1.0
        return sum(function.complexity for function in self.functions) / len(self.functions)

    @property
    def hardness(self) -> float:
        """Tokens per code line times mean complexity: how hard the file is to read."""
        return self.tokens_per_line * self.mean_complexity


@dataclass
class _TokenCounts:
    tokens: int
    names: Counter[str]
    code_lines: set[int]
    comment_lines: set[int]


def measure(path: Path) -> SourceFile:
    """Read one file. Raises SyntaxError where it is not Python."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, filename=str(path))
    counts = _count_tokens(text)
    lines = text.splitlines()
    nodes = list(ast.walk(tree))
    counts.names.update(names_in_fstrings(nodes))
    defined = definitions(tree, WIDE_WORDS)
    visible = defined.visible
    module = module_definition(str(path), WIDE_WORDS)
    if module is not None:
        visible = [module, *visible]
    file = os.path.relpath(path, HOME)
    documentation = list(docstrings(nodes))
    return SourceFile(
        path=path,
        lines=len(lines),
        code_lines=len(counts.code_lines),
        tokens=counts.tokens,
        comment_lines=len(counts.comment_lines),
        long_lines=sum(len(line) > LONGEST_LINE for line in lines),
        comprehensions=sum(isinstance(node, COMPREHENSION_NODES) for node in nodes),
        conditional_expressions=sum(isinstance(node, ast.IfExp) for node in nodes),
        broad_excepts=sum(_is_broad(node) for node in nodes),
        functions=tuple(defined.functions),
        public_classes=tuple(_public_classes(tree)),
        statements=sum(isinstance(node, ast.stmt) for node in nodes),
        empty_names=sum(counts.names[word] for word in EMPTY_WORDS),
        wide_names=sum(counts.names[word] for word in WIDE_WORDS),
        visible_names=len(without_reason(file, visible, RULES)),
        private_functions=len(defined.private),
        used_once=len(defined.used_once),
        docstring_words=sum(len(text.split()) for text in documentation),
        dialect=sum(len(DIALECT_PATTERN.findall(text)) for text in documentation),
    )


def _count_tokens(text: str) -> _TokenCounts:
    counts = _TokenCounts(0, Counter(), set(), set())
    open_fstrings = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            counts.comment_lines.add(line)
            continue
        if token.type == FSTRING_END:
            open_fstrings -= 1
            continue
        starts_fstring = token.type == FSTRING_START
        # Inside an f-string nothing counts: older versions of Python see one token there.
        if open_fstrings == 0 and (starts_fstring or token.type in COUNTED_TOKENS):
            counts.tokens += 1
            counts.code_lines.add(line)
            if token.type == tokenize.NAME:
                counts.names[token.string] += 1
        if starts_fstring:
            open_fstrings += 1
    return counts


def _is_broad(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    if node.type is None:
        return True
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(isinstance(kind, ast.Name) and kind.id in BROAD_TYPES for kind in caught)


def _public_classes(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
