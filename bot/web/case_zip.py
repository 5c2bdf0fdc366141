"""A case folder as a zip archive, written while it is sent, without the label of a labelled
case."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = frozenset({"label.json"})
"""The truth of a labelled case: for those who judge answers, not for an investigation's readers."""
CHUNK = 256 * 1024
_STAGED = re.compile(r"#\d+$")
"""A file that is still being written: obstore's local store gives it this ending and renames it
when it is whole."""
_PACKED = frozenset({".parquet", ".gz", ".zst", ".png", ".zip"})


class _Pipe:
    """A file that can only be written to; what was written is taken away in pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


def case_files(folder: Path) -> list[Path]:
    """The files of the archive, sorted.

    Links are left out, they may lead outside of the case; so is what is still being written.
    """
    root = folder.resolve()
    listed = (
        Path(place) / name for place, _, names in os.walk(folder) for name in names
    )  # what goes is passed over
    return sorted(
        path
        for path in listed
        if path.is_file()
        and path.name not in LEFT_OUT
        and not _STAGED.search(path.name)
        and path.resolve() == root / path.relative_to(folder)
    )


class CaseArchive:
    """An archive of case folders, given out in pieces while it is written."""

    def __init__(self) -> None:
        self._pipe = _Pipe()
        self._archive = zipfile.ZipFile(self._pipe, "w")  # type: ignore[call-overload]

    def add_case(self, folder: Path, name: str) -> Iterator[bytes]:
        """The files of a case, below the directory `name`."""
        for path in case_files(folder):
            yield from _add(
                self._archive, self._pipe, path, f"{name}/{path.relative_to(folder).as_posix()}"
            )

    def add_file(self, name: str, data: bytes) -> bytes:
        """One more file."""
        self._archive.writestr(name, data, zipfile.ZIP_DEFLATED)
        return self._pipe.take()

    def end(self) -> bytes:
        """The archive's own index, which makes it whole."""
        self._archive.close()
        return self._pipe.take()


def zip_case(folder: Path, name: str) -> Iterator[bytes]:
    """The archive of one case in pieces; its files lie below the directory `name`."""
    archive = CaseArchive()
    yield from archive.add_case(folder, name)
    yield archive.end()


def _add(archive: zipfile.ZipFile, pipe: _Pipe, path: Path, name: str) -> Iterator[bytes]:
    try:
        # Zip has no time before 1980, which would raise an error otherwise.
        info = zipfile.ZipInfo.from_file(path, name, strict_timestamps=False)
        source = path.open("rb")
    except FileNotFoundError:  # gone since it was listed
        return
    info.compress_type = zipfile.ZIP_STORED if path.suffix in _PACKED else zipfile.ZIP_DEFLATED
    with source, archive.open(info, "w", force_zip64=True) as target:
        while piece := source.read(CHUNK):
            target.write(piece)
            if data := pipe.take():
                yield data
    if data := pipe.take():
        yield data
