"""One trace file becomes the summaries of its ranks, or the reason why it cannot; several files
become one job.

A file is read on its own, by whoever has time for it: what depends on the other files, the ranks of
those that do not say which one they are, is settled when all readings are put together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from faultline.analysis.errors import EvidenceError, FaultlineError
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary, summarise
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.job.trace_readers import traces_in
from faultline.analysis.traces.reading.file_kinds import SEVERAL_RANKS
from faultline.analysis.traces.reading.job_files import JobFile

MAX_PROBLEM = 300
NO_MEMORY = "needs more memory than there is for one rank"


@dataclass(frozen=True)
class RankReading:
    """What one file gave."""

    summaries: tuple[RankSummary, ...] = ()
    """One; of files of several processes or devices one for each, by what the file alone says of
    its ranks."""
    problem: str | None = None
    """Why there are none."""
    passing: bool = False
    """Whether the problem is none of the file's: memory, time or a process ran out."""


def read_ranks(file: JobFile) -> RankReading:
    """Read one trace. Never raises: a file that breaks its analysis fails alone, and is named."""
    try:
        return RankReading(tuple(summarise(trace) for trace in traces_in(file.path, file.kind)))
    except EvidenceError as error:
        return RankReading(problem=error.problem)
    except FaultlineError as error:
        return RankReading(problem=str(error))
    except MemoryError:
        return RankReading(problem=NO_MEMORY, passing=True)
    except Exception as error:  # noqa: BLE001
        return RankReading(
            problem=f"cannot be analysed ({type(error).__name__}: {error})"[:MAX_PROBLEM]
        )


def put_together(
    readings: Iterable[tuple[JobFile, RankReading]],
) -> tuple[list[RankSummary], list[tuple[str, str]]]:
    """One summary per rank, and (file, problem) of the files without one; files in the order of
    their paths.

    A trace that does not say its rank has that of its place among the files. The processes or
    devices of a file that does not say are counted on from what came before.
    """
    summaries: list[RankSummary] = []
    problems: list[tuple[str, str]] = []
    processes = 0
    for order, (file, reading) in enumerate(readings):
        if reading.problem is not None:
            problems.append((file.path.name, reading.problem))
        elif file.kind in SEVERAL_RANKS or len(reading.summaries) > 1:
            summaries += [_ranked(s, processes + s.rank) for s in reading.summaries]
            # Count on from all ranks so far, so that no two get the same number.
            processes = len(summaries)
        else:
            summaries += [_ranked(s, order) for s in reading.summaries]
    return summaries, problems


def _ranked(summary: RankSummary, rank: int) -> RankSummary:
    """The summary with this rank, where nothing but the order of files tells it."""
    if summary.rank_source != "order" or summary.rank == rank:
        return summary
    return replace(summary, rank=rank, facts=_events_ranked(summary.facts, rank))


def _events_ranked(value: Any, rank: int) -> Any:
    """The same with all events that it names those of the rank."""
    if isinstance(value, EventReference):
        return replace(value, rank=rank)
    if isinstance(value, tuple):
        return tuple(_events_ranked(entry, rank) for entry in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for field in fields(value):
        # `replace` refuses fields that the constructor does not take.
        if not field.init:
            continue
        before = getattr(value, field.name)
        after = _events_ranked(before, rank)
        if after is not before:
            changed[field.name] = after
    return replace(value, **changed)
