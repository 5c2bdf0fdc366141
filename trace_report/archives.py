"""Archives of traces (.zip, .tar, .tar.gz, ...): their members as files below a scratch folder.

Members are copied as a stream, under names that cannot leave the folder. What is left out is said:
links, encrypted or broken members, members that unpack to far more than they hold (compression
bombs), and what is over the budget.
"""

from __future__ import annotations

import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from faultline.analysis.errors import BudgetExceeded, EvidenceError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MAX_MEMBERS = 20_000
BLOCK_BYTES = 1 << 20
BOMB_BYTES, BOMB_RATIO = 64 << 20, 250
"""A member that has unpacked to more than BOMB_BYTES and to more than BOMB_RATIO times its packed
size is a bomb. Profiler traces pack to between 1/5 and 1/40; zeros to 1/1000."""
ARCHIVE_BYTES, ARCHIVE_RATIO = 2 << 30, 60
"""All members of one archive together may unpack to ARCHIVE_BYTES, or to ARCHIVE_RATIO times its
size."""
MAX_TAR_HEADER = 1 << 20
"""Longest name or set of attributes of a member; Python's reader takes any length into memory."""
_PART = re.compile(r"[^A-Za-z0-9._=+@-]")
_BROKEN = (OSError, EOFError, RuntimeError, NotImplementedError, ValueError, zlib.error)
_BROKEN_ARCHIVE = (*_BROKEN, zipfile.BadZipFile, tarfile.TarError)

_Member = tuple[str, int, Callable[[], AbstractContextManager[IO[bytes]]]]
"""Name in the archive, packed bytes (of the whole archive in a tar), and how to open it."""


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive."""
    return name.lower().endswith(SUFFIXES)


@dataclass
class ScratchFolder:
    """A folder for copies, and how much may still be written to it."""

    folder: Path
    bytes_left: int
    files_left: int = MAX_MEMBERS
    problems: list[tuple[str, str]] = field(default_factory=list)
    """(file, why it was left out)."""
    _numbers: dict[str, int] = field(default_factory=dict)
    """How often a name came."""

    def copy(self, name: str, blocks: Iterator[bytes]) -> Path:
        """Write a file. Raises BudgetExceeded where it does not fit; no part of it remains
        then."""
        if self.files_left <= 0:
            raise BudgetExceeded("files", str(MAX_MEMBERS))
        target = self._free_name(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            # "x" never overwrites a file, nor follows a link.
            with target.open("xb") as out:
                for block in blocks:
                    if len(block) > self.bytes_left:
                        raise BudgetExceeded("size", "scratch space")
                    self.bytes_left -= len(block)
                    out.write(block)
        except BaseException:
            # Also on Ctrl-C: give the space back and leave no partial copy.
            self.bytes_left += target.stat().st_size if target.exists() else 0
            target.unlink(missing_ok=True)
            raise
        self.files_left -= 1
        return target

    def _free_name(self, name: str) -> Path:
        safe = safe_name(name)
        target = self.folder / safe
        while target.exists():
            number = self._numbers[safe] = self._numbers.get(safe, 1) + 1
            target = self.folder / f"{number}" / safe
        return target


def safe_name(name: str) -> str:
    """A relative path that stays where it is put, from any name: the last eight parts, of plain
    characters."""
    # Archives from Windows may separate folders by backslashes.
    parts = [_PART.sub("_", part)[-200:] for part in PurePosixPath(name.replace("\\", "/")).parts]
    remaining_parts = [part for part in parts if part not in ("", ".", "..", "_")][-8:]
    return "/".join(remaining_parts) or "file"


def unpacked(archive: Path, scratch: ScratchFolder) -> Iterator[tuple[str, Path]]:
    """(name in the archive, copy) of every file that can be copied; `scratch.problems` lists the
    others.

    Raises EvidenceError when the archive cannot be read at all.
    """
    is_zip = archive.name.lower().endswith(".zip")
    limit = max(ARCHIVE_BYTES, ARCHIVE_RATIO * archive.stat().st_size)
    members = _zip_members(archive) if is_zip else _tar_members(archive, limit)
    count = 0
    room = _Room(limit)
    try:
        for name, packed, opened in members:
            count += 1
            if count > MAX_MEMBERS:
                scratch.problems.append(
                    (archive.name, f"has more than {MAX_MEMBERS:,} files: the rest is left out")
                )
                return
            try:
                with opened() as file:
                    path = scratch.copy(name, room.taken(_no_bomb(file, packed)))
            except BudgetExceeded as limit:
                scratch.problems.append((name, str(limit)))
                if scratch.files_left <= 0 or room.left <= 0:
                    return
            except _BROKEN_ARCHIVE as error:
                scratch.problems.append((name, _why(error)))
                if not is_zip:
                    # A tar is one stream: behind a broken member nothing can be read.
                    return
            else:
                yield name, path
    except _BROKEN_ARCHIVE as error:
        if not count:
            raise EvidenceError(
                archive.name, f"is not an archive that can be read ({_why(error)})"
            ) from error
        scratch.problems.append((archive.name, f"ends early ({_why(error)})"))


@dataclass
class _Room:
    """What one archive may still unpack to, members that are then left out included."""

    left: int

    def taken(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.left -= len(block)
            if self.left <= 0:
                raise BudgetExceeded("size", "one archive")
            yield block


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [""])[0][:120] or type(error).__name__


def _no_bomb(file: IO[bytes], packed: int) -> Iterator[bytes]:
    got = 0
    while block := file.read(BLOCK_BYTES):
        got += len(block)
        if got > BOMB_BYTES and got > BOMB_RATIO * max(packed, 1):
            raise ValueError(
                f"unpacks to more than {BOMB_RATIO} times its size: a compression bomb"
            )
        yield block


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if not info.is_dir():
                yield info.filename, info.compress_size, partial(opened.open, info)


def _tar_members(archive: Path, limit: int) -> Iterator[_Member]:
    passed = 0
    # Read as a stream: going back in a packed tar would unpack it again.
    with tarfile.open(archive, "r|*", tarinfo=_BoundedHeader) as opened:
        for info in opened:
            passed += info.size
            if passed > limit:  # also what is left out has to be unpacked to get past it
                raise ValueError(f"unpacks to more than {limit:,} bytes")
            # Links and devices are left out: they may lead elsewhere.
            file = opened.extractfile(info) if info.isreg() else None
            if file is not None:
                yield info.name, archive.stat().st_size, partial(_as_it_is, file)


class _BoundedHeader(tarfile.TarInfo):
    _LONG = (*tarfile.GNU_TYPES[:2], tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in self._LONG and self.size > MAX_TAR_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]


def _as_it_is(file: IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(file)
