"""Chakra execution traces: which operator of PyTorch's graph each row of a profiler trace is.

`ExecutionTraceObserver` writes every operator with its schema, inputs and outputs; the profiler
writes the same operators with their times. Both know the record function's id. Layouts: flat
(schema 1.0.1) and Chakra's with `attrs` (1.0.2-chakra.0.0.4 to 1.1.1-chakra.0.0.4), as in PARAM's
et_replay/execution_trace.py. After HTA's `correlate_execution_trace` and `add_et_column`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable
from faultline.analysis.traces.per_rank.operators import OPERATOR_CATEGORIES
from faultline.analysis.traces.reading.trace_bytes import unpacked_blocks

MAX_BYTES = 1 << 28
"""Most unpacked bytes read: an execution trace of one step has 20-100 MB."""
CORRELATED = (*OPERATOR_CATEGORIES, "user_annotation")
"""Categories of rows that have a node; HTA's EXECUTION_TRACE_SUPPORTED_EVENTS."""
SAME_NAMES_SHARE = 0.5
"""Of the rows with an id of the execution trace, this many must have the node's name: ids start
again in every process, so that two runs share ids and not names."""

Column = Literal[
    "op_schema",
    "input_shapes",
    "input_types",
    "output_shapes",
    "output_types",
    "kernel_backend",
    "kernel_file",
]


class _Attribute(msgspec.Struct):
    name: str
    value: Any = None


class _Values(msgspec.Struct):
    shapes: msgspec.Raw = msgspec.Raw(b"[]")
    types: msgspec.Raw = msgspec.Raw(b"[]")


class _Node(msgspec.Struct):
    """Of both layouts."""

    id: int
    name: str
    rf_id: int = 0
    parent: int = 0
    ctrl_deps: int = 0
    op_schema: str = ""
    input_shapes: msgspec.Raw = msgspec.Raw(b"[]")
    input_types: msgspec.Raw = msgspec.Raw(b"[]")
    output_shapes: msgspec.Raw = msgspec.Raw(b"[]")
    output_types: msgspec.Raw = msgspec.Raw(b"[]")
    inputs: msgspec.Raw = msgspec.Raw(b"[]")
    outputs: msgspec.Raw = msgspec.Raw(b"[]")
    attrs: list[_Attribute] | None = None


class _Document(msgspec.Struct):
    nodes: list[_Node]
    schema: str = ""


@dataclass(frozen=True)
class ExecutionTrace:
    """The nodes in file order; shapes and types are JSON text."""

    schema: str
    id: Int64
    parent: Int64
    """Id of the parent node."""
    record_function: Int64
    """Id of the record function; 0 for the nodes of the process and its threads."""
    names: tuple[str, ...]
    columns: dict[Column, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Correlation:
    """Which node each row of a profiler trace is."""

    node: Int64
    """Place of the row's node among the nodes; -1 for none."""
    reason: str = ""
    """Why no row has a node; "" where some have."""

    def values(self, execution: ExecutionTrace, column: Column) -> list[str]:
        """One value per row of the trace; "" where it has no node."""
        texts = execution.columns[column]
        return [texts[i] if i >= 0 else "" for i in self.node.tolist()]


def read_execution_trace(path: Path) -> ExecutionTrace:
    """Read a .json or .json.gz execution trace. Raises EvidenceError, one line, for anything
    else."""
    dropped: Counter[str] = Counter()
    content = b"".join(unpacked_blocks(path, dropped, MAX_BYTES))
    if dropped:
        raise EvidenceError(path.name, f"cannot be read as a whole ({next(iter(dropped))})")
    try:
        document = msgspec.json.decode(content, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(path.name, f"is not an execution trace ({str(error)[:200]})") from error
    nodes = [_with_attributes(node) for node in document.nodes]
    # Ids become int64 columns, and a hostile file may hold larger numbers.
    big = any(
        abs(value) >= 1 << 63 for node in nodes for value in (node.id, node.parent, node.rf_id)
    )
    if big:
        raise EvidenceError(path.name, "holds an id of more than 64 bits")
    texts: dict[Column, tuple[str, ...]] = {
        column: tuple(_text(n, column) for n in nodes) for column in get_args(Column)
    }
    return ExecutionTrace(
        document.schema,
        np.asarray([n.id for n in nodes], dtype=np.int64),
        np.asarray([n.parent for n in nodes], dtype=np.int64),
        np.asarray([n.rf_id for n in nodes], dtype=np.int64),
        tuple(n.name for n in nodes),
        texts,
    )


def correlate(trace: TraceColumns, execution: ExecutionTrace) -> Correlation:
    """The node of each operator and annotation of the trace, by the id of its record function.

    Newer profilers write it as "Record function id"; in older ones "External id" is the same
    number.
    """
    nodes = np.flatnonzero(execution.record_function > 0)
    none = np.full(len(trace), -1, dtype=np.int64)
    rows = np.flatnonzero(trace.in_category(*CORRELATED))
    written = trace.arguments.number("Record function id").at(rows, 0.0).astype(np.int64)
    # A single written id shows a newer profiler.
    ids = np.where((written > 0).any(), written, trace.external_id[rows])
    if not len(nodes) or not (ids > 0).any():
        return Correlation(none, "the trace or the execution trace has no ids of record functions")
    by_id = nodes[np.argsort(execution.record_function[nodes], kind="stable")]
    place = np.searchsorted(execution.record_function[by_id], ids, side="right") - 1
    hit = (place >= 0) & (execution.record_function[by_id[place]] == ids) & (ids > 0)
    rows, node_places = rows[hit], by_id[place[hit]]
    if not len(rows):
        return Correlation(
            none, "no id of a record function is in both: they are of different runs or times"
        )
    same = sum(
        trace.name_of(row) == execution.names[node]
        for row, node in zip(rows.tolist(), node_places.tolist(), strict=True)
    )
    if same < SAME_NAMES_SHARE * len(rows):
        return Correlation(
            none,
            f"only {same} of {len(rows)} shared ids have the same name: they are of different runs",
        )
    none[rows] = node_places
    return Correlation(none)


TABLE = RowTable(
    INT("event"),
    TEXT("name"),
    INT("start_ns", "duration_ns", "node"),
    TEXT("op_schema", "input_shapes", "input_types", "output_shapes", "output_types"),
    TEXT("kernel_backend", "kernel_file"),
)


def correlation_rows(trace: TraceColumns, execution: ExecutionTrace) -> Rows:
    """The rows that have a node, as JSON values."""
    node = correlate(trace, execution).node
    rows = np.flatnonzero(node >= 0)
    texts = execution.columns.values()
    return TABLE.of(
        (event, name, start, duration, execution.id[place], *(text[place] for text in texts))
        for event, name, start, duration, place in zip(
            trace.event[rows].tolist(),
            map(trace.name_of, rows.tolist()),
            trace.ts[rows].tolist(),
            trace.dur[rows].tolist(),
            node[rows].tolist(),
            strict=True,
        )
    )


def _with_attributes(node: _Node) -> _Node:
    """A node of Chakra's layout with the fields of the flat one."""
    if node.attrs is None:
        return node
    values = {a.name: a.value for a in node.attrs}
    # Chakra's layout keeps the parent's id in ctrl_deps.
    node.parent = node.ctrl_deps
    # `type`, not isinstance: True is no id.
    node.rf_id = values["rf_id"] if type(values.get("rf_id")) is int else 0
    node.op_schema = str(values.get("op_schema", ""))
    taken, outputs = _values_of(node.inputs), _values_of(node.outputs)
    node.input_shapes, node.input_types = taken.shapes, taken.types
    node.output_shapes, node.output_types = outputs.shapes, outputs.types
    return node


def _values_of(text: msgspec.Raw) -> _Values:
    try:
        return msgspec.json.decode(text, type=_Values)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Values()


def _text(node: _Node, column: Column) -> str:
    if column == "op_schema":
        return node.op_schema
    if column in ("kernel_backend", "kernel_file"):
        return next((str(a.value) for a in node.attrs or () if a.name == column), "")
    raw: msgspec.Raw = getattr(node, column)
    return bytes(raw).decode("utf-8", "replace")
