"""The note that `faultline capture` leaves beside the files it brought: when each of them was asked
for.

A file of a running job says little without that moment: a collective that was pending for 0.1 s is
work, one that was pending for a minute is a hang.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

NAME = "capture.json"
MAX_BYTES = 16 << 20


def taken_at(notes: Iterable[Path]) -> dict[str, int]:
    """Path of a file beside a note -> ns since 1970 at which it was asked for. A broken note tells
    nothing."""
    takens: dict[str, int] = {}
    for note in notes:
        try:
            if note.stat().st_size > MAX_BYTES:
                continue
            files = json.loads(note.read_bytes())["files"]
            takens |= {str(note.parent / name): ns for name, ns in map(_moment, files) if name}
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
            continue
    return takens


def _moment(file: Mapping[str, Any]) -> tuple[str, int]:
    """Its name and moment; no name where the note does not say when, or names a file elsewhere."""
    name, taken = str(file["path"]), file.get("taken")
    if not taken or "/" in name:
        return "", 0
    when = datetime.fromisoformat(str(taken))
    if when.tzinfo is None:
        return "", 0
    return name, int(when.timestamp() * 1e6) * 1000
