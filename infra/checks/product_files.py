"""Which folders the wheel ships, and which Python files belong to the project."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

TESTS = "tests"


def shipped_folders(home: Path) -> list[str]:
    """The folders whose files the wheel holds, relative to `home`.

    They are the packages that pyproject.toml lists, what it includes by force, and the folders to
    which links in these packages lead.
    """
    project = tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = []
    for name in [*wheel["packages"], *wheel.get("force-include", {})]:
        if (home / name).is_dir():
            folders.append(name.rstrip("/"))
    for package in list(folders):
        for link in linked_folders(home / package):
            folders.append(link.resolve().relative_to(home.resolve()).as_posix())
    return list(dict.fromkeys(folders))


def linked_folders(package: Path) -> list[Path]:
    """Links directly in a package that lead to a folder beside it."""
    links = []
    for path in sorted(package.iterdir()):
        if path.is_symlink() and path.resolve().parent == package.parent.resolve():
            links.append(path)
    return [link for link in links if link.is_dir()]


def dotted_names(folder: Path) -> tuple[str, ...]:
    """The names by which a folder is imported: its own, and those of the links that lead to it."""
    names = [folder.name]
    for package in sorted(folder.parent.iterdir()):
        if package.is_symlink() or package.name.startswith(".") or not package.is_dir():
            continue
        for link in linked_folders(package):
            if link.resolve() == folder.resolve():
                names.append(f"{package.name}.{link.name}")
    return tuple(names)


def python_files(home: Path) -> list[str]:
    """All Python files of the project but tests, sorted, relative to `home`."""
    tracked = _files_of_git(home)
    files = _files_on_disk(home) if tracked is None else tracked
    return sorted(file for file in files if not file.startswith(f"{TESTS}/"))


def _files_of_git(home: Path) -> list[str] | None:
    """What git knows or would add; None where `home` is not the root of a repository."""
    if not (home / ".git").exists():
        return None
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"]
    try:
        listing = subprocess.run(command, cwd=home, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    names = filter(None, listing.stdout.split("\0"))
    # The index still names a file that was deleted, and names it twice during a merge.
    return [name for name in set(names) if (home / name).is_file()]


def _files_on_disk(home: Path) -> Iterator[str]:
    for folder, inside, names in os.walk(home):
        # Tools and caches are in hidden folders, and what is built is in dist/.
        inside[:] = [name for name in inside if not name.startswith(".") and name != "dist"]
        for name in names:
            path = Path(folder) / name
            if name.endswith(".py") and not path.is_symlink():
                yield path.relative_to(home).as_posix()
