"""Figures of one Python file.

What is counted, and how:

- A **token** is a name, an operator, a number or a string, as the standard `tokenize` module
  finds them; an f-string counts as one string in every version of Python. Line ends, indents and
  comments are not tokens.
- A **code line** is a line on which a token begins. A docstring is therefore one token on one
  line, however long it is: prose makes code neither denser nor thinner.
- A **comment line** is a line that holds a comment, alone or behind code.
- **Cyclomatic complexity** follows McCabe as radon counts it: 1 for the function, and 1 for each
  `if`, `for`, `while`, `except`, `assert`, conditional expression, comprehension, `if` of a
  comprehension, `case` (but not `case _`), and each further operand of `and` and `or`. A function
  inside another is measured by itself. A lambda belongs to the function around it.
- A **function's length** is its lines from `def` to its end, docstring included, decorators not.
- A **broad except** names no type, `Exception` or `BaseException`.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONGEST_LINE = 100
FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSION_NODES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BRANCH_NODES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.Assert,
    ast.IfExp,
)
BROAD_TYPES = {"Exception", "BaseException"}
COUNTED_TOKENS = {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING}
# Python 3.12 splits an f-string into parts; older versions lack these two names.
FSTRING_START = getattr(tokenize, "FSTRING_START", None)
FSTRING_END = getattr(tokenize, "FSTRING_END", None)


@dataclass(frozen=True)
class Function:
    """One function or method: where it begins, its lines, its cyclomatic complexity."""

    name: str
    line: int
    length: int
    complexity: int


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
    code_lines: set[int]
    comment_lines: set[int]


def measure(path: Path) -> SourceFile:
    """Read one file. Raises SyntaxError where it is not Python."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, filename=str(path))
    counts = _count_tokens(text)
    lines = text.splitlines()
    nodes = list(ast.walk(tree))
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
        functions=tuple(_functions(nodes)),
        public_classes=tuple(_public_classes(tree)),
    )


def _count_tokens(text: str) -> _TokenCounts:
    counts = _TokenCounts(0, set(), set())
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
        if starts_fstring:
            open_fstrings += 1
    return counts


def _functions(nodes: list[ast.AST]) -> Iterator[Function]:
    for node in nodes:
        if isinstance(node, FUNCTION_NODES):
            end = node.end_lineno or node.lineno
            yield Function(node.name, node.lineno, end - node.lineno + 1, complexity(node))


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Cyclomatic complexity of one function, without the functions inside it."""
    total = 1
    for node in _own_nodes(function):
        if isinstance(node, BRANCH_NODES):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
        elif isinstance(node, ast.match_case) and not _matches_everything(node):
            total += 1
    return total


def _own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, FUNCTION_NODES):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _matches_everything(case: ast.match_case) -> bool:
    pattern = case.pattern
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None and case.guard is None


def _is_broad(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    if node.type is None:
        return True
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(isinstance(one, ast.Name) and one.id in BROAD_TYPES for one in caught)


def _public_classes(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
