"""Which keyword arguments of a call may be left out, for functions and classes of the project."""

from __future__ import annotations

import ast

from benchmarks.mutants.modules import ProjectModules
from benchmarks.mutants.source_text import SourceText

BUILT_IN = {
    "sorted": frozenset({"key", "reverse"}),
    "min": frozenset({"key", "default"}),
    "max": frozenset({"key", "default"}),
    "enumerate": frozenset({"start"}),
    "sum": frozenset({"start"}),
}
NOTHING: frozenset[str] = frozenset()


class Signatures:
    """Reads the modules that a call's function comes from."""

    def __init__(self, modules: ProjectModules) -> None:
        self._modules = modules
        self._by_file: dict[str, dict[str, frozenset[str]]] = {}

    def optional(self, call: ast.Call, text: SourceText) -> frozenset[str]:
        """Keyword arguments with a default; none where the function is not found."""
        if not call.keywords:
            return NOTHING
        if isinstance(call.func, ast.Attribute):
            holder = call.func.value
            if isinstance(holder, ast.Name) and holder.id in ("self", "cls"):
                return self._defaults(text.path, text.tree).get(f".{call.func.attr}", NOTHING)
            return NOTHING
        if not isinstance(call.func, ast.Name):
            return NOTHING
        name = call.func.id
        here = self._defaults(text.path, text.tree)
        if name in here:
            return here[name]
        for module, original in _imports_of(name, text.tree):
            path = self._modules.file_of(module)
            if path is not None:
                source = (self._modules.root / path).read_bytes()
                return self._defaults(path, ast.parse(source)).get(original, NOTHING)
        return BUILT_IN.get(name, NOTHING)

    def _defaults(self, path: str, tree: ast.Module) -> dict[str, frozenset[str]]:
        if path not in self._by_file:
            self._by_file[path] = _defaults_of(tree)
        return self._by_file[path]


def _defaults_of(tree: ast.Module) -> dict[str, frozenset[str]]:
    """By function, class, or method with a dot before it."""
    defaults = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            defaults[node.name] = _with_default(node.args)
        elif isinstance(node, ast.ClassDef):
            fields = set()
            for member in node.body:
                if isinstance(member, ast.AnnAssign) and member.value is not None:
                    fields.add(getattr(member.target, "id", ""))
                elif isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    defaults[f".{member.name}"] = _with_default(member.args)
                    if member.name == "__init__":
                        fields |= _with_default(member.args)
            defaults[node.name] = frozenset(fields)
    return defaults


def _with_default(arguments: ast.arguments) -> frozenset[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    names = {argument.arg for argument in positional[len(positional) - len(arguments.defaults) :]}
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            names.add(argument.arg)
    return frozenset(names)


def _imports_of(name: str, tree: ast.Module) -> list[tuple[str, str]]:
    """The modules from which a name is imported, with its name there."""
    origins = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    origins.append((node.module, alias.name))
    return origins
