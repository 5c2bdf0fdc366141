"""Reads a trace by the compiled scanner and by the Python lane and asserts that nothing differs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import MemoryEvents, TraceColumns
from faultline.analysis.traces.native.lane import NativeLane
from faultline.analysis.traces.reading.event_scanner import ScanLane, ScanLimits
from faultline.analysis.traces.reading.kineto import LIMITS, read_trace_stream
from faultline.analysis.traces.reading.python_lane import PythonLane

PLAIN = (
    "file",
    "rank",
    "rank_source",
    "world_size",
    "host",
    "names",
    "categories",
    "lanes",
    "lane_names",
)
COUNTED = ("process_labels", "dropped", "skipped", "header", "notes")


def blocks_of(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


def read_by(lane: ScanLane, blocks: Iterable[bytes], name: str = "t.json") -> TraceColumns | str:
    """The trace, or the words of the refusal."""
    try:
        return read_trace_stream(name, blocks, lane=lane)
    except EvidenceError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return str(error)


def read_both(
    content: bytes, *, block: int = 1 << 20, limits: ScanLimits = LIMITS, packed: bool = False
) -> TraceColumns | str:
    """What both lanes give, the Python lane from one block unless it is `packed`: how much comes
    before a corrupt place of gzip depends on the blocks."""
    native = read_by(NativeLane(limits), blocks_of(content, block))
    python = read_by(PythonLane(limits), blocks_of(content, block) if packed else [content])
    if isinstance(native, str) or isinstance(python, str):
        assert native == python
        return native
    assert_equal(native, python)
    return native


def assert_equal(one: TraceColumns, other: TraceColumns) -> None:
    """Every column, argument and count."""
    for name in (*PLAIN, *COUNTED):
        assert _comparable(getattr(one, name)) == _comparable(getattr(other, name)), name
    for column in fields(TraceColumns):
        first, second = getattr(one, column.name), getattr(other, column.name)
        if isinstance(first, np.ndarray):
            assert first.dtype == second.dtype, column.name
            np.testing.assert_array_equal(first, second, err_msg=column.name)
    for column in fields(MemoryEvents):
        np.testing.assert_array_equal(
            getattr(one.memory, column.name), getattr(other.memory, column.name)
        )
    assert sorted(one.arguments.numbers) == sorted(other.arguments.numbers)
    for name, numbers in one.arguments.numbers.items():
        np.testing.assert_array_equal(numbers.rows, other.arguments.number(name).rows, err_msg=name)
        np.testing.assert_array_equal(
            numbers.values, other.arguments.number(name).values, err_msg=name
        )
    assert sorted(one.arguments.texts) == sorted(other.arguments.texts)
    for name, texts in one.arguments.texts.items():
        assert texts.texts == other.arguments.text(name).texts, name
        np.testing.assert_array_equal(texts.rows, other.arguments.text(name).rows, err_msg=name)
        np.testing.assert_array_equal(texts.ids, other.arguments.text(name).ids, err_msg=name)


def _comparable(value: Any) -> Any:
    return repr(value) if isinstance(value, dict) and "nan" in repr(value) else value
