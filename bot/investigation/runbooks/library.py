"""The runbook library: all runbooks of the configured directories that can be read, and what is
wrong with the rest.

A file that cannot be read costs only itself. Nothing outside of a directory is read: a symbolic
link that leads out of it is a problem, and so is a file that is too long.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from faultline.bot.investigation.runbooks.runbook import (
    Problem,
    Runbook,
    read_front_matter,
    read_keys,
)
from faultline.bot.settings import Settings, sections_that_repeat
from faultline.connectors.shared.settings.settings_types import Section, addresses_in
from faultline.connectors.vendors.datadog.links import APP_HOSTS

LONGEST_FILE = 131_072
"""Bytes. What is longer is no page that anyone reads in an incident."""
MOST_FILES = 1000
MOST_VISITED = 20_000
"""Files and directories that are visited: a directory set by mistake, such as /, must not delay an
investigation."""
MOST_INCLUDED = 20
"""Runbooks that one includes, directly or not."""
NOT_RUNBOOKS = frozenset({"readme.md"})


@dataclass(frozen=True)
class FileProblem:
    """One line of `faultline check`: where, what is wrong, what it should be."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass
class RunbookLibrary:
    """Runbooks by path, sorted. Of two with the same path, the first directory's counts."""

    runbooks: dict[str, Runbook] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)

    def file_of(self, runbook: Runbook) -> str:
        """Where it lies, as people named the directory."""
        return f"{runbook.directory.rstrip('/')}/{runbook.path}"

    def included_by(self, runbook: Runbook) -> list[Runbook]:
        """What it brings with it, nearest first, each once; includes that are dead or lead back are
        passed over."""
        runbooks: dict[str, Runbook] = {}
        ahead = [runbook]
        while ahead and len(runbooks) < MOST_INCLUDED:
            for path in ahead.pop(0).keys.include:
                included_runbook = self.runbooks.get(path)
                if included_runbook is not None and path not in runbooks and path != runbook.path:
                    runbooks[path] = included_runbook
                    ahead.append(included_runbook)
        return list(runbooks.values())[:MOST_INCLUDED]


def read_library(directories: Sequence[str]) -> RunbookLibrary:
    """Read all of them. Never raises for what is in them."""
    library = RunbookLibrary()
    for directory in directories:
        for path, problem in _files(Path(directory), library):
            name = f"{directory.rstrip('/')}/{path}" if path else directory
            read = problem or _read(directory, path, library)
            if isinstance(read, Problem):
                library.problems.append(FileProblem(name, read.line, read.text))
    library.runbooks = dict(sorted(library.runbooks.items()))
    library.problems.sort(key=lambda p: (p.file, p.line, p.text))
    return library


def _files(directory: Path, library: RunbookLibrary) -> Iterator[tuple[str, Problem | None]]:
    """Every Markdown file, by its path, or why it is not read."""
    root = os.path.realpath(directory)
    if not os.path.isdir(root):
        yield "", Problem(1, "is not a directory: see runbooks.directories")
        return
    for count, path in enumerate(_walked(root), start=1):
        full = os.path.join(root, path)
        if count > MOST_FILES:
            yield "", Problem(1, f"holds more than {MOST_FILES} runbooks; the others are not read")
            return
        if not path.isprintable():
            yield (
                "",
                Problem(1, f"holds {ascii(path)[:120]}, a name that cannot be shown; rename it"),
            )
        # With the separator, or `/runbooks-old` would count as inside of `/runbooks`.
        elif not os.path.realpath(full).startswith(root + os.sep):
            yield (
                path,
                Problem(
                    1, "is a symbolic link that leads out of the directory; copy the file into it"
                ),
            )
        elif path in library.runbooks:
            yield (
                path,
                Problem(
                    1, f"is not read: {library.file_of(library.runbooks[path])} has the same path"
                ),
            )
        else:
            yield path, None


def _walked(root: str) -> Iterator[str]:
    """Paths of Markdown files below the root, sorted in each directory; hidden ones and linked
    directories are not entered."""
    visited = 0
    for folder, folders, files in os.walk(root, followlinks=False):
        # In place: `os.walk` enters what is left in this list.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        visited += len(folders) + len(files)
        if visited > MOST_VISITED:
            return
        for name in sorted(files):
            if (
                name.lower().endswith(".md")
                and not name.startswith(".")
                and name.lower() not in NOT_RUNBOOKS
            ):
                yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def _read(directory: str, path: str, library: RunbookLibrary) -> Problem | None:
    try:
        full = Path(directory, path)
        if not full.is_file():
            return Problem(1, "is not a file")
        with full.open("rb") as file:
            # One byte more than the limit shows that the file is longer.
            data = file.read(LONGEST_FILE + 1)
        if len(data) > LONGEST_FILE:
            return Problem(1, f"is longer than {LONGEST_FILE // 1024} KiB")
        front = read_front_matter(data.decode())
    except UnicodeDecodeError as error:
        return Problem(1 + data[: error.start].count(b"\n"), "is not UTF-8 text")
    except OSError as error:
        return Problem(1, f"cannot be read: {error.strerror or type(error).__name__}")
    if isinstance(front, Problem):
        return front
    keys, problems = read_keys(front)
    runbook = Runbook(
        directory, path, hashlib.sha256(data).hexdigest()[:12], keys, front.text, front.lines
    )
    library.runbooks[path] = runbook
    library.problems += [FileProblem(library.file_of(runbook), p.line, p.text) for p in problems]
    return None


# Hosts that the settings name: links of runbooks may lead to these and to no others.


def linkable_hosts(settings: Settings) -> frozenset[str]:
    """Hosts of every address in the settings, of the configured vendors' own pages, and
    `runbooks.link_hosts`."""
    tables: list[Section] = [settings]
    for section in sections_that_repeat(type(settings)):
        tables += settings.instances(section)
    hosts = {host for url in addresses_in(tables) if (host := _host(url))}
    hosts |= {host.lower() for host in settings.runbooks.link_hosts}
    for view in settings.per_instance("datadog"):
        datadog = view.datadog
        if datadog.app_key is not None:
            hosts.add(datadog.app_host or APP_HOSTS.get(datadog.site, f"app.{datadog.site}"))
    return frozenset(hosts)


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
