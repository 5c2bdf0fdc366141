"""Where ranks disagree on what the n-th collective of a group is: who is in the minority.

The comparison takes the operation, then data types, then sizes, for operations whose sizes must be
equal on all ranks. In a tie the past decides: a rank is odd that has just done what it never did
after the same operation, and so is a side that does what the group never did. Source: the match
states of torch's fr_trace (torch/distributed/flight_recorder/components/types.py); fr_trace takes
the first rank to be right, which blames the majority when the first rank is the odd one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis, Severity
from faultline.analysis.traces.flight_recorder.code_lines import CodeLine
from faultline.analysis.traces.flight_recorder.collective import (
    Collective,
    RecordedGroup,
    Shapes,
    breaks_habit,
)
from faultline.analysis.traces.flight_recorder.job_state import JobState
from faultline.analysis.traces.flight_recorder.wording import Numbers, subject_of
from faultline.analysis.traces.reading.stack_dumps import StackDump, StackThread

Aspect = Literal["operation", "data type", "size"]

EQUAL_SIZES = frozenset({
    "all_reduce", "allreduce_coalesced", "all_reduce_coalesced", "broadcast", "reduce",
    "all_gather",
    "_all_gather_base", "all_gather_into_tensor_coalesced", "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced", "allgather_into_tensor_coalesced", "_allgather_base",
})  # fmt: skip
"""Operations whose tensors have as many elements on every rank; all_to_all, gather and scatter need
not."""
MIN_OCCURRENCES = 3
"""Times that make what a side does known (our choice)."""
MAX_SIDE_RANKS = 8
"""Ranks of a side whose habits are looked at."""
MAX_HISTORY = 50
"""Earlier collectives of the group that are asked in a tie."""


@dataclass(frozen=True)
class Mismatch:
    """Ranks that disagree at one collective."""

    group: RecordedGroup
    seq: int
    aspect: Aspect
    odd: Mapping[int, Collective]
    """The minority; empty where nothing tells which side is right."""
    usual: Collective
    """What the majority did (one of them)."""
    agree: tuple[int, ...]
    """The majority's ranks; all ranks where there is no majority."""
    by_history: bool
    """A tie, decided by what the group did before."""


def mismatch_at(state: JobState, group: RecordedGroup, seq: int) -> Mismatch | None:
    """The first aspect in which the ranks that recorded this collective disagree, or None."""
    entries = {}
    for rank, progress in sorted(state.progress.get(group, {}).items()):
        if seq in progress.by_seq:
            entries[rank] = progress.by_seq[seq]
    if len(entries) < 2:
        return None
    aspects: tuple[Aspect, ...] = ("operation", "data type", "size")
    for aspect in aspects:
        disagreement = _disagreement(state, group, seq, aspect, entries)
        if disagreement is not None:
            return disagreement
    return None


def _disagreement(
    state: JobState,
    group: RecordedGroup,
    seq: int,
    aspect: Aspect,
    entries: Mapping[int, Collective],
) -> Mismatch | None:
    sides: dict[Hashable, list[int]] = defaultdict(list)
    for rank, entry in entries.items():
        sides[_signature(entry, aspect)].append(rank)
    if len(sides) < 2:
        return None
    most = max(len(ranks) for ranks in sides.values())
    leading = {side: ranks for side, ranks in sides.items() if len(ranks) == most}
    usual = list(leading)
    tie = len(leading) > 1
    if tie:
        usual = _usual(state, group, seq, aspect, leading)
    # In a tie that the past does not decide, nobody is odd.
    agree = tuple(sides[usual[0]]) if len(usual) == 1 else tuple(entries)
    agreeing = set(agree)
    odd = {rank: entry for rank, entry in entries.items() if rank not in agreeing}
    by_history = tie and bool(odd)
    return Mismatch(group, seq, aspect, odd, entries[agree[0]], agree, by_history)


def _signature(entry: Collective, aspect: Aspect) -> Hashable:
    if aspect == "operation":
        return entry.kind
    if aspect == "data type":
        return entry.input_dtypes[:1], entry.output_dtypes[:1]
    # Sizes may differ here: one signature for all means no disagreement.
    if entry.kind not in EQUAL_SIZES:
        return None
    return _elements(entry.input_sizes), _elements(entry.output_sizes)


def _elements(shapes: Shapes) -> int:
    return sum(prod(shape) for shape in shapes)


def _usual(
    state: JobState,
    group: RecordedGroup,
    seq: int,
    aspect: Aspect,
    sides: Mapping[Hashable, list[int]],
) -> list[Hashable]:
    """Of sides with equally many ranks the one that keeps to its ranks' habits, or that alone has
    been seen before; all of them where neither tells."""
    keeping = [side for side, ranks in sides.items() if not _break_habits(state, group, seq, ranks)]
    # Habits are sequences of operations; they say nothing about types and sizes.
    if aspect == "operation" and len(keeping) == 1:
        return keeping
    earlier = _earlier(state, group, seq, aspect)
    usuals = [side for side in sides if earlier[side]]
    if len(usuals) == 1 and earlier[usuals[0]] >= MIN_OCCURRENCES:
        return usuals
    return list(sides)


def _earlier(state: JobState, group: RecordedGroup, seq: int, aspect: Aspect) -> Counter[Hashable]:
    """How often each side's signature occurs in the group's collectives before this one."""
    earlier: Counter[Hashable] = Counter()
    for progress in state.progress.get(group, {}).values():
        for number in range(max(0, seq - MAX_HISTORY), seq):
            if number in progress.by_seq:
                earlier[_signature(progress.by_seq[number], aspect)] += 1
    return earlier


def _break_habits(state: JobState, group: RecordedGroup, seq: int, ranks: Sequence[int]) -> bool:
    requested_ranks = ranks[:MAX_SIDE_RANKS]
    return any(breaks_habit(state.dumps[rank].entries, group, seq) for rank in requested_ranks)


# Stacks without a flight recorder: most ranks stand in a collective, a few stand elsewhere.

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
