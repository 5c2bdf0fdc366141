"""What a capture brought: files with their rank, process and host, and gaps with their reasons."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from faultline.analysis.traces.reading.capture_note import NAME
from faultline.bot.store.follow_ups import CaptureStatus

FileKind = Literal["trace", "stacks", "flight_recorder"]
MAX_TEXT = 2000


@dataclass(frozen=True)
class CapturedFile:
    """One file. What is not known is None: a trace on demand tells its rank only where the profiler
    knows it."""

    path: Path
    kind: FileKind
    host: str
    pid: int | None = None
    rank: int | None = None
    taken: datetime | None = None
    """When it was asked for."""


@dataclass(frozen=True)
class CaptureGap:
    """What is missing, and why."""

    where: str
    why: str


@dataclass(frozen=True)
class MethodResult:
    """What one way of capturing brought. `counts`: whether any machine was, or may have been, asked
    to record."""

    files: tuple[CapturedFile, ...] = ()
    gaps: tuple[CaptureGap, ...] = ()
    counts: bool = True
    refusal: str | None = None
    start: datetime | None = None


@dataclass(frozen=True)
class CaptureResult:
    """One capture, whatever its result."""

    id: str
    job: str
    status: CaptureStatus
    folder: Path
    files: tuple[CapturedFile, ...] = ()
    gaps: tuple[CaptureGap, ...] = ()
    refusal: str | None = None
    start: datetime | None = None

    @property
    def text(self) -> str:
        """The result on one line, for the record."""
        if self.refusal:
            return single_line(self.refusal)
        text = "; ".join(f"{gap.where}: {gap.why}" for gap in self.gaps)
        return single_line(
            f"files: {len(self.files)}, gaps: {len(self.gaps)}{' (' + text + ')' if text else ''}"
        )

    def write_note(self) -> None:
        """Say beside the files whose they are."""
        value = {
            "capture": self.id,
            "job": self.job,
            "start": self.start.isoformat() if self.start else None,
            "files": [_noted(file) for file in self.files],
            "gaps": [asdict(gap) for gap in self.gaps],
        }
        (self.folder / NAME).write_text(json.dumps(value, indent=1), encoding="utf-8")


def _noted(file: CapturedFile) -> dict[str, object]:
    taken = file.taken.isoformat() if file.taken else None
    # The note lies beside the files, so their names are enough.
    return asdict(file) | {"path": file.path.name, "taken": taken}


def status_of(method_result: MethodResult) -> CaptureStatus:
    """The word for it in the record."""
    if method_result.refusal:
        return "refused"
    if not method_result.files:
        return "failed"
    return "partial" if method_result.gaps else "recorded"


def single_line(text: str) -> str:
    """Foreign text fit for one line."""
    # Cut before cleaning: a foreign text may have any length.
    clean = " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * MAX_TEXT]).split())
    return clean if len(clean) <= MAX_TEXT else clean[: MAX_TEXT - 1] + "…"
