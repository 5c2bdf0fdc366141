"""Every analysis that can be asked for exists, and the documentation lists all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from faultline.analysis.errors import SettingsError
from faultline.analysis.traces.reading.kineto import read_trace
from faultline.trace_report.registry import (
    ACROSS_RANKS,
    ANALYSES,
    BESIDE,
    all_rows_of,
    chosen,
    rows_of,
)
from tests.analysis.traces.device_traces import kernel
from tests.analysis.traces.written_traces import document, event, job, write_trace

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "trace-engine" / "README.md"


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_gives_rows_of_json_values(name: str, tmp_path: Path) -> None:
    path = write_trace(tmp_path / "rank0.json", document(job(ranks=1)[0], 0, 1))
    rows = rows_of(name, read_trace(path))
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


@pytest.mark.parametrize("name", ["operators", "kernels", "idle"])
def test_a_document_holds_a_thousand_rows_and_says_how_many_it_leaves_out(
    name: str, tmp_path: Path
) -> None:
    events = []
    for i in range(1_500):
        events += [event(f"op{i}", 10 * i, 5), kernel(f"kernel{i}", 10 * i, 5, stream=i)]
        events.append(kernel(f"kernel{i}", 10 * i + 6, 2, stream=i))
    trace = read_trace(write_trace(tmp_path / "rank0.json", document(events, 0, 1)))
    whole, shown = all_rows_of(name, trace), rows_of(name, trace)
    assert len(whole) == 1_500
    assert shown == [*whole[:999], {"cut": 501}]


def test_the_documentation_lists_every_analysis_as_the_code_describes_it() -> None:
    listed = dict(
        re.findall(
            r"^\| `(\w+)` \| (?:each rank|all ranks|other files) \| (.+) \|$",
            DOCUMENTATION.read_text(),
            re.M,
        )
    )
    assert listed == ANALYSES | ACROSS_RANKS | BESIDE


def test_analyses_are_chosen_by_name_in_any_order() -> None:
    assert chosen("operators, temporal") == ("operators", "temporal")
    with pytest.raises(SettingsError, match="no analysis is called 'x'"):
        chosen("x")
