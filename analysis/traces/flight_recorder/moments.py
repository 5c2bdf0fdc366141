"""Which of several sets of dumps to believe: a job is often dumped more than once.

Periodic dumps show a running job; dumps from after a timeout show collectives as ended that never
did (gloo retires them, pg_status moves on). What the dumps hold decides, not the names of folders.
The right moment is the first set in which something hangs that no later set has passed. Where later
sets have passed every one, the job was delayed and went on: the last set with a culprit names it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from faultline.analysis.traces.flight_recorder.collective import Dump
from faultline.analysis.traces.flight_recorder.hang import HangAnalysis, hang_analysis
from faultline.analysis.traces.flight_recorder.job_state import JobState, job_state

MAX_SETS = 50
MIN_SHARE = 0.5
"""Of the ranks of the fullest set: smaller sets are leftovers (our choice)."""

_DIGITS = re.compile(r"\d+")
DumpSet = Mapping[int, Dump]
"""The dumps of one moment, by rank."""
LastCollectives = dict[tuple[str, str], int]
"""(group's name, its description) -> number of its last collective."""


@dataclass(frozen=True)
class DumpMoment:
    """The dumps of one moment, and what hangs there."""

    state: JobState
    analysis: HangAnalysis
    other_sets: int
    """Sets of dumps from other moments, or the same in another form."""
    lasting: bool
    """A second set, taken apart from this, shows the same operations still pending."""
    went_on: bool = False
    """A later set has got past what hangs here."""


def moment_of_hang(dumps: Sequence[Dump], other_ranks: frozenset[int] = frozenset()) -> DumpMoment:
    """The set of dumps that shows the hang best, completed with dumps of the same moment in another
    form."""
    sets = sorted(_sets(dumps)[:MAX_SETS], key=_order)
    if not sets:
        return DumpMoment(job_state([], other_ranks), HangAnalysis(), 0, lasting=False)
    states = [job_state(ranks.values(), other_ranks) for ranks in sets]
    analyses = [hang_analysis(state) for state in states]
    chosen, went_on = _clearest(states, analyses)
    same = []
    later = []
    for index, ranks in enumerate(sets):
        if index == chosen:
            continue
        if _same_moment(sets[chosen], ranks):
            same.append(ranks)
        elif index > chosen:
            later.append(analyses[index])
    state = job_state(_completed(sets[chosen], same).values(), other_ranks)
    waiting = analyses[chosen].waiting
    lasting = any(analysis.waiting & waiting for analysis in later)
    return DumpMoment(state, hang_analysis(state), len(sets) - 1, lasting, went_on)


def _clearest(states: Sequence[JobState], analyses: Sequence[HangAnalysis]) -> tuple[int, bool]:
    """Which set to believe, and whether a later one has got past what hangs there."""
    fullest = max(len(state.dumps) for state in states)
    last_passed = None
    for index, (state, analysis) in enumerate(zip(states, analyses, strict=True)):
        if not analysis.kind or len(state.dumps) < MIN_SHARE * fullest:
            continue
        later = states[index + 1 :]
        if not any(_passed(analysis, state, other) for other in later):
            # No later set got past it, so this one shows the hang itself.
            return index, False
        if analysis.culprits:
            last_passed = index
    if last_passed is not None:
        return last_passed, True
    return len(states) - 1, False


def _completed(chosen: DumpSet, same: Sequence[DumpSet]) -> DumpSet:
    """All ranks of the sets of one moment; of a rank's dumps a pickle, which has stacks, first."""
    completed = dict(chosen)
    for ranks in same:
        # The chosen dumps win; the other sets only fill the gaps.
        completed = {**ranks, **completed}
        for rank, dump in ranks.items():
            if dump.form == "pickle" and completed[rank].form != "pickle":
                completed[rank] = dump
    return completed


def _sets(dumps: Sequence[Dump]) -> list[dict[int, Dump]]:
    """Dumps of one folder and one manner of naming are of one moment; so are node0/rank_0 and
    node1/rank_1."""
    alike: dict[tuple[str, str], list[Dump]] = defaultdict(list)
    for dump in dumps:
        path = PurePath(dump.file)
        folder = _DIGITS.sub("#", str(path.parent))
        name = _DIGITS.sub("#", path.name)
        alike[folder, name].append(dump)
    sets: list[dict[int, Dump]] = []
    for group in alike.values():
        by_rank = {dump.rank: dump for dump in group}
        if len(by_rank) == len(group):
            sets.append(by_rank)
            continue
        # A rank that is there twice shows that the folders' numbers stand for moments, not nodes.
        by_folder: dict[str, dict[int, Dump]] = defaultdict(dict)
        for dump in group:
            by_folder[str(PurePath(dump.file).parent)].setdefault(dump.rank, dump)
        sets += by_folder.values()
    return sets


def _order(dumps: DumpSet) -> tuple[int, int, int]:
    """Sets by how far the job is in them, then by how much has ended; pickles, which have stacks,
    first."""
    reached = sum(_last_collectives(dumps).values())
    ended = 0
    without_stacks = 0
    for dump in dumps.values():
        ended += sum(status.completed for status in dump.status.values())
        ended += sum(entry.retired for entry in dump.entries)
        if dump.form != "pickle":
            without_stacks += 1
    return reached, ended, without_stacks


def _last_collectives(dumps: DumpSet) -> LastCollectives:
    """The number of the last collective of every group."""
    last: LastCollectives = {}
    for dump in dumps.values():
        for entry in dump.entries:
            key = (entry.group.name, entry.group.description)
            last[key] = max(last.get(key, 0), entry.seq)
    return last


def _passed(analysis: HangAnalysis, state: JobState, later: JobState) -> bool:
    """Whether a later set has newer collectives in every group that hangs here."""
    if not analysis.operations:
        return False
    here = _last_collectives(state.dumps)
    there = _last_collectives(later.dumps)
    for operation in analysis.operations:
        key = (operation.group.name, operation.group.description)
        if there.get(key, 0) <= here.get(key, 0):
            return False
    return True


def _same_moment(first: DumpSet, other: DumpSet) -> bool:
    """Whether the ranks that both sets have are in the same state in both; sets without a rank in
    common are one."""
    shared = first.keys() & other.keys()
    return all(_standing(first[rank]) == _standing(other[rank]) for rank in shared)


def _standing(dump: Dump) -> tuple[object, ...]:
    pending = frozenset((entry.group.name, entry.seq, entry.op) for entry in dump.pending)
    last_record = max((entry.record for entry in dump.entries), default=-1)
    return pending, last_record
