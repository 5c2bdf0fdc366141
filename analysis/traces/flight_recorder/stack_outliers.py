"""Stacks without a flight recorder: most ranks stand in a collective, a few stand elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.traces.doctor.diagnosis import Diagnosis, Severity
from analysis.traces.flight_recorder.code_lines import CodeLine
from analysis.traces.flight_recorder.wording import Numbers, subject_of
from analysis.traces.reading.stack_dumps import StackDump

MIN_RANKS = 3
"""With two ranks, one of which waits, a healthy job looks the same."""
MAX_SHARE = 1 / 3
"""Of the ranks may stand elsewhere (own)."""


def outlier_diagnosis(stacks: Sequence[StackDump], severity: Severity) -> Diagnosis | None:
    """The ranks outside of collectives, where nearly all others are in one; None where stacks show
    no such thing."""
    mains = {d.rank: d.main for d in reversed(stacks) if d.rank is not None and d.main is not None}
    outside = {rank: main for rank, main in sorted(mains.items()) if not main.in_collective}
    if len(mains) < MIN_RANKS or not outside or len(outside) > MAX_SHARE * len(mains):
        return None
    ranks, numbers = tuple(outside), Numbers()
    places = {
        rank: CodeLine(main.own_frame, "stack dump")
        for rank, main in outside.items()
        if main.own_frame
    }
    first = places.get(ranks[0])
    statement = (
        f"{numbers.ranks(ranks)} {'stands' if len(ranks) == 1 else 'stand'} outside of collectives"
    )
    if first is not None:
        numbers["line"] = float(first.frame.line)
        statement += f", {'' if len(ranks) == 1 else 'the first '}in {first.text},"
    statement += f" while {numbers.count('in_collective', len(mains) - len(ranks), 'other rank')} "
    statement += "wait in one" if numbers["in_collective"] != 1 else "waits in one"
    return Diagnosis(
        rule="stack_outlier",
        severity=severity,
        subject=subject_of(ranks),
        statement=statement,
        fix=f"See at {first.place if first else 'that place'} what holds it; a second dump shows "
        f"whether it moves.",
        source="stack dumps: at most a third of the ranks outside of torch.distributed (own)",
        numbers=numbers,
        ranks=ranks,
        details={"stands_in": {str(rank): place.text for rank, place in places.items()}},
    )
