"""Events to columns by the compiled scanner; the reference is
analysis/traces/reading/python_lane.py.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import NUMBERS, TEXTS
from faultline.analysis.traces.reading.event_scanner import (
    LINKS,
    MEMORY_KEYS,
    Outcome,
    ScanLimits,
    Scanned,
    lost_reasons,
    spellings,
    split_label,
    split_pair,
)

# Finds and loads the compiled library; says why there is none.

EDITABLE_FOLDER = "_faultline_native"
"""The folder in site-packages that hatch_build.py puts the library of an editable install into. A
wheel has it beside this file."""
SUFFIXES = (".so", ".dylib", ".dll")
VERSION = 3
"""Of what the functions take and give; the library's own must be the same."""

BUILT_FOR = ("x86_64", "amd64", "aarch64", "arm64")
"""Machines with a compiler on PyPI (hatch_build.py)."""

COUNTS = (
    "fl_version",
    "fl_nesting",
    "fl_longest_path",
    "fl_device_rows",
    "fl_launches",
    "fl_lane_streams",
    "fl_of_lane",
    "fl_order_by_key",
    "fl_lane_order",
    "fl_stream_gaps",
    "fl_scan_key",
    "fl_scan_feed",
    "fl_scan_table",
)
"""Functions that return an int64."""
PLACES = ("fl_scan_new", "fl_scan_take")
"""Functions that return an address."""
NOTHINGS = ("fl_scan_counts", "fl_scan_free", "fl_free")


class NoLibraryError(Exception):
    """The compiled library is missing or does not fit; the message says which."""


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or None where it was not built for this platform."""
    try:
        return load()
    except NoLibraryError:
        return None


def why_slow() -> str:
    """One line for the user where the compiled library is missing, "" where it is there."""
    try:
        load()
    except NoLibraryError as error:
        return f"traces are read in Python, many times slower: {error}"
    return ""


def load() -> ctypes.CDLL:
    """The compiled library. Raises NoLibraryError."""
    folders = [Path(__file__).parent]
    spec = importlib.util.find_spec(EDITABLE_FOLDER)
    if spec:
        folders += [Path(place) for place in spec.submodule_search_locations or ()]
    files = [
        file
        for folder in folders
        for file in sorted(folder.glob("traces.*"))
        if file.suffix in SUFFIXES
    ]
    if not files:
        machine = platform.machine()
        what_to_do = f"none is built for {machine}"
        if machine.lower() in BUILT_FOR:
            what_to_do = "install the package again (uv sync)"
        raise NoLibraryError(f"there is no compiled library: {what_to_do}")
    try:
        loaded = ctypes.CDLL(str(files[0]))
        # ctypes takes results for C ints by default: addresses would lose their upper half.
        for name in COUNTS:
            getattr(loaded, name).restype = ctypes.c_int64
        for name in PLACES:
            getattr(loaded, name).restype = ctypes.c_void_p
        for name in NOTHINGS:
            getattr(loaded, name).restype = None
        version = loaded.fl_version()
    except (OSError, AttributeError) as error:
        raise NoLibraryError(f"{files[0].name} cannot be loaded ({error})") from error
    # A library of another version takes other arguments.
    if version != VERSION:
        raise NoLibraryError(
            f"{files[0].name} has version {version}, not {VERSION}: install the package again"
        )
    return loaded


def pointer(array: object) -> ctypes.c_void_p:
    """The address of a numpy array's first element, for a call."""
    return ctypes.c_void_p(array.ctypes.data)  # type: ignore[attr-defined]


_OUTCOMES: tuple[Outcome, ...] = ("more", "end", "odd", "full")
_KINDS = {"link": 1, "number": 2, "text": 3, "memory": 4}
_PLACES = {"link": LINKS, "number": NUMBERS, "text": TEXTS, "memory": MEMORY_KEYS}
_STREAM = 0
# What fl_scan_take gives (TAKE_... in scanner.h) and the tables of fl_scan_table (TABLE_...).
_WIDE, _SMALL, _LINK, _NUMBER_ROWS, _NUMBER_VALUES, _TEXT_ROWS, _TEXT_IDS = range(7)
_COUNTER_ROWS, _COUNTER_VALUES, _COUNTER_IDS, _MEMORY = range(7, 11)
_NAMES, _CATEGORIES, _LANES, _HANDLES, _COUNTERS, _LABELS, _TEXT_TABLES = range(7)
_LOSSES = 7


class _Column:
    """Memory of the library as a numpy array's owner: freed with the last array that looks at
    it."""

    def __init__(
        self, place: int, length: int, kind: str, free: Callable[[ctypes.c_void_p], None]
    ) -> None:
        self.__array_interface__ = {
            "shape": (length,),
            "typestr": kind,
            "data": (place, False),
            "version": 3,
        }
        self._place, self._free = ctypes.c_void_p(place), free

    def __del__(self) -> None:
        self._free(self._place)


class NativeLane:
    """Collects rows in the library's memory; see analysis/traces/reading/event_scanner.py."""

    def __init__(self, limits: ScanLimits) -> None:
        native_library = library()
        if native_library is None:
            raise RuntimeError("there is no compiled library")
        self._library = native_library
        tables = (
            limits.names,
            limits.categories,
            limits.lanes,
            limits.handles,
            limits.counters,
            limits.labels,
            limits.texts,
        )
        place = native_library.fl_scan_new(
            *[
                ctypes.c_int64(n)
                for n in (limits.events, limits.arguments, limits.text_bytes, limits.label_bytes)
            ],
            (ctypes.c_int64 * len(tables))(*tables),
            # A secret seed: hostile texts must not all collide in the tables.
            ctypes.c_uint64(int.from_bytes(os.urandom(8), "little")),
        )
        if not place:
            raise MemoryError
        self._state = ctypes.c_void_p(place)
        self._add_spellings()

    def __del__(self) -> None:
        # `__init__` may have failed before there was a state.
        if hasattr(self, "_state"):
            self._library.fl_scan_free(self._state)

    def _add_spellings(self) -> None:
        arguments: dict[tuple[str, str], int] = {}
        for spelling in spellings():
            number = arguments.setdefault((spelling.kind, spelling.argument), len(arguments))
            kind = _STREAM if spelling.argument == "stream" else _KINDS[spelling.kind]
            place = _PLACES[spelling.kind].index(spelling.argument)
            key = spelling.key.encode()
            if self._library.fl_scan_key(
                self._state, key, *[ctypes.c_int64(n) for n in (len(key), kind, place, number)]
            ):
                raise RuntimeError(f"the compiled scanner cannot keep the argument {spelling.key}")

    def feed(self, buffer: bytearray, start: int, end: int, offset: int) -> tuple[Outcome, int]:
        """Read as many whole events as there are."""
        # The library trusts these bounds, so check them here.
        if not 0 <= start <= end <= len(buffer):
            raise ValueError("no such part of the buffer")
        # from_buffer refuses an offset at the very end of the buffer.
        text = ctypes.byref(ctypes.c_uint8.from_buffer(buffer, start)) if end > start else None
        consumed = ctypes.c_int64()
        outcome = self._library.fl_scan_feed(
            self._state,
            text,
            ctypes.c_int64(end - start),
            ctypes.c_int64(offset),
            ctypes.byref(consumed),
        )
        if outcome < 0:
            raise MemoryError
        return _OUTCOMES[outcome], consumed.value

    def _take(self, what: int, index: int, kind: str) -> NDArray[Any]:
        count = ctypes.c_int64()
        place = self._library.fl_scan_take(
            self._state, ctypes.c_int64(what), ctypes.c_int64(index), ctypes.byref(count)
        )
        if not place:
            return np.empty(0, dtype=kind)
        return np.asarray(_Column(place, count.value, kind, self._library.fl_free))

    def _columns(self, what: int, names: Sequence[str], kind: str) -> dict[str, NDArray[Any]]:
        return {name: self._take(what, i, kind) for i, name in enumerate(names)}

    def _table(self, table: int, index: int = 0) -> list[bytes]:
        text, ends = ctypes.c_void_p(), ctypes.c_void_p()
        count = self._library.fl_scan_table(
            self._state,
            ctypes.c_int64(table),
            ctypes.c_int64(index),
            ctypes.byref(text),
            ctypes.byref(ends),
        )
        if not count or ends.value is None:
            return []
        stops = list((ctypes.c_int64 * count).from_address(ends.value))
        whole = ctypes.string_at(text.value, stops[-1]) if text.value else b""
        return [whole[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]

    def finish(self) -> Scanned:
        """Columns in the library's own memory, without a copy."""
        wide = self._columns(_WIDE, ("ts", "dur", "event", "offset"), "<i8")
        small = self._columns(_SMALL, ("name", "category", "lane"), "<i4")
        links = self._columns(_LINK, LINKS, "<i8")
        numbers = {
            name: (self._take(_NUMBER_ROWS, i, "<i4"), self._take(_NUMBER_VALUES, i, "<f8"))
            for i, name in enumerate(NUMBERS)
        }
        texts = {
            name: (
                self._take(_TEXT_ROWS, i, "<i4"),
                self._take(_TEXT_IDS, i, "<i4"),
                self._table(_TEXT_TABLES, i),
            )
            for i, name in enumerate(TEXTS)
        }
        counters = (
            self._take(_COUNTER_ROWS, 0, "<i4"),
            self._take(_COUNTER_IDS, 0, "<i4"),
            self._take(_COUNTER_VALUES, 0, "<f8"),
            self._table(_COUNTERS),
        )
        phases, lost = (ctypes.c_int64 * 128)(), (ctypes.c_int64 * _LOSSES)()
        self._library.fl_scan_counts(self._state, phases, lost)
        skipped = {chr(letter): count for letter, count in enumerate(phases) if count}
        *losses, without_phase = lost
        return Scanned(
            **wide,
            **small,
            links={name: column for name, column in links.items() if len(column)},
            names=self._table(_NAMES),
            categories=self._table(_CATEGORIES),
            lanes=list(map(split_pair, self._table(_LANES))),
            handles=self._table(_HANDLES),
            numbers={name: number for name, number in numbers.items() if len(number[0])},
            texts={name: text for name, text in texts.items() if len(text[0])},
            counters=counters,
            memory=self._take(_MEMORY, 0, "<i8").reshape(-1, 1 + len(MEMORY_KEYS)),
            labels=list(map(split_label, self._table(_LABELS))),
            skipped=skipped | ({"no phase": without_phase} if without_phase else {}),
            dropped={r: n for r, n in zip(lost_reasons(), losses, strict=True) if n},
        )


# Rows by lane and time.

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


def lane_order(rows: Int64, lane: Int32, lanes: int, starts: Int64, durations: Int64) -> Int64:
    """Some rows by lane, start, longest first, place in `rows`.

    `lane` (below `lanes`), `starts` and `durations` are columns of all rows. Where each lane is
    nearly in order, as profilers write it, nearly linear in the rows.
    """
    native = library()
    if native is None:
        return lane_order_in_python(rows, lane, starts, durations)
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    lane = np.ascontiguousarray(lane, dtype=np.int32)
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    durations = np.ascontiguousarray(durations, dtype=np.int64)
    count = np.zeros(lanes + 1, dtype=np.int64)
    order, spare = np.empty((2, len(rows)), dtype=np.int64)
    done = native.fl_lane_order(
        ctypes.c_int64(len(rows)),
        pointer(rows),
        pointer(lane),
        ctypes.c_int64(lanes),
        pointer(starts),
        pointer(durations),
        pointer(count),
        pointer(order),
        pointer(spare),
    )
    if done != len(rows):
        raise ValueError("a lane is out of range")
    return order


def lane_order_in_python(rows: Int64, lane: Int32, starts: Int64, durations: Int64) -> Int64:
    """The same without the compiled library."""
    by_time = np.lexsort((-durations[rows], starts[rows], lane[rows]))
    return np.asarray(rows[by_time], dtype=np.int64)
