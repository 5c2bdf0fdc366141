"""HTA's own outputs on real traces: which traces each set is made of, and what each analysis said.

Tables come as lists of rows (one dict per row: column -> value, the index's own names among the
columns); NaN is None. The sets lie beside the project; without them `sets_with` is empty and the
tests that use it are skipped.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.hta_view import hta_views
from tests.conftest import SHARED

GOLDENS, TRACES = SHARED / "data" / "goldens", SHARED / "data" / "traces"

UNSIGNED_STREAMS = ("alexnet", "simple_add")
"""Sets whose files write stream 4294967295."""


def sets_with(analysis: str) -> list[str]:
    """The sets that have an output of this analysis, for `pytest.mark.parametrize`."""
    return (
        sorted(p.parent.name for p in GOLDENS.glob(f"*/{analysis}.json*"))
        if GOLDENS.is_dir()
        else []
    )


def golden(set_name: str, analysis: str) -> Any:
    """What HTA gave: a list of rows for a table; tables inside lists and dicts (often by rank, as
    text) likewise."""
    plain = GOLDENS / set_name / f"{analysis}.json"
    if plain.exists():
        return _rows(json.loads(plain.read_text()))
    with gzip.open(plain.with_suffix(".json.gz"), "rt") as packed:
        return _rows(json.load(packed))


def log_of(set_name: str) -> dict[str, Any]:
    """How the set was made: files, arguments, and per analysis whether HTA failed."""
    text = (GOLDENS / set_name / "_log.json").read_text()
    log: dict[str, Any] = json.loads(text.replace('(path)",', '(path)\\",'))
    return log


def files_of(set_name: str) -> dict[int, str]:
    """Rank -> file under the folder of traces."""
    return {int(rank): file for rank, file in log_of(set_name)["files"].items()}


@cache
def traces_of(set_name: str) -> dict[int, TraceColumns]:
    """The set's traces as they are, by rank. Kept for all tests of a run."""
    return {rank: read_trace(TRACES / file) for rank, file in files_of(set_name).items()}


@cache
def views_of(set_name: str) -> dict[int, TraceColumns]:
    """The set's traces as HTA sees them, by rank. Kept for all tests of a run."""
    traces = traces_of(set_name)
    views = hta_views(list(traces.values()), unsigned_streams=set_name in UNSIGNED_STREAMS)
    return dict(zip(traces, views, strict=True))


def _rows(value: Any) -> Any:
    if isinstance(value, list):
        return [_rows(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not value.get("__df__"):
        return {key: _rows(item) for key, item in value.items()}
    rows = [dict(zip(value["columns"], row, strict=True)) for row in value["data"]]
    names = value["index_names"]
    if names == ["None"]:
        return rows
    indices = [index if isinstance(index, list) else [index] for index in value["index"]]
    return [
        dict(zip(names, index, strict=True)) | row for index, row in zip(indices, rows, strict=True)
    ]
