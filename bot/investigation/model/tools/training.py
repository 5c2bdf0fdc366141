"""`training`: one analysis of one rank's profiler trace, for cases of training jobs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from analysis.case.folder import read_case
from analysis.errors import FaultlineError
from bot.investigation.model.bench import Bench
from bot.investigation.model.tools.found import Arguments, Found, NotFound, Tool, from_evidence
from trace_report.registry import ANALYSES, rows_of

MAX_BYTES = 256 * 1024 * 1024
"""Of a trace file that is read for a question."""
MAX_FILES = 16
"""Files that are opened to find a rank."""


class TrainingArguments(Arguments):
    analysis: str = Field(description="One of: " + ", ".join(ANALYSES) + ".")
    rank: int = Field(ge=0, le=1_000_000, description="The rank.")


async def training(bench: Bench, asked: TrainingArguments) -> Found:
    """The analysis's rows; times in ns where a name ends in `_ns`."""
    if asked.analysis not in ANALYSES:
        raise NotFound(f"no such analysis; there are {', '.join(ANALYSES)}")
    rows = await bench.run(partial(rank_rows, name=asked.analysis, rank=asked.rank), bench.folder)
    if isinstance(rows, str):
        raise NotFound(rows)
    return Found(
        rows, f"{ANALYSES[asked.analysis]}; {from_evidence(bench.case.evidence, 'traces')}"
    )


def rank_rows(folder: Path, *, name: str, rank: int) -> list[dict[str, Any]] | str:
    """The rows of an analysis of one rank, or why there are none. Runs in a separate process."""
    from analysis.traces.reading.job_files import sort_job_files
    from analysis.traces.reading.kineto import read_trace

    files = sort_job_files(read_case(folder).trace_files).of("profiler_trace")
    named = sorted(files, key=lambda f: (str(rank) not in f.path.name, f.path))
    seen = []
    for file in named[:MAX_FILES]:
        if file.path.stat().st_size > MAX_BYTES:
            continue
        try:
            trace = read_trace(file.path, order=files.index(file))
        except FaultlineError:
            continue
        if trace.rank == rank:
            return rows_of(name, trace)
        seen.append(str(trace.rank))
    return (
        f"no trace of rank {rank} that can be read here; there are traces of ranks "
        f"{', '.join(seen) or 'none'}"
    )


TRAINING = Tool(
    "training",
    "One analysis of one rank's profiler trace, for training jobs.",
    TrainingArguments,
    training,
)
