"""Every mutation of a file, by kind.

The kinds are those of mutation testing's literature (DeMillo, Lipton and Sayward 1978; the
operators of mutmut and Cosmic Ray), chosen so that the program still runs: what crashes at once
says nothing about tests. Docstrings, messages of logs and errors, assertions, annotations,
decorators, `__main__` blocks and code for type checkers are left alone.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator

from benchmarks.mutants.mutation import Mutation
from benchmarks.mutants.signatures import Signatures
from benchmarks.mutants.source_text import SourceText

KINDS = (
    "comparison",
    "boundary",
    "sign",
    "await",
    "arguments",
    "statement",
    "return",
    "connective",
    "condition",
    "not",
    "extreme",
    "keyword",
)
SWAPPED_COMPARISONS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "in": "not in",
    "not in": "in",
    "is": "is not",
    "is not": "is",
}
_COMPARISON = re.compile(r"\bnot\s+in\b|\bis\s+not\b|\bin\b|\bis\b|[<>]=?|[=!]=")
_CONNECTIVE = re.compile(r"\b(?:and|or)\b")
_LOG_NAMES = frozenset({"log", "_log", "logger", "_logger", "logging", "warnings"})
_ORDERED_BY_TYPE = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "setattr", "cast"})
"""With their arguments swapped these crash, or mean nothing."""
FLOAT_FACTOR = 1.5
Edit = tuple[str, int, str, str]
"""Kind, offset, what is there, what replaces it."""


def mutations_of(text: SourceText, signatures: Signatures | None = None) -> list[Mutation]:
    """Every mutation of a file, from its top to its end. With signatures also keyword arguments
    are dropped."""
    by_identity: dict[str, Mutation] = {}
    for edit in Edits(text, signatures).all():
        mutation = text.mutation(*edit)
        if mutation is not None:
            by_identity[mutation.identity] = mutation
    return sorted(by_identity.values(), key=lambda mutation: (mutation.start, mutation.kind))


class Edits:
    """Every edit of a file, before anybody asks whether the result is Python. Walks the tree, and
    leaves out what is not mutated."""

    def __init__(self, text: SourceText, signatures: Signatures | None) -> None:
        self.text = text
        self.signatures = signatures
        self.by_type: dict[type[ast.AST], Callable[[ast.AST], Iterator[Edit]]] = {
            ast.Compare: self._comparison,
            ast.Slice: self._slice,
            ast.BinOp: self._sign,
            ast.AugAssign: self._counted,
            ast.UnaryOp: self._unary,
            ast.BoolOp: self._connective,
            ast.Call: self._call,
            ast.Expr: self._expression_statement,
            ast.Assign: self._assignment,
            ast.If: self._condition,
            ast.IfExp: self._condition,
            ast.While: self._condition,
            ast.comprehension: self._filters,
        }

    def all(self) -> Iterator[Edit]:
        """The edits of the whole file."""
        for node in self.text.tree.body:
            # What runs on import, tables and constants, is no behaviour of a function.
            yield from self._below(node, within=None)

    def _below(self, node: ast.AST, within: ast.AST | None) -> Iterator[Edit]:
        """Edits of the node and of what it holds. `within` is the function around it."""
        if _is_left_alone(node):
            return
        if within is not None:
            edits = self.by_type.get(type(node))
            if edits is not None:
                yield from edits(node)
            if isinstance(node, ast.Return):
                yield from self._return(node, within)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not _is_declaration(node):
                for statement in node.body:
                    yield from self._below(statement, node)
            return
        for child in _code_children(node):
            yield from self._below(child, within)

    def _comparison(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Compare)
        operands = [node.left, *node.comparators]
        for left, right in itertools.pairwise(operands):
            start, gap = self.text.between(left, right)
            operator = _COMPARISON.search(gap)
            if operator is None or "#" in gap:
                continue
            written = operator.group()
            swapped = SWAPPED_COMPARISONS[" ".join(written.split())]
            yield "comparison", start + len(gap[: operator.start()].encode()), written, swapped
        for operand in operands:
            yield from self._moved(operand)

    def _slice(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Slice)
        for bound in (node.lower, node.upper):
            if bound is not None:
                yield from self._moved(bound)

    def _moved(self, node: ast.expr) -> Iterator[Edit]:
        """A constant on a boundary, moved by one or by half."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node = node.operand
        if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
            return
        start, written = self.text.span(node)[0], self.text.text(node)
        if isinstance(node.value, int):
            yield "boundary", start, written, str(node.value + 1)
            if node.value > 0:
                yield "boundary", start, written, str(node.value - 1)
        elif isinstance(node.value, float):
            moved = node.value * FLOAT_FACTOR or 1.0
            yield "boundary", start, written, repr(moved)

    def _sign(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.BinOp)
        if not isinstance(node.op, (ast.Add, ast.Sub)):
            return
        if _is_sequence(node.left) or _is_sequence(node.right):
            return
        sign = "+" if isinstance(node.op, ast.Add) else "-"
        start, gap = self.text.between(node.left, node.right)
        place = gap.find(sign)
        if place < 0 or "#" in gap:
            return
        yield "sign", start + len(gap[:place].encode()), sign, "-" if sign == "+" else "+"

    def _counted(self, node: ast.AST) -> Iterator[Edit]:
        """`total += 1`: its sign, and without it."""
        assert isinstance(node, ast.AugAssign)
        if isinstance(node.op, (ast.Add, ast.Sub)) and not _is_sequence(node.value):
            sign = "+=" if isinstance(node.op, ast.Add) else "-="
            start, gap = self.text.between(node.target, node.value)
            place = gap.find(sign)
            yield "sign", start + place, sign, "-=" if sign == "+=" else "+="
        yield self._removed(node)

    def _unary(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.UnaryOp)
        start, written = self.text.span(node)[0], self.text.text(node)
        operand = self.text.text(node.operand)
        if isinstance(node.op, ast.Not):
            yield "not", start, written, f"({operand})"
        elif isinstance(node.op, ast.USub):
            yield "sign", start, written, operand

    def _connective(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.BoolOp)
        for left, right in zip(node.values, node.values[1:], strict=False):
            start, gap = self.text.between(left, right)
            word = _CONNECTIVE.search(gap)
            if word is None or "#" in gap:
                continue
            other = "or" if word.group() == "and" else "and"
            yield "connective", start + len(gap[: word.start()].encode()), word.group(), other

    def _call(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Call)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("min", "max"):
            start = self.text.span(node.func)[0]
            yield "extreme", start, name, "max" if name == "min" else "min"
        elif name not in _ORDERED_BY_TYPE:
            yield from self._swapped_arguments(node)
        if self.signatures is not None:
            yield from self._dropped_keywords(node, self.signatures)

    def _swapped_arguments(self, node: ast.Call) -> Iterator[Edit]:
        for first, second in zip(node.args, node.args[1:], strict=False):
            if isinstance(first, ast.Starred) or isinstance(second, ast.Starred):
                continue
            start, (_, end) = self.text.span(first)[0], self.text.span(second)
            _, gap = self.text.between(first, second)
            written = self.text.source[start:end].decode()
            swapped = self.text.text(second) + gap + self.text.text(first)
            yield "arguments", start, written, swapped

    def _dropped_keywords(self, node: ast.Call, signatures: Signatures) -> Iterator[Edit]:
        optional = signatures.optional(node, self.text)
        for keyword in node.keywords:
            if keyword.arg not in optional:
                continue
            value_start, end = self.text.span(keyword.value)
            start = self.text.source.rindex(f"{keyword.arg}".encode(), 0, value_start)
            rest = re.match(rb"\s*,\s*", self.text.source[end:])
            if rest is not None:
                end += rest.end()
            else:
                # The last of the arguments takes the comma before it along.
                before = re.search(rb",\s*$", self.text.source[:start])
                start = before.start() if before is not None else start
            yield "keyword", start, self.text.source[start:end].decode(), ""

    def _expression_statement(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Expr)
        value = node.value
        if isinstance(value, ast.Await):
            # Elsewhere its value is used, and a coroutine in its place crashes at once.
            start, awaited = self.text.span(value)[0], self.text.text(value.value)
            yield "await", start, self.text.text(value), awaited
            value = value.value
        if isinstance(value, ast.Call):
            yield self._removed(node)

    def _assignment(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.Assign)
        for target in node.targets:
            if isinstance(target, (ast.Attribute, ast.Subscript)):
                yield self._removed(node)
                return

    def _removed(self, node: ast.stmt) -> Edit:
        return "statement", self.text.span(node)[0], self.text.text(node), "pass"

    def _return(self, node: ast.Return, function: ast.AST) -> Iterator[Edit]:
        """Nothing in place of what is returned, where the annotation allows nothing."""
        assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        value = node.value
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            return
        if function.returns is not None and _may_be_none(function.returns):
            yield "return", self.text.span(value)[0], self.text.text(value), "None"

    def _condition(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, (ast.If, ast.IfExp, ast.While))
        yield from self._negated(node.test)

    def _filters(self, node: ast.AST) -> Iterator[Edit]:
        assert isinstance(node, ast.comprehension)
        for test in node.ifs:
            yield from self._negated(test)

    def _negated(self, test: ast.expr) -> Iterator[Edit]:
        # `not` is taken away, and a single comparison turned round, by their kinds.
        if isinstance(test, (ast.Constant, ast.UnaryOp)):
            return
        if isinstance(test, ast.Compare) and not isinstance(
            test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
        ):
            return
        written = self.text.text(test)
        yield "condition", self.text.span(test)[0], written, f"(not ({written}))"


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.arguments)):
        # Before Python 3.12 what is inside an f-string has no true place.
        return True
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test) or "__name__" in ast.dump(node.test)
    if isinstance(node, ast.Expr):
        return _is_log_call(node.value)
    return False


def _is_log_call(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    holder = node.func.value
    return isinstance(holder, ast.Name) and holder.id.lower() in _LOG_NAMES


def _is_declaration(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Only for type checkers, or for others to fill in."""
    for decorator in node.decorator_list:
        if "overload" in ast.dump(decorator) or "abstractmethod" in ast.dump(decorator):
            return True
    return False


def _code_children(node: ast.AST) -> Iterator[ast.AST]:
    """What runs of a node: its annotations and decorators do so only once."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _is_sequence(node: ast.expr) -> bool:
    """Of which nothing can be subtracted."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, bytes))
    if isinstance(node, ast.BinOp):
        return _is_sequence(node.left) or _is_sequence(node.right)
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp))


def _may_be_none(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.BinOp):
        return _may_be_none(annotation.left) or _may_be_none(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return isinstance(annotation.value, ast.Name) and annotation.value.id == "Optional"
    return isinstance(annotation, ast.Constant) and annotation.value is None
