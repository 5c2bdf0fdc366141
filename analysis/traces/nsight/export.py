"""One SQLite export of Nsight Systems: one `TraceColumns` per process that used a GPU or has
ranges.

Tables exist only where they have rows, and old schemas write defaults for NULL, so every table and
column is optional. Times are int64 ns since the session's start, which
TARGET_INFO_SESSION_START_TIME places in UTC. Source: the schema in NVIDIA's Nsight Systems User
Guide, "SQLite Schema Reference".
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import (
    ArgumentColumns,
    Bool,
    Int32,
    Int64,
    SparseNumbers,
    SparseTexts,
    TraceColumns,
    nothing,
)
from faultline.analysis.traces.nsight.tables import GPU_CATEGORIES, TABLES, ExportPart, Strings
from faultline.analysis.traces.reading.file_kinds import rank_in_name
from faultline.analysis.traces.reading.hostile_sqlite import Database
from faultline.analysis.traces.reading.trace_bytes import unpacked_blocks

FORMAT = "Nsight Systems export"
MAX_PROCESSES = 256
"""Most processes of one export that become traces (our choice: one node has 16 GPUs)."""


def read_export(path: Path) -> list[TraceColumns]:
    """All processes of the export, by GPU and process id; ranks are counted in that order, unless
    there is one process and the file's name says its rank.

    One that is packed (`.gz`) is unpacked for the time of the call. Raises EvidenceError, one line,
    when the file is no SQLite export of Nsight Systems, or is empty.
    """
    if path.suffix.lower() != ".gz":
        return _read(path, path)
    with tempfile.NamedTemporaryFile(prefix="faultline-export-", suffix=".sqlite") as plain:
        dropped: Counter[str] = Counter()
        for block in unpacked_blocks(path, dropped):
            plain.write(block)
        plain.flush()
        if dropped:
            raise EvidenceError(path.name, next(iter(dropped)))
        return _read(Path(plain.name), path)


def _read(path: Path, named: Path) -> list[TraceColumns]:
    with Database(path) as database:
        if "StringIds" not in database.tables:
            raise EvidenceError(
                named.name,
                "is a SQLite file, but no export of Nsight Systems (it has no StringIds)",
            )
        strings = Strings(database)
        parts = []
        for read_table in TABLES:
            part = read_table(strings)
            if len(part.start):
                parts.append(part)
        if not parts:
            raise EvidenceError(named.name, "has no GPU work, no CUDA calls and no NVTX ranges")
        traces = _Export(strings).traces(named.name, parts)
    # The name of an export of several processes is no rank of any of them.
    rank = rank_in_name(named) if len(traces) == 1 else None
    if rank is None:
        return traces
    return [replace(traces[0], rank=rank, rank_source="file name", world_size=None)]


class _Export:
    """What the tables hold, put together process by process."""

    def __init__(self, strings: Strings) -> None:
        self.strings, self.database = strings, strings.database

    def traces(self, file: str, parts: Sequence[ExportPart]) -> list[TraceColumns]:
        """One trace per process that did GPU work or, where none did, per process that has
        anything."""
        on_gpu = [part for part in parts if part.category in GPU_CATEGORIES]
        devices: dict[int, float] = {}
        for part in on_gpu or parts:
            for process, device in _lowest_devices(part).items():
                devices[process] = min(devices.get(process, device), device)
        # A rank's number usually follows its device's.
        order = sorted(devices, key=lambda process: (devices[process], process))[:MAX_PROCESSES]
        traces = []
        for rank, process in enumerate(order):
            traces.append(self._trace(file, rank, process, parts, len(order)))
        return traces

    def _trace(
        self, file: str, rank: int, process: int, parts: Sequence[ExportPart], world: int
    ) -> TraceColumns:
        masked_parts = [(part, part.process == process) for part in parts]
        base, header, host = self._session()
        lanes: dict[tuple[str, str], int] = {}
        categories: dict[str, int] = {}
        start = np.concatenate([part.start[mask] for part, mask in masked_parts])
        end = np.concatenate([part.end[mask] for part, mask in masked_parts])
        lane = np.concatenate([_lane_ids(part, mask, lanes) for part, mask in masked_parts])
        category = np.concatenate(
            [
                np.full(
                    int(mask.sum()),
                    categories.setdefault(part.category, len(categories)),
                    dtype=np.int32,
                )
                for part, mask in masked_parts
            ]
        )
        position = np.arange(len(start), dtype=np.int64)
        # Bound the times, so that no sum with `base` overflows an int64.
        sane = (end >= start) & (start >= 0) & (end < 2**62 - base)
        trace = TraceColumns(
            file=file,
            rank=rank,
            rank_source="order",
            world_size=world,
            host=host,
            ts=start + base,
            dur=end - start,
            name=np.concatenate([part.name[mask] for part, mask in masked_parts]),
            category=category,
            lane=lane,
            names=tuple(self.strings.names),
            categories=tuple(categories),
            lanes=tuple(lanes),
            event=position,
            offset=nothing(len(start)),
            stream=_joined(masked_parts, "stream"),
            correlation=_joined(masked_parts, "correlation"),
            external_id=nothing(len(start)),
            python_id=nothing(len(start)),
            python_parent_id=nothing(len(start)),
            arguments=_arguments(masked_parts),
            header=header,
            format=FORMAT,
            dropped=self._dropped(),
        )
        if sane.all():
            return trace
        lost = {"events with a time outside the trace": int((~sane).sum())}
        return replace(trace.select(sane), dropped={**trace.dropped, **lost})

    def _session(self) -> tuple[int, dict[str, Any], str | None]:
        """UTC ns of the session's start, what else is known of it, and the host's name."""
        session = self.database.numbers("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",), 0)
        system = self._pairs("TARGET_INFO_SYSTEM_ENV")
        export = self._pairs("META_DATA_EXPORT")
        header: dict[str, Any] = {
            "nsight_version": export.get("EXPORT_PRODUCT_VERSION", "")[:64],
            "export_schema": export.get("EXPORT_SCHEMA_VERSION", "")[:64],
        }
        devices = self._devices()
        if devices:
            header["deviceProperties"] = devices
        began = 0
        base = session["utcEpochNs"]
        if len(base) and 0 <= int(base[0]) < 2**62:
            began = int(base[0])
        return began, header, system.get("Hostname", "")[:256] or None

    def _devices(self) -> list[dict[str, Any]]:
        """The GPUs, by the names of Kineto's deviceProperties."""
        names = self.database.texts("TARGET_INFO_GPU", ("name",), limit=64)
        numbers = self.database.numbers(
            "TARGET_INFO_GPU", ("totalMemory", "computeMajor", "computeMinor", "smCount")
        )
        devices = []
        for i, (name,) in enumerate(names):
            devices.append(
                {
                    "id": i,
                    "name": name[:128],
                    "totalGlobalMem": int(numbers["totalMemory"][i]),
                    "computeMajor": int(numbers["computeMajor"][i]),
                    "computeMinor": int(numbers["computeMinor"][i]),
                    "numSms": int(numbers["smCount"][i]),
                }
            )
        return devices

    def _pairs(self, table: str) -> dict[str, str]:
        rows = self.database.texts(table, ("name", "value"), limit=1000)
        return {row[0]: row[1] for row in rows}

    def _dropped(self) -> dict[str, int]:
        lost = {reason: count for reason, count in self.strings.dropped.items() if count}
        for table, count in self.database.cut.items():
            lost[f"rows of {table} after {count}"] = 1
        return lost


def _lowest_devices(part: ExportPart) -> dict[int, float]:
    """The lowest device that each process of a part used."""
    device = part.numbers.get("device")
    if device is None:
        # Tables of the host name no device.
        device = np.zeros(len(part.start))
    processes, which = np.unique(part.process, return_inverse=True)
    lowest = np.full(len(processes), np.inf)
    np.minimum.at(lowest, which, device)
    return dict(zip(processes.tolist(), lowest.tolist(), strict=True))


def _lane_ids(part: ExportPart, mask: Bool, lanes: dict[tuple[str, str], int]) -> Int32:
    used = np.unique(part.lane_of[mask])
    table = np.full(len(part.lane), -1, dtype=np.int32)
    for i in used.tolist():
        table[i] = lanes.setdefault(part.lane[i], len(lanes))
    return np.asarray(table[part.lane_of[mask]], dtype=np.int32)


def _joined(masked_parts: Sequence[tuple[ExportPart, Bool]], what: str) -> Int64:
    columns = []
    for part, mask in masked_parts:
        values = getattr(part, what)
        columns.append(nothing(int(mask.sum())) if values is None else values[mask])
    return np.concatenate(columns)


def _arguments(masked_parts: Sequence[tuple[ExportPart, Bool]]) -> ArgumentColumns:
    rows_of: dict[str, list[Int32]] = {}
    values_of: dict[str, list[Any]] = {}
    texts: dict[str, SparseTexts] = {}
    at = 0
    for part, mask in masked_parts:
        rows = np.arange(at, at + int(mask.sum()), dtype=np.int32)
        at += len(rows)
        for key, values in part.numbers.items():
            rows_of.setdefault(key, []).append(rows)
            values_of.setdefault(key, []).append(values[mask])
        for key, (ids, words) in part.texts.items():
            # Each text argument stands in one table only.
            if key not in texts:
                texts[key] = SparseTexts(rows, ids[mask], words)
    numbers = {}
    for key, row_arrays in rows_of.items():
        numbers[key] = SparseNumbers(np.concatenate(row_arrays), np.concatenate(values_of[key]))
    return ArgumentColumns(numbers, texts)
