"""Modules of the project by their dotted names, and who imports whom.

A package may be a link to a folder elsewhere in the project: a module is the file that the name
leads to.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

SKIPPED = frozenset({"__pycache__", "node_modules", "dist"})
_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]+)", re.MULTILINE)
_DOTTED = re.compile(r"\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


class ProjectModules:
    """Every Python file of a project, and what each imports or names."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._resolved: dict[str, str | None] = {}

    @cached_property
    def files(self) -> list[str]:
        """Paths below the root, each file once."""
        paths = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(
                name for name in folders if not name.startswith(".") and name not in SKIPPED
            )
            for name in names:
                if name.endswith(".py"):
                    paths.append((Path(folder) / name).relative_to(self.root).as_posix())
        return sorted(paths)

    def file_of(self, dotted: str) -> str | None:
        """The file of a module, or of the module that holds this name."""
        if dotted not in self._resolved:
            self._resolved[dotted] = self._look_up(dotted)
        return self._resolved[dotted]

    def _look_up(self, dotted: str) -> str | None:
        place = self.root.joinpath(*dotted.split("."))
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file() and path.resolve().is_relative_to(self.root):
                return path.resolve().relative_to(self.root).as_posix()
        holder, _, _ = dotted.rpartition(".")
        # A name of a whole floor says nothing about its modules.
        return self.file_of(holder) if "." in holder else None

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """By file: the files that import it, or name it in a text."""
        importers: dict[str, set[str]] = defaultdict(set)
        for path in self.files:
            for name in set(self._names_in(path)):
                imported = self.file_of(name)
                if imported is not None and imported != path:
                    importers[imported].add(path)
        return importers

    def _names_in(self, path: str) -> Iterator[str]:
        text = (self.root / path).read_text(encoding="utf-8")
        package = path.rpartition("/")[0].replace("/", ".")
        for match in _FROM.finditer(text):
            module, names = match.groups()
            if module.startswith("."):
                module = f"{package}.{module.lstrip('.')}".rstrip(".")
            for name in re.findall(r"\w+", names):
                yield f"{module}.{name}"
        for match in _DOTTED.finditer(text):
            first = match.group().partition(".")[0]
            if first in self._packages:
                yield match.group()

    @cached_property
    def _packages(self) -> frozenset[str]:
        return frozenset(path.name for path in self.root.iterdir() if path.is_dir())
