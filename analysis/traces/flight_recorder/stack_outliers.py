"""Stacks without a flight recorder: most ranks stand in a collective, a few stand elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis, Severity
from faultline.analysis.traces.flight_recorder.code_lines import CodeLine
from faultline.analysis.traces.flight_recorder.wording import Numbers, subject_of
from faultline.analysis.traces.reading.stack_dumps import StackDump, StackThread

MIN_RANKS = 3
"""With two ranks, one of which waits, a healthy job looks the same."""
MAX_SHARE = 1 / 3
"""Of the ranks may stand elsewhere (our choice)."""


def outlier_diagnosis(stacks: Sequence[StackDump], severity: Severity) -> JobDiagnosis | None:
    """The ranks outside of collectives, where nearly all others are in one; None where stacks show
    no such thing."""
    mains = _main_threads(stacks)
    outside = {}
    for rank, main in sorted(mains.items()):
        if not main.in_collective:
            outside[rank] = main
    too_many = len(outside) > MAX_SHARE * len(mains)
    if len(mains) < MIN_RANKS or not outside or too_many:
        return None
    ranks = tuple(outside)
    places = _job_lines(outside)
    first = places.get(ranks[0])
    numbers = Numbers()
    in_collective = len(mains) - len(ranks)
    statement = _statement(numbers, ranks, first, in_collective)
    where = first.place if first else "that place"
    return JobDiagnosis(
        rule="stack_outlier",
        severity=severity,
        subject=subject_of(ranks),
        statement=statement,
        fix=f"See at {where} what holds it; a second dump shows whether it moves.",
        source="stack dumps: at most a third of the ranks outside of torch.distributed (own)",
        numbers=numbers,
        ranks=ranks,
        details={"stands_in": {str(rank): place.text for rank, place in places.items()}},
    )


def _main_threads(stacks: Sequence[StackDump]) -> dict[int, StackThread]:
    """The main thread of each rank; of several dumps of a rank the first counts."""
    mains: dict[int, StackThread] = {}
    # Later assignments win, so the dumps are taken from the last to the first.
    for dump in reversed(stacks):
        main = dump.main
        if dump.rank is not None and main is not None:
            mains[dump.rank] = main
    return mains


def _job_lines(threads: Mapping[int, StackThread]) -> dict[int, CodeLine]:
    lines = {}
    for rank, thread in threads.items():
        frame = thread.job_frame
        if frame:
            lines[rank] = CodeLine(frame, "stack dump")
    return lines


def _statement(
    numbers: Numbers, ranks: tuple[int, ...], first: CodeLine | None, in_collective: int
) -> str:
    single = len(ranks) == 1
    verb = "stands" if single else "stand"
    phrase = f"{numbers.ranks(ranks)} {verb} outside of collectives"
    if first is not None:
        numbers["line"] = float(first.frame.line)
        which = "" if single else "the first "
        phrase += f", {which}in {first.text},"
    count = numbers.count("in_collective", in_collective, "other rank")
    waits = "waits" if in_collective == 1 else "wait"
    return f"{phrase} while {count} {waits} in one"
