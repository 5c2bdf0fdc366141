"""Files of a case folder, which may come from a stranger: only regular files of a bounded size are
read, and no link leads out of the folder."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from faultline.analysis.errors import EvidenceError

MAX_JSON_BYTES = 64 * 1024 * 1024
"""One JSON file. The largest that the bot writes, findings.json of a training job, has a few MB."""
MAX_TABLE_BYTES = 1024 * 1024 * 1024
"""One Parquet table, about ten times what connectors may bring (`max_mb` of each)."""
MAX_TEXT_TABLE_BYTES = 256 * 1024 * 1024
"""One table as CSV or JSON lines. Each row becomes an object several times its size."""


def is_there(path: Path) -> bool:
    """Whether the folder has an entry of that name, of whatever type."""
    return os.path.lexists(path)


def check_regular(path: Path, max_bytes: int) -> None:
    """Raises EvidenceError unless this is a regular file of its folder with at most `max_bytes`."""
    try:
        if path.is_symlink() and not leads_inside(path, path.parent):
            raise EvidenceError(path.name, "is a link that leads out of the case folder")
        status = path.stat()
    except FileNotFoundError as error:
        raise EvidenceError(path.name, "is missing") from error
    except OSError as error:
        raise EvidenceError(path.name, f"cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise EvidenceError(path.name, "is not a regular file")
    if status.st_size > max_bytes:
        raise EvidenceError(
            path.name, f"has {status.st_size:,} bytes, more than the limit of {max_bytes:,}"
        )


def leads_inside(path: Path, folder: Path) -> bool:
    """Whether the file lies in the folder once all links are followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    # A loop of links: an OSError from Python 3.13 on.
    except (OSError, RuntimeError):
        return False


def place_copy(entry: Path, target: Path) -> None:
    """Put a file or folder of a case into another case without copying its bytes where both are on
    one disk. Links stay links."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.copytree(entry, target, symlinks=True, copy_function=_link_or_copy)
    else:
        _link_or_copy(str(entry), str(target))


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
