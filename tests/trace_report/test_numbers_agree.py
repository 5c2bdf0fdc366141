"""Header, sentences, table, bar and JSON of one report give the same number for the same thing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.traces.device_traces import kernel, launch
from tests.analysis.traces.written_traces import document, event, write_trace
from tests.trace_report.command import trace, write_job

UNEVEN = {(2, 3): 80_000.0, **{(2, step): 6_000.0 for step in (0, 1, 2, 4, 5, 6, 7)}}
"""Rank 2 delays every step, one of them for much longer: mean and median of the steps differ."""


def summary_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(trace(folder, "--json").stdout)
    return found


def one_number(pattern: str, text: str) -> float:
    (found,) = re.findall(pattern, text)
    return float(found.replace(",", ""))


def test_the_step_is_as_long_in_the_header_the_sentence_the_bar_and_the_table(
    tmp_path: Path,
) -> None:
    folder = write_job(tmp_path, UNEVEN)
    printed, told = trace(folder, columns=200).stdout, summary_of(folder)
    header = one_number(r"([\d.,]+) ms a step", printed)
    assert one_number(r"a step  █+  ([\d.,]+) ms", printed) == header
    assert one_number(r"ms of each ([\d.,]+) ms\s+step", printed) == round(header)
    assert sum(line["step_ms"] for line in told["ranks"]) / 4 == pytest.approx(header, abs=0.06)
    assert told["summary"]["mean_step_ms"] == pytest.approx(header, abs=0.06)
    assert told["summary"]["median_step_ms"] < header - 5


def test_data_loading_that_kernels_hide_is_not_told_as_time_of_the_step(tmp_path: Path) -> None:
    events = []
    for step in range(4):
        at = 10_000.0 * step
        events += [
            event(f"ProfilerStep#{step}", at, 10_000, cat="user_annotation"),
            event(
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                at,
                6_000,
                cat="user_annotation",
            ),
            launch(at + 1, 5, step + 1),
            kernel("gemm", at + 1_000, 3_000, correlation=step + 1),
        ]
    write_trace(tmp_path / "rank0.pt.trace.json", document(events, 0, 1))
    told = summary_of(tmp_path)
    (line,) = told["ranks"]
    assert line["data_ms"] == pytest.approx(
        told["summary"]["step_ms"]["0"]["data loading"], abs=0.002
    )
    assert line["data_ms"] == pytest.approx(
        told["diagnoses"][0]["evidence"]["numbers"]["data_ms"], abs=0.06
    )


def test_a_trace_without_steps_is_as_long_in_the_header_as_in_the_sentence(tmp_path: Path) -> None:
    events = [
        event("aten::mm", 0, 50_000),
        launch(10, 5, 1),
        kernel("gemm", 20_000, 10_000, correlation=1),
    ]
    write_trace(tmp_path / "rank0.pt.trace.json", document(events, 0, 1))
    printed = trace(tmp_path, columns=200).stdout
    assert one_number(r"([\d.,]+) ms in all", printed) == 50.0
    assert "work only 20 % of the time: 50 ms without marked steps" in printed
    assert "a step" not in printed
    assert one_number(r"window  █+  ([\d.,]+) ms", printed) == 10.0
    found = summary_of(tmp_path)["summary"]
    assert (found["verdict"], found["statement"][:7]) == ("nothing_certain", "no rule")


def test_the_share_of_a_kernel_is_of_all_kernels_also_of_those_that_are_not_listed(
    tmp_path: Path,
) -> None:
    many = [kernel(f"kernel_{i}", 100.0 * i, 40 if i else 50) for i in range(200)]
    write_trace(tmp_path / "rank0.pt.trace.json", document(many, 0, 1))
    (line,) = [line for line in trace(tmp_path).stdout.splitlines() if line.endswith("  kernel_0")]
    assert float(line.split()[1]) == round(100 * 50 / (50 + 199 * 40), 1)
