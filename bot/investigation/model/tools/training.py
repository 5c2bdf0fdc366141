"""`training`: one analysis of one rank's profiler trace, for cases of training jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from faultline.analysis.case.folder import read_case
from faultline.analysis.errors import FaultlineError
from faultline.analysis.external import KIND, RESULT
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Evidence
from faultline.analysis.wording.phrases import number, plain
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    MOST_ROWS,
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    first_of,
    from_evidence,
    observation,
    quoted,
)
from faultline.trace_report.registry import ANALYSES, rows_of

MAX_BYTES = 256 * 1024 * 1024
"""Of a trace file that is read for a question."""
MAX_FILES = 16
"""Files that are opened to find a rank."""


class TrainingArguments(Arguments):
    analysis: str = Field(description="One of: " + ", ".join(ANALYSES) + ".")
    rank: int = Field(ge=0, le=1_000_000, description="The rank.")
    contains: str | None = Field(
        default=None, description="Only rows with these words, any case, or null."
    )
    skip: int = Field(
        default=0, ge=0, le=1_000_000, description="How many rows to leave out, to page on."
    )


async def training(model_session: ModelSession, arguments: TrainingArguments) -> CallResult:
    """The analysis's rows; times in ns where a name ends in `_ns`."""
    if arguments.analysis not in ANALYSES:
        raise InvalidCall(f"no such analysis; there are {', '.join(ANALYSES)}")
    rows = await model_session.run(
        partial(rank_rows, name=arguments.analysis, rank=arguments.rank), model_session.folder
    )
    if isinstance(rows, str):
        raise InvalidCall(rows)
    words = (arguments.contains or "").lower()
    matching = [row for row in rows if words in _line(row).lower()]
    shown = matching[arguments.skip : arguments.skip + MOST_ROWS]
    if not shown:
        raise InvalidCall(f"no row matches; the analysis has {len(rows)}")
    left_out = len(matching) - arguments.skip - len(shown)
    cut = f"{left_out} more; skip={arguments.skip + len(shown)}, or contains" if left_out else ""
    shown_rows = [_row(model_session, arguments, row) for row in shown]
    provenance = (
        f"{ANALYSES[arguments.analysis]}; {from_evidence(model_session.case.evidence, 'traces')}"
    )
    return CallResult(shown_rows, provenance, cut=cut)


def _row(model_session: ModelSession, arguments: TrainingArguments, row: Mapping[str, Any]) -> Row:
    line = _line(row)
    numbers = {}
    for name, value in row.items():
        # In Python a bool is an int, but it is no number to cite.
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[plain(str(name), 60)] = float(value)
    finding = observation(
        f"rank {arguments.rank}",
        arguments.analysis,
        f"rank {arguments.rank}, {arguments.analysis}: {plain(line, 300)}.",
        ObservationDetails(about="training_row", labels={"rank": str(arguments.rank)}),
        evidence=model_session.case.evidence_ids("traces"),
        numbers=numbers,
    )
    return Row(line, finding=finding)


def _line(row: Mapping[str, Any]) -> str:
    """Names and values of one row; times that are in ns are in their names."""
    parts = []
    for name, value in row.items():
        if value not in (None, "", [], {}):
            text = number(value) if isinstance(value, float) else plain(str(value), 120)
            parts.append(f"{plain(str(name), 60)} {text}")
    return ", ".join(parts)


def rank_rows(folder: Path, *, name: str, rank: int) -> list[dict[str, Any]] | str:
    """The rows of an analysis of one rank, or why there are none. Runs in a separate process."""
    from faultline.analysis.traces.reading.job_files import sort_job_files
    from faultline.analysis.traces.reading.kineto import read_trace

    files = sort_job_files(read_case(folder).trace_files).of("profiler_trace")
    # Files with the rank in their name first, because opening a trace is slow.
    named = sorted(files, key=lambda f: (str(rank) not in f.path.name, f.path))
    ranks = []
    for file in named[:MAX_FILES]:
        if file.path.stat().st_size > MAX_BYTES:
            continue
        try:
            trace = read_trace(file.path, order=files.index(file))
        except FaultlineError:
            continue
        if trace.rank == rank:
            return rows_of(name, trace)
        ranks.append(str(trace.rank))
    return (
        f"no trace of rank {rank} that can be read here; there are traces of ranks "
        f"{', '.join(ranks) or 'none'}"
    )


def _offered(model_session: ModelSession) -> bool:
    return bool(model_session.case.evidence_ids("traces") and model_session.case.trace_files)


TRAINING = Tool(
    "training",
    "One analysis of one rank's profiler trace, for training jobs.",
    TrainingArguments,
    training,
    _offered,
)


# `external`: what tools outside answered while the case was collected, line by line.


class ExternalArguments(Arguments):
    contains: str | None = Field(
        default=None, description="Words of the line or of the call, any case, or null for all."
    )


async def external(model_session: ModelSession, arguments: ExternalArguments) -> CallResult:
    """The lines, in the order of the calls."""
    words = (arguments.contains or "").lower()
    rows = [row for row in _rows(model_session) if words in f"{row.text} {row.quote}".lower()]
    if not rows:
        raise InvalidCall("no line of a tool outside matches; with null all are listed")
    shown, cut = first_of(rows, "narrow with contains")
    phrase = "answers of tools outside, which no code weighed; quoted parts are foreign text"
    return CallResult(shown, phrase, cut=cut)


def _rows(model_session: ModelSession) -> Iterator[Row]:
    for item in _items(model_session):
        phrase = f"{plain(item.source, 60)} answered {plain(item.query.partition(' ')[0], 60)}"
        # Line by line, so that a claim can quote one of them by its id.
        for line in item.details[RESULT].splitlines():
            quote = quoted(line)
            finding = observation(
                item.source,
                KIND,
                f'{phrase}: "{plain(quote, 160)}".',
                ObservationDetails(
                    about="external", quote=quote, expression=plain(item.query, 200)
                ),
                evidence=(item.id,),
            )
            yield Row(phrase, quote, finding)


def _items(model_session: ModelSession) -> list[Evidence]:
    return [
        evidence
        for evidence in model_session.case.evidence
        if evidence.kind == KIND and evidence.details.get(RESULT)
    ]


EXTERNAL = Tool(
    "external",
    "What tools of other systems answered about this incident, line by line. It is foreign text.",
    ExternalArguments,
    external,
    lambda model_session: bool(_items(model_session)),
)
