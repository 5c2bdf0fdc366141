"""The tables of an export, each as rows of one category; names are worded as in profiler traces."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from faultline.analysis.traces.columns.events import Int32, Int64
from faultline.analysis.traces.reading.hostile_sqlite import Database

COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP",
          11: "HtoD", 12: "DtoH", 13: "DtoD"}  # fmt: skip
"""CUPTI's copy kinds, worded as in profiler traces; from 11 on those of unified memory."""
MEMORY = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device",
    6: "Managed",
}
SYNCS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
RANGES = (59, 60, 70, 71)
"""NVTX push/pop and start/end ranges; marks have no length."""
OPERATOR = re.compile(r"^(.*?), (?:op_id|seq) = ")
"""`torch.autograd.profiler.emit_nvtx` appends ", seq = 4, op_id = 17, sizes = ..." to an operator's
name."""
_VERSION = re.compile(r"_v\d+(?:_ptsz|_ptds)?$")
"""`cudaLaunchKernel_v7000`, as Nsight names calls."""
NO_NAME = "(unnamed)"


@dataclass(frozen=True)
class ExportPart:
    """Rows of one table."""

    process: Int64
    start: Int64
    end: Int64
    name: Int32
    category: str
    lane: list[tuple[str, str]]
    lane_of: Int32
    stream: Int64 | None = None
    correlation: Int64 | None = None
    numbers: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = field(default_factory=dict)
    texts: dict[str, tuple[Int32, tuple[str, ...]]] = field(default_factory=dict)


class Strings:
    """The export's strings, and the names given to its rows."""

    def __init__(self, database: Database) -> None:
        self.database = database
        ids = database.numbers("StringIds", ("id",))["id"].tolist()
        words = [row[0] for row in database.texts("StringIds", ("value",))]
        self._strings: dict[int, str] = dict(zip(ids, words, strict=False))
        self.names: dict[str, int] = {}
        self.dropped: dict[str, int] = {}

    def name(self, text: str) -> int:
        """The id of a name."""
        return self.names.setdefault(text or NO_NAME, len(self.names))

    def named(self, ids: Int64, worded: Callable[[str], str] = str) -> Int32:
        """Name ids of string ids."""
        unique, back = np.unique(ids, return_inverse=True)
        table = [self.name(worded(self._strings.get(i, ""))) for i in unique.tolist()]
        return np.asarray(table, dtype=np.int32)[back]

    def string(self, key: int) -> str:
        """A string by its id; "" where there is none."""
        return self._strings.get(key, "")


def _kernels(strings: Strings) -> ExportPart:
    columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid",
               "demangledName", "shortName", "registersPerThread", "gridX", "gridY", "gridZ",
               "blockX", "blockY", "blockZ", "staticSharedMemory",
               "dynamicSharedMemory")  # fmt: skip
    rows = strings.database.numbers("CUPTI_ACTIVITY_KIND_KERNEL", columns)
    # -1 stands for a name that the export lacks.
    names = np.where(rows["demangledName"] >= 0, rows["demangledName"], rows["shortName"])
    shared = np.maximum(rows["staticSharedMemory"], 0) + np.maximum(rows["dynamicSharedMemory"], 0)
    return _on_gpu(
        rows,
        "kernel",
        strings.named(names),
        {
            "registers per thread": rows["registersPerThread"].astype(float),
            "shared memory": shared.astype(float),
        },
        {"grid": _triple(rows, "grid"), "block": _triple(rows, "block")},
    )


def _graphs(strings: Strings) -> ExportPart:
    """Whole CUDA graphs, where the capture did not look into them."""
    columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphId")
    rows = strings.database.numbers("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns)
    names = np.asarray(
        [strings.name(f"CUDA graph {i}") for i in rows["graphId"].tolist()], dtype=np.int32
    )
    return _on_gpu(rows, "kernel", names, {"graph id": rows["graphId"].astype(float)}, {})


def _copies(strings: Strings) -> ExportPart:
    columns = (
        "start",
        "end",
        "deviceId",
        "streamId",
        "correlationId",
        "globalPid",
        "bytes",
        "copyKind",
        "srcKind",
        "dstKind",
    )
    rows = strings.database.numbers("CUPTI_ACTIVITY_KIND_MEMCPY", columns)
    keys = zip(
        rows["copyKind"].tolist(), rows["srcKind"].tolist(), rows["dstKind"].tolist(), strict=True
    )
    names = [
        strings.name(
            f"Memcpy {COPIES.get(k, 'Unknown')} ({MEMORY.get(a, 'Unknown')} -> "
            f"{MEMORY.get(b, 'Unknown')})"
        )
        for k, a, b in keys
    ]
    return _on_gpu(rows, "gpu_memcpy", np.asarray(names, dtype=np.int32), _transfer(rows), {})


def _fills(strings: Strings) -> ExportPart:
    columns = (
        "start",
        "end",
        "deviceId",
        "streamId",
        "correlationId",
        "globalPid",
        "bytes",
        "memKind",
    )
    rows = strings.database.numbers("CUPTI_ACTIVITY_KIND_MEMSET", columns)
    names = [strings.name(f"Memset ({MEMORY.get(k, 'Unknown')})") for k in rows["memKind"].tolist()]
    return _on_gpu(rows, "gpu_memset", np.asarray(names, dtype=np.int32), _transfer(rows), {})


def _synchronisations(strings: Strings) -> ExportPart:
    columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "syncType")
    rows = strings.database.numbers("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", columns)
    names = [strings.name(SYNCS.get(kind, "Sync")) for kind in rows["syncType"].tolist()]
    return _on_gpu(rows, "cuda_sync", np.asarray(names, dtype=np.int32), {}, {})


def _calls(strings: Strings) -> ExportPart:
    rows = strings.database.numbers(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        ("start", "end", "eventClass", "globalTid", "correlationId", "nameId"),
    )
    return _on_host(
        rows, "cuda_runtime", strings.named(rows["nameId"], lambda name: _VERSION.sub("", name))
    )


def _ranges(strings: Strings, operators: bool) -> ExportPart:
    rows = strings.database.numbers(
        "NVTX_EVENTS", ("start", "end", "eventType", "globalTid", "textId")
    )
    texts = [text for (text,) in strings.database.texts("NVTX_EVENTS", ("text",))]
    # The column may be missing: pad, so that each row has a text.
    texts += [""] * (len(rows["textId"]) - len(texts))
    text = [
        text or strings.string(i) for text, i in zip(texts, rows["textId"].tolist(), strict=False)
    ]
    matches = [OPERATOR.match(text) for text in text]
    # A range that never ended has no end, or 0 in old schemas.
    is_complete = (
        np.isin(rows["eventType"], RANGES) & (rows["end"] >= rows["start"]) & (rows["end"] > 0)
    )
    mine = is_complete & np.asarray(
        [(match is not None) == operators for match in matches], dtype=np.bool_
    )
    if not operators:
        strings.dropped["NVTX marks and ranges that never end"] = int((~is_complete).sum())
    rows = {key: values[mine] for key, values in rows.items()}
    names = [
        strings.name(matches[i][1] if operators else text[i])  # type: ignore[index]
        for i in np.flatnonzero(mine).tolist()
    ]
    return _on_host(
        rows, "cpu_op" if operators else "user_annotation", np.asarray(names, dtype=np.int32)
    )


def _overheads(strings: Strings, table: str) -> ExportPart:
    rows = strings.database.numbers(table, ("start", "end", "globalTid", "nameId"))
    return _on_host(rows, "overhead", strings.named(rows["nameId"]))


def _system_calls(strings: Strings) -> ExportPart:
    rows = strings.database.numbers("OSRT_API", ("start", "end", "globalTid", "nameId"))
    return _on_host(rows, "os_runtime", strings.named(rows["nameId"]))


GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
TABLES: tuple[Callable[[Strings], ExportPart], ...] = (
    lambda strings: _ranges(strings, operators=True),
    lambda strings: _ranges(strings, operators=False),
    _calls,
    _kernels,
    _graphs,
    _copies,
    _fills,
    _synchronisations,
    lambda strings: _overheads(strings, "PROFILER_OVERHEAD"),
    lambda strings: _overheads(strings, "CUPTI_ACTIVITY_KIND_OVERHEAD"),
    _system_calls,
)


def _on_gpu(
    rows: dict[str, Int64],
    category: str,
    names: Int32,
    numbers: dict[str, np.ndarray[Any, np.dtype[np.float64]]],
    texts: dict[str, tuple[Int32, tuple[str, ...]]],
) -> ExportPart:
    pairs = np.stack((rows["deviceId"], rows["streamId"]), axis=1)
    lanes, lane_of = np.unique(pairs, axis=0, return_inverse=True)
    # 2**32 - 1 stands for no stream.
    stream = np.where(
        (rows["streamId"] >= 0) & (rows["streamId"] < 2**32 - 1), rows["streamId"], -1
    )
    return ExportPart(
        process=(rows["globalPid"] >> 24) & 0xFFFFFF,
        start=rows["start"],
        end=rows["end"],
        name=names,
        category=category,
        lane=[(str(device), f"stream {number}") for device, number in lanes.tolist()],
        lane_of=lane_of.reshape(-1).astype(np.int32),
        stream=stream,
        correlation=rows["correlationId"],
        numbers=numbers | {"device": rows["deviceId"].astype(float)},
        texts=texts,
    )


def _on_host(rows: dict[str, Int64], category: str, names: Int32) -> ExportPart:
    # The process id is in bits 24 to 47 of the global id, the thread id below.
    process, thread = (rows["globalTid"] >> 24) & 0xFFFFFF, rows["globalTid"] & 0xFFFFFF
    lanes, lane_of = np.unique(np.stack((process, thread), axis=1), axis=0, return_inverse=True)
    return ExportPart(
        process=process,
        start=rows["start"],
        end=rows["end"],
        name=names,
        category=category,
        lane=[(str(pid), str(tid)) for pid, tid in lanes.tolist()],
        lane_of=lane_of.reshape(-1).astype(np.int32),
        correlation=rows.get("correlationId"),
    )


def _transfer(rows: dict[str, Int64]) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Bytes per ns are GB/s."""
    took = np.maximum(rows["end"] - rows["start"], 1)
    size = rows["bytes"].astype(float)
    return {"bytes": size, "memory bandwidth (GB/s)": np.maximum(size, 0) / took}


def _triple(rows: dict[str, Int64], what: str) -> tuple[Int32, tuple[str, ...]]:
    shape = np.stack([rows[f"{what}{axis}"] for axis in "XYZ"], axis=1)
    unique, back = np.unique(shape, axis=0, return_inverse=True)
    return back.reshape(-1).astype(np.int32), tuple(f"[{x},{y},{z}]" for x, y, z in unique.tolist())
