"""What one Python file defines: names that name nothing, functions and their complexity.

A name is **visible** where code outside its function can meet it: modules, classes, functions,
methods, their parameters, fields, attributes that a method assigns to `self`, and variables of a
module. Everything that is bound inside a function is **local**, also the parameters of lambdas
and of functions in it. Uses of a name are not definitions: what another module or a library
chose is not for this file to change.

**Cyclomatic complexity** follows McCabe as radon counts it: 1 for the function, and 1 for each
`if`, `for`, `while`, `except`, `assert`, conditional expression, comprehension, `if` of a
comprehension, `case` (but not `case _`), and each further operand of `and` and `or`. A function
inside another is measured by itself. A lambda belongs to the function around it.

All this comes from a single pass, because the check in names.py reads the whole project.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
WORD_IN_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True)
class Definition:
    """A name that is or contains `word`; `path` is qualified, such as `Reader.read.found`."""

    path: str
    line: int
    word: str


@dataclass(frozen=True)
class Function:
    """A function or method: `path` is qualified, and `length` is in lines."""

    name: str
    path: str
    line: int
    length: int
    complexity: int


@dataclass
class Definitions:
    """`private` holds the module's private functions by their line; methods do not count."""

    visible: list[Definition] = field(default_factory=list)
    local: list[Definition] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    private: dict[str, int] = field(default_factory=dict)
    used_once: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Scope:
    """Where a node stands. `branches` is None where no function's complexity grows."""

    path: str = ""
    is_visible: bool = True
    class_path: str | None = None
    branches: list[int] | None = None

    def name(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def words_of(name: str) -> list[str]:
    """The words of a snake_case or CamelCase name, in lower case."""
    return [word.lower() for word in WORD_IN_NAME.findall(name)]


def module_definition(file: str, words: Collection[str]) -> Definition | None:
    """The name of the module itself, or of the package whose `__init__.py` this is."""
    path = PurePath(file)
    name = path.parent.name if path.stem == "__init__" else path.stem
    for word in words_of(name):
        if word in words:
            return Definition(name, 1, word)
    return None


def definitions(tree: ast.Module, words: Collection[str]) -> Definitions:
    """Read one module; `words` are those that name nothing."""
    reader = _Reader(frozenset(words))
    reader.read(tree)
    return reader.result()


class _Reader:
    def __init__(self, words: frozenset[str]) -> None:
        self.words = words
        self.word_in: dict[str, str | None] = {}
        self.visible: dict[str, Definition] = {}
        self.local: list[Definition] = []
        self.measured: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope]] = []
        self.uses: Counter[str] = Counter()
        self.private: dict[str, int] = {}
        self.waiting: list[tuple[ast.AST, Scope]] = []

    def read(self, tree: ast.Module) -> None:
        waiting = self.waiting
        waiting.append((tree, Scope()))
        for statement in tree.body:
            if isinstance(statement, FUNCTION_NODES) and statement.name.startswith("_"):
                self.private[statement.name] = statement.lineno
        while waiting:
            node, scope = waiting.pop()
            kind = node.__class__
            if kind is ast.Name:
                self.name(node, scope)  # type: ignore[arg-type]
                continue
            read = READERS.get(kind)
            if read is not None:
                read(self, node, scope)
                continue
            if kind in BRANCHES and scope.branches is not None:
                scope.branches[0] += 1
            self.children(node, scope)

    def children(self, node: ast.AST, scope: Scope) -> None:
        for name in CHILDREN[node.__class__]:
            child = getattr(node, name)
            if child.__class__ is list:
                for part in child:
                    # A dict's `**other` has no key, a keyword-only parameter may have no default.
                    if part is not None:
                        self.waiting.append((part, scope))
            elif child is not None:
                self.waiting.append((child, scope))

    def define(self, name: str, line: int, scope: Scope) -> None:
        if name not in self.word_in:
            matches = [word for word in words_of(name) if word in self.words]
            self.word_in[name] = matches[0] if matches else None
        word = self.word_in[name]
        if word is None:
            return
        definition = Definition(scope.name(name), line, word)
        if not scope.is_visible:
            if name == word:
                self.local.append(definition)
            return
        # A field may be declared in its class and assigned in several methods.
        earlier = self.visible.get(definition.path)
        if earlier is None or line < earlier.line:
            self.visible[definition.path] = definition

    def name(self, node: ast.Name, scope: Scope) -> None:
        if node.ctx.__class__ is ast.Store:
            self.define(node.id, node.lineno, scope)
        elif node.id.startswith("_"):
            self.uses[node.id] += 1

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        # Attributes of other objects are declared elsewhere.
        if isinstance(node.ctx, ast.Store) and scope.class_path is not None and _is_self(node):
            self.define(node.attr, node.lineno, Scope(scope.class_path))
        self.waiting.append((node.value, scope))

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        self.define(node.name, node.lineno, scope)
        # Decorators, defaults and types belong to neither this function nor the one around it.
        outside = Scope(scope.path, scope.is_visible, scope.class_path)
        for part in [*node.decorator_list, node.returns]:
            if part is not None:
                self.waiting.append((part, outside))
        path = scope.name(node.name)
        self.parameters(node.args, Scope(path, scope.is_visible), outside)
        inside = Scope(path, False, scope.class_path, [1])
        self.measured.append((node, inside))
        for statement in node.body:
            self.waiting.append((statement, inside))

    def parameters(self, arguments: ast.arguments, scope: Scope, outside: Scope) -> None:
        for argument in _all_parameters(arguments):
            self.define(argument.arg, argument.lineno, scope)
            if argument.annotation is not None:
                self.waiting.append((argument.annotation, outside))
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.waiting.append((default, outside))

    def anonymous(self, node: ast.Lambda, scope: Scope) -> None:
        inside = Scope(scope.path, False, scope.class_path, scope.branches)
        self.parameters(node.args, inside, inside)
        self.waiting.append((node.body, inside))

    def class_(self, node: ast.ClassDef, scope: Scope) -> None:
        self.define(node.name, node.lineno, scope)
        for part in [*node.decorator_list, *node.bases, *node.keywords]:
            self.waiting.append((part, scope))
        path = scope.name(node.name)
        class_path = path if scope.is_visible else None
        inside = Scope(path, scope.is_visible, class_path, scope.branches)
        for statement in node.body:
            self.waiting.append((statement, inside))

    def comprehension(self, node: ast.AST, scope: Scope) -> None:
        # Its variables live in it alone, also where it stands in a module or a class.
        inside = Scope(scope.path, False, scope.class_path, scope.branches)
        self.children(node, inside)

    def generator(self, node: ast.comprehension, scope: Scope) -> None:
        if scope.branches is not None:
            scope.branches[0] += 1 + len(node.ifs)
        self.children(node, scope)

    def operands(self, node: ast.BoolOp, scope: Scope) -> None:
        if scope.branches is not None:
            scope.branches[0] += len(node.values) - 1
        self.children(node, scope)

    def case(self, node: ast.match_case, scope: Scope) -> None:
        pattern = node.pattern
        takes_all = isinstance(pattern, ast.MatchAs) and pattern.pattern is None
        if scope.branches is not None and not (takes_all and node.guard is None):
            scope.branches[0] += 1
        self.children(node, scope)

    def handler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if scope.branches is not None:
            scope.branches[0] += 1
        if node.name is not None:
            self.define(node.name, node.lineno, scope)
        self.children(node, scope)

    def capture(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name is not None:
            self.define(node.name, node.lineno, scope)
        self.children(node, scope)

    def mapping(self, node: ast.MatchMapping, scope: Scope) -> None:
        if node.rest is not None:
            self.define(node.rest, node.lineno, scope)
        self.children(node, scope)

    def imported(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            # Without `as` the name was chosen where it is defined.
            if alias.asname is not None and alias.asname != alias.name:
                self.define(alias.asname, alias.lineno, scope)

    def result(self) -> Definitions:
        used_once = {}
        for name, line in self.private.items():
            if self.uses[name] == 1:
                used_once[name] = line
        functions = []
        for node, scope in self.measured:
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            complexity = scope.branches[0] if scope.branches else 1
            functions.append(Function(node.name, scope.path, node.lineno, length, complexity))
        return Definitions(
            visible=sorted(self.visible.values(), key=_position),
            local=sorted(self.local, key=_position),
            functions=sorted(functions, key=lambda function: function.line),
            private=self.private,
            used_once=used_once,
        )


def _is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _position(definition: Definition) -> tuple[int, str]:
    return definition.line, definition.path


def _all_parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from arguments.posonlyargs
    yield from arguments.args
    yield from arguments.kwonlyargs
    if arguments.vararg is not None:
        yield arguments.vararg
    if arguments.kwarg is not None:
        yield arguments.kwarg


READERS = {
    ast.Attribute: _Reader.attribute,
    ast.FunctionDef: _Reader.function,
    ast.AsyncFunctionDef: _Reader.function,
    ast.Lambda: _Reader.anonymous,
    ast.ClassDef: _Reader.class_,
    ast.ListComp: _Reader.comprehension,
    ast.SetComp: _Reader.comprehension,
    ast.DictComp: _Reader.comprehension,
    ast.GeneratorExp: _Reader.comprehension,
    ast.comprehension: _Reader.generator,
    ast.BoolOp: _Reader.operands,
    ast.match_case: _Reader.case,
    ast.ExceptHandler: _Reader.handler,
    ast.MatchAs: _Reader.capture,
    ast.MatchStar: _Reader.capture,
    ast.MatchMapping: _Reader.mapping,
    ast.Import: _Reader.imported,
    ast.ImportFrom: _Reader.imported,
}
BRANCHES = {ast.If, ast.For, ast.AsyncFor, ast.While, ast.Assert, ast.IfExp}
# Fields that hold no further nodes, or only marks such as `Load` and `Add`.
PLAIN_FIELDS = {
    "annotation_only", "arg", "asname", "attr", "cls", "conversion", "ctx", "id", "is_async",
    "kind", "kwd_attrs", "level", "module", "name", "op", "ops", "rest", "simple", "tag",
    "type_comment", "type_ignores",
}  # fmt: skip


def _child_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    if kind is ast.Constant or kind in (ast.Global, ast.Nonlocal):
        return ()
    fields = [name for name in kind._fields if name not in PLAIN_FIELDS]
    return tuple(["cls", *fields] if kind is ast.MatchClass else fields)


def _node_kinds(kind: type[ast.AST]) -> Iterator[type[ast.AST]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _node_kinds(narrower)


CHILDREN = {kind: _child_fields(kind) for kind in _node_kinds(ast.AST)}
