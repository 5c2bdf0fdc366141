"""Which of several sets of dumps to believe: a job is often dumped more than once.

Periodic dumps show a running job; dumps from after a timeout show collectives as ended that never
did (gloo retires them, pg_status moves on). Told apart by what the dumps hold, not by the names of
folders: the right moment is the first set in which something hangs that no later set has got past.
Where every set was got past, the job was held up and went on: the last set with a culprit tells by
whom.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from analysis.traces.flight_recorder.collective import Dump
from analysis.traces.flight_recorder.hang import HangAnalysis, hang_analysis
from analysis.traces.flight_recorder.job_state import JobState, job_state

MAX_SETS = 50
MIN_SHARE = 0.5
"""Of the ranks of the fullest set: smaller sets are leftovers (own)."""

_DIGITS = re.compile(r"\d+")
Standing = dict[tuple[str, str], int]


@dataclass(frozen=True)
class Moment:
    """The dumps of one moment, and what hangs there."""

    state: JobState
    analysis: HangAnalysis
    others: int
    """Sets of dumps from other moments, or the same in another form."""
    lasting: bool
    """A second set, taken apart from this, shows the same operations still pending."""
    went_on: bool = False
    """A later set has got past what hangs here."""


def moment_of_hang(dumps: Sequence[Dump], other_ranks: frozenset[int] = frozenset()) -> Moment:
    """The set of dumps that shows the hang best, completed with dumps of the same moment in another
    form."""
    sets = sorted(_sets(dumps)[:MAX_SETS], key=_order)
    if not sets:
        return Moment(job_state([], other_ranks), HangAnalysis(), 0, lasting=False)
    states = [job_state(s.values(), other_ranks) for s in sets]
    analyses = [hang_analysis(s) for s in states]
    fullest = max(len(s) for s in sets)
    hanging = [i for i, a in enumerate(analyses) if a.kind and len(sets[i]) >= MIN_SHARE * fullest]
    lasting_ones = [
        i for i in hanging if not any(_passed(analyses[i], states[i], s) for s in states[i + 1 :])
    ]
    passed = [i for i in hanging if i not in lasting_ones and analyses[i].culprits]
    chosen = lasting_ones[0] if lasting_ones else passed[-1] if passed else len(sets) - 1
    same = [i for i in range(len(sets)) if i != chosen and _same_moment(sets[chosen], sets[i])]
    whole = dict(sets[chosen])
    for i in same:
        whole = sets[i] | whole
        whole |= {
            r: d for r, d in sets[i].items() if d.form == "pickle" and whole[r].form != "pickle"
        }
    state = job_state(whole.values(), other_ranks)
    later = [i for i in range(len(sets)) if i > chosen and i not in same]
    lasting = any(analyses[i].waiting & analyses[chosen].waiting for i in later)
    return Moment(state, hang_analysis(state), len(sets) - 1, lasting, went_on=chosen in passed)


def _sets(dumps: Sequence[Dump]) -> list[dict[int, Dump]]:
    """Dumps of one folder and one manner of naming are of one moment; so are node0/rank_0 and
    node1/rank_1."""
    loose: dict[tuple[str, str], list[Dump]] = defaultdict(list)
    for dump in dumps:
        path = PurePath(dump.file)
        loose[_DIGITS.sub("#", str(path.parent)), _DIGITS.sub("#", path.name)].append(dump)
    sets: list[dict[int, Dump]] = []
    for group in loose.values():
        if len({d.rank for d in group}) == len(group):
            sets.append({d.rank: d for d in group})
            continue
        strict: dict[str, dict[int, Dump]] = defaultdict(dict)
        for dump in group:
            strict[str(PurePath(dump.file).parent)].setdefault(dump.rank, dump)
        sets += strict.values()
    return sets


def _order(dumps: Mapping[int, Dump]) -> tuple[int, int, int]:
    """Sets by how far the job is in them, then by how much has ended; pickles, which have stacks,
    first."""
    status = [s for d in dumps.values() for s in d.status.values()]
    reached = sum(_furthest(dumps).values())
    ended = sum(s.completed for s in status) + sum(
        e.retired for d in dumps.values() for e in d.entries
    )
    return reached, ended, sum(d.form != "pickle" for d in dumps.values())


def _furthest(dumps: Mapping[int, Dump]) -> Standing:
    """The number of the last collective of every group."""
    furthest: Standing = {}
    for dump in dumps.values():
        for entry in dump.entries:
            key = (entry.group.name, entry.group.description)
            furthest[key] = max(furthest.get(key, 0), entry.seq)
    return furthest


def _passed(analysis: HangAnalysis, state: JobState, later: JobState) -> bool:
    """Whether a later set has newer collectives in every group that hangs here."""
    here, there = _furthest(state.dumps), _furthest(later.dumps)
    hanging = {(op.group.name, op.group.description) for op in analysis.operations}
    return bool(hanging) and all(there.get(key, 0) > here.get(key, 0) for key in hanging)


def _same_moment(one: Mapping[int, Dump], other: Mapping[int, Dump]) -> bool:
    """Whether the ranks that both sets have are in the same state in both; sets without a rank in
    common are one."""
    shared = one.keys() & other.keys()
    return all(_standing(one[rank]) == _standing(other[rank]) for rank in shared)


def _standing(dump: Dump) -> tuple[object, ...]:
    pending = frozenset((e.group.name, e.seq, e.op) for e in dump.pending)
    return pending, max((e.record for e in dump.entries), default=-1)
