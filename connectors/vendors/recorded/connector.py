"""A recorded case as the source of evidence: for the demo, and for trying things out. Nothing is
sent anywhere.

The recorded evidence keeps its own source, query and link. label.json is never read.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.case.tables import ORIGIN, SCHEMAS, read_table
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Alert, Evidence, EvidenceKind, Scope
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.contract.row_origins import KEYS
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.recorded import RecordedSettings

LIMITS = Limits(deadline_s=120, max_rows=50_000_000)
"""Wide: a recorded case is replayed whole."""


def build(
    recorded_settings: RecordedSettings, settings: SharedSettings
) -> RecordedConnector | None:
    """The configured connector, or None without a case."""
    case = recorded_settings.case
    return (
        RecordedConnector(case, limits=recorded_settings.limits(LIMITS))
        if case is not None
        else None
    )


class RecordedConnector:
    """Brings all tables, evidence, gaps and trace files of one case folder, whatever is asked."""

    name = "recorded"
    kinds: tuple[EvidenceKind, ...] = (
        "metrics",
        "logs",
        "spans",
        "changes",
        "topology",
        "monitors",
        "states",
        "traces",
    )

    def __init__(self, case: Path, *, limits: Limits = LIMITS) -> None:
        self._case = case
        self.limits = limits

    def alert(self) -> Alert:
        """The recorded alert. Raises EvidenceError."""
        return read_case(self._case).alert

    def scope(self) -> Scope:
        """The recorded windows: the times of a recorded case are not moved. Raises
        EvidenceError."""
        return read_case(self._case).scope

    async def collect(self, request: Request) -> Collected:
        """The case as recorded. A table that cannot be read becomes a gap."""
        return await asyncio.to_thread(self._collect, request.files)

    async def check(self) -> Check:
        """Can the case be read?"""
        try:
            line = await asyncio.to_thread(self._summary)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        return Check(self.name, True, line)

    def _collect(self, files: Path) -> Collected:
        case = read_case(self._case)
        tables: dict[str, pl.DataFrame] = {}
        missing = [Missing(gap.kind, gap.query, gap.reason, gap.source) for gap in case.gaps]
        for name in SCHEMAS:
            try:
                table = read_table(self._case, name)
            except FaultlineError as error:
                missing.append(Missing(name, name, str(error)))  # type: ignore[arg-type]
                continue
            if table.height:
                tables[name] = table
        copied = dict(_copied(case, files))
        # A kind with a gap and no table has no evidence that could be cited.
        without_table = {gap.kind for gap in missing} - set(tables)
        items: list[Item] = []
        for evidence in case.evidence:
            for item in _items(evidence, tables, copied):
                if item.kind not in without_table:
                    items.append(item)
        return Collected(tables, tuple(items), tuple(missing))

    def _summary(self) -> str:
        case = read_case(self._case)
        parts: list[str] = []
        for name in SCHEMAS:
            rows = read_table(self._case, name).height
            if rows:
                parts.append(f"{rows:,} rows of {name}")
        if case.trace_files:
            parts.append(f"{len(case.trace_files)} trace files")
        contents = ", ".join(parts) or "an alert alone"
        return f"recorded case {self._case.name}: {contents}; nothing is sent anywhere"


def _copied(case: Case, files: Path) -> Iterator[tuple[str, int]]:
    """Copy the case's trace files below `files`; yields names there and sizes. Links that lead out
    stay behind."""
    root = (case.path / "traces").resolve()
    for path in case.trace_files:
        if not path.resolve().is_relative_to(root):
            continue
        name = path.relative_to(case.path / "traces")
        target = files / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        yield name.as_posix(), target.stat().st_size


def _items(
    evidence: Evidence, tables: dict[str, pl.DataFrame], copied: dict[str, int]
) -> Iterator[Item]:
    """The recorded entry as an item; one that stands for the whole traces folder becomes an item
    per file."""
    if evidence.kind == "traces":
        name = (evidence.file or "").removeprefix("traces").lstrip("/")
        # An entry names a file or a folder. Without a name it stands for all files.
        trace_files = [f for f in copied if f == name or f.startswith(f"{name}/") or not name]
        for file in trace_files:
            yield _item(evidence, file, None, copied[file])
        # Evidence whose files were not recorded still tells what was asked.
        if not trace_files:
            yield _item(evidence, None, evidence.rows, evidence.bytes)
        return
    table = tables.get(evidence.kind)
    rows = evidence.rows if evidence.rows is not None or table is None else table.height
    item = _item(evidence, None, rows, evidence.bytes)
    for name in KEYS:
        if name in tables:
            # Each row names the evidence that brought it: keep that reference.
            evidence_rows = tables[name].filter(pl.col(ORIGIN) == evidence.id)
            item = item.bringing(name, evidence_rows) if evidence_rows.height else item
    yield item


def _item(evidence: Evidence, file: str | None, rows: int | None, size: int | None) -> Item:
    return Item(
        evidence.kind,
        evidence.query,
        window=evidence.window,
        link=evidence.link,
        file=file,
        rows=rows,
        bytes=size,
        cut=evidence.cut,
        source=evidence.source,
        services=evidence.services,
        signals=evidence.signals,
        changes=evidence.changes,
    )
