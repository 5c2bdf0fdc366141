"""Which folders there are: floors are the packages of the wheel, rooms the folders inside them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.source_figures.source_file import SourceFile, measure
from infra.checks.product_files import shipped_folders


@dataclass(frozen=True)
class Room:
    """A row of the table: a name and the files that count for it."""

    name: str
    files: tuple[SourceFile, ...]


def floors(home: Path) -> list[str]:
    """The folders that the wheel holds, where they have Python."""
    return [name for name in shipped_folders(home) if any((home / name).rglob("*.py"))]


def measured(folder: Path) -> list[SourceFile]:
    """Every Python file below a folder."""
    return [measure(path) for path in sorted(folder.rglob("*.py"))]


def rooms_of(floor: str, home: Path, files: list[SourceFile]) -> Iterator[Room]:
    """The floor itself, then each folder in it; `floor/*.py` where modules lie in no folder."""
    yield Room(floor, tuple(files))
    by_room: dict[str, list[SourceFile]] = {}
    for file in files:
        inside = file.path.relative_to(home / floor).parts
        name = inside[0] if len(inside) > 1 else "*.py"
        by_room.setdefault(name, []).append(file)
    if set(by_room) == {"*.py"}:
        return
    for name in sorted(by_room):
        yield Room(f"{floor}/{name}", tuple(by_room[name]))


def installed(package: str) -> Path:
    """The folder of a package of the environment. Raises LookupError where it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LookupError(f"{package} is not installed: uv sync")
    return Path(spec.origin).parent
