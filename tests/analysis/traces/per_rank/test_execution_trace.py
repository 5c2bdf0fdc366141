"""Execution traces: both layouts by hand, HTA's correlation of a real pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.per_rank.execution_trace import (
    correlate,
    correlation_rows,
    read_execution_trace,
)
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.goldens import GOLDENS, golden
from tests.analysis.traces.per_rank.stack_traces import Event, call, trace_of

FLAT: dict[str, Any] = {
    "schema": "1.0.1",
    "nodes": [
        {"name": "[pytorch|profiler|execution_trace|process]", "id": 1, "rf_id": 0, "parent": 1},
        {
            "name": "aten::mm",
            "id": 4,
            "rf_id": 7,
            "parent": 1,
            "op_schema": "aten::mm(Tensor self, Tensor mat2) -> Tensor",
            "inputs": [[1, 2, 0, 6, 4, "cuda:0"], [3, 4, 0, 6, 4, "cuda:0"]],
            "input_shapes": [[2, 3], [3, 2]],
            "input_types": ["Tensor(float)", "Tensor(float)"],
            "outputs": [],
            "output_shapes": [[2, 2]],
            "output_types": ["Tensor(float)"],
        },
    ],
}
CHAKRA: dict[str, Any] = {
    "schema": "1.1.1-chakra.0.0.4",
    "nodes": [
        {
            "id": 4,
            "name": "aten::mm",
            "ctrl_deps": 1,
            "inputs": {
                "values": [],
                "shapes": [[2, 3], [3, 2]],
                "types": ["Tensor(float)"],
                "strides": [[3, 1]],
            },
            "outputs": {"values": [], "shapes": [[2, 2]], "types": ["Tensor(float)"]},
            "attrs": [
                {"name": "rf_id", "type": "uint64", "value": 7},
                {
                    "name": "op_schema",
                    "type": "string",
                    "value": "aten::mm(Tensor self, Tensor mat2) -> Tensor",
                },
                {"name": "kernel_backend", "type": "string", "value": "triton"},
            ],
        }
    ],
}


def _written(folder: Path, content: object) -> Path:
    path = folder / "et.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def _mm(**args: int) -> list[Event]:
    ids: Event = {key.replace("_", " "): value for key, value in args.items()}
    return [
        call("aten::mm", 0, 10, args=ids),
        call("aten::add", 20, 5),
        call("mm", 2, 1, cat="cuda_runtime", args=ids),
    ]


@pytest.mark.parametrize("content", [FLAT, CHAKRA])
def test_both_layouts_say_the_same(tmp_path: Path, content: dict[str, Any]) -> None:
    execution = read_execution_trace(_written(tmp_path, content))
    trace = trace_of(tmp_path, _mm(External_id=7))
    found = correlate(trace, execution)
    assert [execution.id[n] if n >= 0 else None for n in found.node] == [4, None, None]
    assert execution.parent[found.node[0]] == 1
    assert found.values(execution, "input_shapes")[1:] == ["", ""]
    assert json.loads(found.values(execution, "input_shapes")[0]) == [[2, 3], [3, 2]]
    assert json.loads(found.values(execution, "output_types")[0]) == ["Tensor(float)"]
    (row,) = correlation_rows(trace, execution)
    assert row["op_schema"].startswith("aten::mm(")
    assert row["kernel_backend"] == ("triton" if content is CHAKRA else "")


def test_the_record_functions_own_id_counts_more_than_the_external_one(tmp_path: Path) -> None:
    execution = read_execution_trace(_written(tmp_path, FLAT))
    newer = trace_of(tmp_path, _mm(External_id=3, Record_function_id=7))
    assert correlate(newer, execution).node.tolist() == [1, -1, -1]
    other = trace_of(tmp_path, _mm(External_id=7, Record_function_id=3))
    assert (
        correlate(other, execution).reason
        == "no id of a record function is in both: they are of different runs or times"
    )


def test_equal_ids_with_other_names_are_another_run(tmp_path: Path) -> None:
    execution = read_execution_trace(_written(tmp_path, FLAT))
    found = correlate(
        trace_of(tmp_path, [call("aten::relu", 0, 5, args={"External id": 7})]), execution
    )
    assert found.reason == "only 0 of 1 shared ids have the same name: they are of different runs"
    assert found.node.tolist() == [-1]
    assert correlate(trace_of(tmp_path, []), execution).reason


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"nodes": 3}',
        b'{"nodes": [{"id": "x"}]}',
        b'{"nodes": [' + b"[" * 100_000,
        b"\xff\x00",
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(EvidenceError) as refused:
        read_execution_trace(_written(tmp_path, content))
    assert "\n" not in str(refused.value)


def test_ids_of_more_than_64_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError):
        read_execution_trace(_written(tmp_path, {"nodes": [{"id": 2**80, "name": "x"}]}))


def test_a_real_pair_correlates_as_hta_says(shared: Path) -> None:
    folder = shared / "traces/hta/execution_trace"
    trace = read_trace(folder / "benchmark_simple_add_trace.json.gz")
    execution = read_execution_trace(folder / "benchmark_simple_add_et.json.gz")
    found = correlate(trace, execution)
    assert found.reason == ""
    said = (
        {row["index"]: row for row in golden("execution_trace", "correlate")}
        if GOLDENS.is_dir()
        else {}
    )
    ours = {int(trace.event[row]): int(node) for row, node in enumerate(found.node) if node >= 0}
    assert set(ours) == {index for index, row in said.items() if row["et_node"] is not None}
    for index, node in ours.items():
        row = said[index]
        assert execution.id[node] == row["et_node"]
        assert execution.names[node] == row["et_node_name"]
        assert execution.columns["op_schema"][node] == row["op_schema"]
        assert json.loads(execution.columns["input_shapes"][node]) == row["input_shapes"]
        assert json.loads(execution.columns["output_shapes"][node]) == row["output_shapes"]
