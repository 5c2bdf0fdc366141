"""Reports of Nsight Systems among the files that a connector brought become exports, which the
analysis can read."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from faultline.analysis.errors import EvidenceError
from faultline.connectors.shared.contract.base import Collected, Item, Missing
from faultline.trace_report.nsight_reports import (
    EXPORT_SECONDS,
    exported,
    is_report,
    without_export,
)

PART_SECONDS = EXPORT_SECONDS
"""Longest exporting of all reports of one connector together."""
MAX_BYTES = 16 * 1024**3
"""Most that all exports of one connector may take (own: as much as its trace files)."""
KEEP_FREE_BYTES = 1024**3


def with_exports(collected: Collected, files: Path) -> Collected:
    """The same with exports in the place of reports below `files`; what cannot be exported stays,
    and is a gap."""
    waiting = without_export(sorted(p for p in files.rglob("*") if p.is_file() and is_report(p)))
    if not waiting:
        return collected
    items = {item.file: item for item in collected.items if item.file is not None}
    missing = list(collected.missing)
    ends = time.monotonic() + PART_SECONDS
    left = min(MAX_BYTES, max(0, shutil.disk_usage(files).free - KEEP_FREE_BYTES))
    for report in waiting:
        name = report.relative_to(files).as_posix()
        try:
            target = _in_place(report, name, left, ends - time.monotonic())
        except EvidenceError as error:
            item = items.get(name)
            missing.append(
                Missing(
                    "traces",
                    item.query if item else name,
                    error.problem,
                    item.source if item else None,
                )
            )
            continue
        left -= target.stat().st_size
        if name in items:
            items[name] = _exported_item(items[name], target, files)
    changed = tuple(
        items.get(item.file, item) if item.file is not None else item for item in collected.items
    )
    return replace(collected, items=changed, missing=tuple(missing))


def _in_place(report: Path, name: str, most_bytes: int, seconds: float) -> Path:
    """The export beside the report, which is removed."""
    if seconds <= 0:
        raise EvidenceError(
            name, f"the {PART_SECONDS:g} s for exporting reports were used up by others"
        )
    with tempfile.TemporaryDirectory(prefix="faultline-export-") as scratch:
        copy = exported(
            report, Path(scratch), name=Path(name).name, most_bytes=most_bytes, limit_s=seconds
        )
        target = report.with_suffix(".sqlite")
        shutil.move(copy, target)
    # Only now that the export is in its place.
    os.unlink(report)
    return target


def _exported_item(item: Item, target: Path, files: Path) -> Item:
    details = {**item.details, "exported": "by nsys, from the report that the link leads to"}
    return replace(
        item,
        file=target.relative_to(files).as_posix(),
        bytes=target.stat().st_size,
        details=details,
    )
