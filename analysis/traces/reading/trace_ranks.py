"""Which rank wrote a trace: what the trace says of itself, then the file's name, then the order of
the files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from faultline.analysis.traces.columns.events import RankSource, TraceColumns

MAX_RANK = 10_000_000

_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
"""torchtitan: rank3_trace.json.gz; HTA's data: rank-3.Jul_15_10_52_41.1074.pt.trace.json.gz;
tensorboard_trace_handler with the rank in the worker's name: vm_rank0.1795229.pt.trace.json.gz;
vLLM: dp0_pp0_tp3_dcp0_ep3_rank3.1774.pt.trace. json.gz and
graph_capture_rank_0.1774.pt.trace.json.gz."""
_RANK_IN_FOLDER = re.compile(r"rank[-_.]?(\d{1,6})", re.IGNORECASE)
_TENSOR_PARALLEL = re.compile(r"(?:^|[-_.])TP-?(\d{1,5})(?=[-_.])", re.IGNORECASE)
"""1774.3-TP-0.trace.json.gz (SGLang): the rank where tensor parallelism is the only kind."""


def rank_of(header: Mapping[str, Any], name: str, order: int) -> tuple[int, RankSource]:
    """The rank and where it was found; `order` is the rank where neither the trace nor its name (a
    path) has one."""
    info = header.get("distributedInfo")
    if isinstance(info, dict) and _is_rank(info.get("rank")):
        return info["rank"], "distributedInfo"
    path = PurePath(name)
    match = _RANK_IN_NAME.search(path.name)
    if match is None:
        match = _TENSOR_PARALLEL.search(path.name)
    if match is None:
        match = _RANK_IN_FOLDER.fullmatch(path.parent.name)
    if match is None:
        return order, "order"
    return int(match[1]), "file name"


def _is_rank(value: object) -> bool:
    # JSON's true is an int in Python, and no rank.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_RANK


def with_distinct_ranks(traces: Sequence[TraceColumns]) -> list[TraceColumns]:
    """The traces by rank. Those that do not say their rank get the lowest free ones, in their
    order. Each of several traces of the same rank gets a note that says so.
    """
    ranked = _with_free_ranks(traces)
    count = Counter(trace.rank for trace in ranked)
    for index, trace in enumerate(ranked):
        same = count[trace.rank]
        if same > 1:
            note = f"{same} files say they are rank {trace.rank}"
            ranked[index] = replace(trace, notes=(*trace.notes, note))
    ranked.sort(key=lambda trace: (trace.rank, trace.file))
    return ranked


def _with_free_ranks(traces: Sequence[TraceColumns]) -> list[TraceColumns]:
    taken = {trace.rank for trace in traces if trace.rank_source != "order"}
    ranked = []
    free = 0
    for trace in traces:
        if trace.rank_source != "order":
            ranked.append(trace)
            continue
        while free in taken:
            free += 1
        ranked.append(replace(trace, rank=free))
        free += 1
    return ranked
