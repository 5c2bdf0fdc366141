"""A file's bytes beside its syntax tree: nodes tell their place in bytes, not in characters."""

from __future__ import annotations

import ast

from benchmarks.mutants.mutation import Mutation


class SourceText:
    """The text of one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.tree = ast.parse(source)
        self._dump = ast.dump(self.tree)
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where the node begins and ends."""
        # Only nodes without a place in the file have none of these.
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The node as it is written."""
        start, end = self.span(node)
        return self.source[start:end].decode()

    def between(self, left: ast.expr, right: ast.expr) -> tuple[int, str]:
        """What is written between two nodes, an operator for instance, and where it begins."""
        start, end = self.span(left)[1], self.span(right)[0]
        return start, self.source[start:end].decode()

    def mutation(self, kind: str, start: int, original: str, replacement: str) -> Mutation | None:
        """The mutation; None where the result is no Python or means the same."""
        line = self.source.count(b"\n", 0, start) + 1
        draft = Mutation(self.path, line, kind, start, original, replacement, "", "")
        mutated = draft.applied(self.source)
        try:
            tree = ast.parse(mutated)
        except SyntaxError:
            return None
        if ast.dump(tree) == self._dump:
            return None
        last_line = line + original.count("\n")
        new_last_line = line + replacement.count("\n")
        before = _lines(self.source, line, last_line)
        after = _lines(mutated, line, new_last_line)
        return Mutation(self.path, line, kind, start, original, replacement, before, after)


def _lines(source: bytes, first: int, last: int) -> str:
    lines = source.decode().splitlines()[first - 1 : last]
    return " ".join(line.strip() for line in lines)
