"""What can be said of the dependencies without a network: `python -m infra.release.audit`.

Every file that `uv.lock` names has a SHA-256 hash, and every package that an installation holds has
a licence that is on the list below. Known vulnerabilities are for `uv audit`, which asks osv.dev.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from infra.release.sbom import licence_of

LOCK = Path(__file__).resolve().parents[2] / "uv.lock"
PROJECT = "faultline-bot"
NOT_INSTALLED = frozenset({"lab"})
"""Extras that no release's image and no recommended command holds."""
PERMISSIVE = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "MIT",
        "MIT-0",
        "PSF-2.0",
        "Zlib",
    }
)
"""SPDX identifiers."""
AS_LIBRARY = frozenset({"LGPL-3.0-only", "MPL-2.0"})
"""Allowed because these packages are used unchanged, as libraries that anybody can replace."""

Lock = Mapping[str, Sequence[Mapping[str, Any]]]


@cache
def locked(file: Path = LOCK) -> Lock:
    """Name to the packages of the lock."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for package in tomllib.loads(file.read_text())["package"]:
        by_name.setdefault(package["name"], []).append(package)
    return by_name


def without_hash(lock: Lock) -> Iterator[str]:
    """Packages of which a file has no SHA-256, or that have no file."""
    for name, versions in lock.items():
        for package in versions:
            if "editable" in package["source"]:
                continue
            files = [*package.get("wheels", ()), *filter(None, [package.get("sdist")])]
            hashes = [re.fullmatch(r"sha256:[0-9a-f]{64}", file.get("hash", "")) for file in files]
            if not files or not all(hashes):
                yield name


def installed_by(lock: Lock, *extras: str) -> set[str]:
    """The packages that Faultline with these extras needs, on any platform."""
    names: set[str] = set()
    (root,) = lock[PROJECT]
    waiting = list(root["dependencies"])
    for extra in extras:
        waiting += root["optional-dependencies"][extra]
    while waiting:
        dependency = waiting.pop()
        name = dependency["name"]
        for package in lock[name]:
            for extra in dependency.get("extra", ()):
                waiting += package.get("optional-dependencies", {}).get(extra, ())
            if name not in names:
                waiting += package.get("dependencies", ())
        names.add(name)
    return names - {PROJECT}


def extras_of(lock: Lock) -> tuple[str, ...]:
    """The extras that a release is judged by."""
    (root,) = lock[PROJECT]
    return tuple(sorted(set(root["optional-dependencies"]) - NOT_INSTALLED))


def refused(expression: str | None) -> str | None:
    """Why a package's licence does not do; None where it does."""
    if expression is None:
        return "names no licence"
    return None if _allowed(expression) else f"is under {expression}, which is not on the list"


def _allowed(expression: str) -> bool:
    """Whether all that AND joins is allowed, and one of what OR joins. Parentheses are not taken
    apart: such an expression must be on the list as it is."""
    allowed = PERMISSIVE | AS_LIBRARY
    if expression in allowed:
        return True
    return any(
        all(part.strip() in allowed for part in choice.split(" AND "))
        for choice in expression.split(" OR ")
    )


def licence_problems(names: set[str]) -> tuple[int, list[str]]:
    """How many packages are installed here, and what is wrong with the licences of those."""
    installed_count, problems = 0, []
    for name in sorted(names):
        try:
            here = version(name)
        except PackageNotFoundError:  # for another platform or version of Python
            continue
        installed_count += 1
        problem = refused(licence_of(name, here))
        if problem is not None:
            problems.append(f"{name} {problem}")
    return installed_count, problems


def main() -> None:
    """Print what was found; exit 1 if anything is wrong."""
    lock = locked()
    problems = [f"{name} has a file without a hash in uv.lock" for name in without_hash(lock)]
    names = installed_by(lock, *extras_of(lock))
    installed_count, unlicensed = licence_problems(names)
    problems += unlicensed
    for problem in problems:
        sys.stdout.write(f"audit: {problem}\n")
    if problems:
        sys.exit(1)
    files = sum(len(p.get("wheels", ())) + ("sdist" in p) for v in lock.values() for p in v)
    sys.stdout.write(
        f"audit: {files} files of {len(lock)} packages have hashes; "
        f"{installed_count} installed packages have licences that are on the list\n"
    )


if __name__ == "__main__":
    main()
