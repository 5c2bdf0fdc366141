"""A hang's analysis as diagnoses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis, Severity
from faultline.analysis.traces.flight_recorder.code_lines import CodeLine, RankCodeLines, called_at
from faultline.analysis.traces.flight_recorder.collective import Collective
from faultline.analysis.traces.flight_recorder.hang import (
    AwaitedRank,
    Circle,
    HangAnalysis,
    StuckRank,
)
from faultline.analysis.traces.flight_recorder.job_state import JobState
from faultline.analysis.traces.flight_recorder.matching import Mismatch
from faultline.analysis.traces.flight_recorder.wording import (
    Numbers,
    bounded,
    group_label,
    operation_row,
    subject_of,
)
from faultline.analysis.traces.readable import readable

SOURCE = (
    "flight recorder: wait-for graph of pending collectives (docs/trace-engine/flight-recorder.md)"
)
MAX_ROWS = 20


def hang_diagnosis(
    state: JobState, analysis: HangAnalysis, lines: RankCodeLines, severity: Severity
) -> JobDiagnosis | None:
    """The diagnosis of the first kind that has candidates; None where nothing hangs or only a dump
    is missing."""
    if analysis.kind == "outside":
        return _outside(state, analysis, lines, severity)
    if analysis.kind == "mismatch":
        return _mismatch(analysis.mismatches, analysis.culprits, lines, severity)
    if analysis.kind == "stuck":
        return _stuck(analysis.stuck, lines, severity)
    if analysis.kind in ("skipped", "circle") and analysis.circle is not None:
        return _circle(analysis.circle, lines, severity)
    return _joined(analysis, severity) if analysis.kind == "joined" else None


def _outside(
    state: JobState, analysis: HangAnalysis, lines: RankCodeLines, severity: Severity
) -> JobDiagnosis:
    awaited_ranks = analysis.outside
    first = awaited_ranks[0]
    ranks = tuple(awaited.rank for awaited in awaited_ranks)
    several = len(ranks) > 1
    blocked_ranks = analysis.waiting - frozenset(ranks)
    here = lines.now(first.rank)
    last = lines.last_collective(state, first.rank)
    numbers = Numbers()
    who = numbers.ranks(ranks)
    waiting = numbers.count("waiting", len(blocked_ranks), "rank")
    missing_in = numbers.operation(first.operation.entry)
    have, missing = "has", "it"
    if several:
        have, missing = "have", f"rank {first.rank}"
    statement = (
        f"{who} {have} not joined collectives that {waiting} wait in: "
        f"{missing} is missing in {missing_in}"
    )
    statement += _stands(numbers, here, last, several)
    peer_line = called_at(first.operation.entry)
    culprits = []
    # Bound the details: a job may have thousands of ranks.
    for awaited in awaited_ranks[:MAX_ROWS]:
        called = lines.last_collective(state, awaited.rank)
        culprits.append(_culprit_row(awaited, lines.now(awaited.rank), called))
    return JobDiagnosis(
        rule="flight_recorder_missing_rank",
        severity=severity,
        subject=subject_of(ranks),
        statement=statement,
        fix=_look_at(here, peer_line),
        source=SOURCE,
        numbers=numbers,
        ranks=ranks,
        details={
            "culprits": culprits,
            "operation": operation_row(first.operation),
            "waiting": bounded(blocked_ranks),
            "waiting_at": peer_line.place if peer_line else None,
        },
    )


def _stands(numbers: Numbers, here: CodeLine | None, last: CodeLine | None, several: bool) -> str:
    # `Numbers.ranks` keeps the first of several ranks as rank_1.
    where = f"; rank {int(numbers['rank_1'])}" if several else "; it"
    if here is not None:
        numbers["line"] = float(here.frame.line)
        # A log shows no place where the rank still is, but the last one where it failed.
        verb = "raised in" if here.source == "log" else "stands in"
        return f"{where} {verb} {here.text}"
    if last is not None:
        numbers["line"] = float(last.frame.line)
        return f"{where} called its last collective in {last.text}"
    return ""


def _look_at(here: CodeLine | None, peer_line: CodeLine | None) -> str:
    reach = "the collective the others wait in"
    if peer_line is not None:
        reach = f"the collective that the others called at {peer_line.place}"
    if here is not None:
        return f"See in {here.text} why it does not reach {reach}."
    return (
        "Take a stack there (py-spy dump, or dump_traceback of the debug server) to see what "
        f"keeps it from {reach}."
    )


def _culprit_row(
    awaited_rank: AwaitedRank, here: CodeLine | None, last: CodeLine | None
) -> dict[str, Any]:
    return {
        "rank": awaited_rank.rank,
        "stands_in": here.text if here else None,
        "line_from": here.source if here else None,
        "in_collective": here.in_collective if here else None,
        "last_collective": readable(awaited_rank.last.op) if awaited_rank.last else None,
        "last_collective_at": last.place if last else None,
        "missing_in": operation_row(awaited_rank.operation),
    }


def _mismatch(
    mismatches: Sequence[Mismatch],
    culprits: tuple[int, ...],
    lines: RankCodeLines,
    severity: Severity,
) -> JobDiagnosis:
    # Prefer a mismatch that names the odd ranks over a tie.
    first = next((mismatch for mismatch in mismatches if mismatch.odd), mismatches[0])
    numbers = Numbers()
    here: CodeLine | None = None
    if first.odd:
        rank = min(first.odd)
        here = called_at(first.odd[rank]) or lines.now(rank)
        where = _where(numbers, first)
        usual = _side_text(numbers, first, "usual")
        who = numbers.ranks(sorted(first.odd))
        odd = _side_text(numbers, first, "odd")
        count = numbers.count("agreeing", len(first.agree), "rank")
        verb = _verb(first, len(first.odd))
        statement = (
            f"{who} {verb} {odd} {where}, where {count} {_verb(first, len(first.agree))} {usual}"
        )
        if here is not None:
            numbers["line"] = float(here.frame.line)
            statement += f"; it is called in {here.text}"
    else:
        statement = _tie_sentence(numbers, first)
    fix = _MISMATCH_FIX[first.aspect]
    if here is not None:
        fix += f" Start at {here.place}."
    decided_by = "the group's earlier collectives" if first.by_history else "the majority"
    return JobDiagnosis(
        rule="flight_recorder_mismatch",
        severity=severity,
        subject=subject_of(culprits),
        statement=statement,
        fix=fix,
        source="flight recorder: minority of operation, data type and size at the same collective",
        numbers=numbers,
        ranks=culprits,
        details={
            "decided_by": decided_by,
            "mismatches": [_mismatch_row(mismatch) for mismatch in mismatches[:MAX_ROWS]],
        },
    )


def _tie_sentence(numbers: Numbers, mismatch: Mismatch) -> str:
    where = _where(numbers, mismatch)
    # In a tie both sides are quoted in the table; here only the number of the usual one is kept.
    _side_text(numbers, mismatch, "usual")
    ranks = numbers.count("agreeing", len(mismatch.agree), "rank")
    what = "what they call" if mismatch.aspect == "operation" else mismatch.aspect
    return f"{ranks} differ in {what} {where}, as many one way as the other"


def _where(numbers: Numbers, mismatch: Mismatch) -> str:
    return (
        f"at collective {numbers.say('collective', mismatch.seq)} of {group_label(mismatch.group)}"
    )


_MISMATCH_FIX = {
    "operation": "All ranks of a group must call the same collectives in one order: look for a "
    "branch that depends on "
    "the rank or its data.",
    "data type": "Give the tensor one data type on all ranks.",
    "size": "All ranks must pass tensors of one size: look for an uneven last batch, or pad.",
}


def _verb(mismatch: Mismatch, ranks: int) -> str:
    if mismatch.aspect == "operation":
        return "calls" if ranks == 1 else "call"
    return "has" if ranks == 1 else "have"


def _side_text(numbers: Numbers, mismatch: Mismatch, side: str) -> str:
    entry = mismatch.usual
    if side == "odd" and mismatch.odd:
        entry = mismatch.odd[min(mismatch.odd)]
    if mismatch.aspect == "operation":
        return readable(entry.op, 60)
    if mismatch.aspect == "data type":
        types = (*entry.input_dtypes[:1], *entry.output_dtypes[:1])
        return readable("/".join(types) or "no type", 40)
    elements = sum(prod(shape) for shape in entry.input_sizes)
    return f"{numbers.say(f'{side}_elements', elements)} elements"


def _mismatch_row(mismatch: Mismatch) -> dict[str, Any]:
    odd = [_odd_row(rank, mismatch.odd[rank]) for rank in sorted(mismatch.odd)[:MAX_ROWS]]
    return {
        "group": group_label(mismatch.group),
        "collective": mismatch.seq,
        "aspect": mismatch.aspect,
        "usual": readable(mismatch.usual.op),
        "usual_sizes": [list(shape) for shape in mismatch.usual.input_sizes[:4]],
        "agree": bounded(mismatch.agree),
        "odd": odd,
    }


def _odd_row(rank: int, entry: Collective) -> dict[str, Any]:
    place = called_at(entry)
    return {
        "rank": rank,
        "operation": readable(entry.op),
        "sizes": [list(shape) for shape in entry.input_sizes[:4]],
        "dtypes": [readable(dtype, 30) for dtype in entry.input_dtypes[:4]],
        "called_at": place.place if place else None,
    }


def _stuck(
    stuck_ranks: Sequence[StuckRank], lines: RankCodeLines, severity: Severity
) -> JobDiagnosis:
    first = stuck_ranks[0]
    ranks = tuple(stuck.rank for stuck in stuck_ranks)
    single = len(ranks) == 1
    numbers = Numbers()
    who = numbers.ranks(ranks)
    pending = numbers.count("pending", sum(stuck.pending for stuck in stuck_ranks), "operation")
    operation = numbers.operation(first.operation.entry)
    ended = numbers.count("ended_elsewhere", len(first.operation.done), "other member")
    has = "has" if single else "have"
    since = ", from" if single else f", on rank {first.rank} from"
    statement = (
        f"{who} {has} {pending} on the device that do not end{since} {operation} on, "
        f"which has ended on {ended} of the group"
    )
    hosts = "that rank's host" if single else "those ranks' hosts"
    rows = []
    for stuck in stuck_ranks[:MAX_ROWS]:
        row = {"rank": stuck.rank, "pending": stuck.pending}
        rows.append(row | operation_row(stuck.operation))
    here = lines.now(first.rank)
    return JobDiagnosis(
        rule="flight_recorder_device_stuck",
        severity=severity,
        subject=subject_of(ranks),
        statement=statement,
        fix=f"Look for Xid, ECC and NVLink lines in the kernel log of {hosts}, drain the node and "
        "run diagnostics on the GPU.",
        source="flight recorder: pending on this rank, ended on its peers",
        numbers=numbers,
        ranks=ranks,
        details={"stuck": rows, "stands_in": here.text if here else None},
    )


def _circle(circle: Circle, lines: RankCodeLines, severity: Severity) -> JobDiagnosis:
    rows = []
    for rank, operation in zip(circle.ranks, circle.operations, strict=True):
        rows.append({"rank": rank} | operation_row(operation))
    rows = rows[:MAX_ROWS]
    if circle.skipped is not None and circle.left_out is not None:
        return _skipped(circle.skipped, circle.left_out.entry, rows, lines, severity)
    numbers = Numbers()
    who = numbers.ranks(circle.ranks)
    first = numbers.operation(circle.operations[0].entry)
    return JobDiagnosis(
        rule="flight_recorder_deadlock",
        severity=severity,
        subject=subject_of(circle.ranks),
        statement=f"{who} wait for each other in a circle, the first in {first}",
        fix="Ranks must call the collectives of different groups in the same order: compare the "
        "code lines.",
        source=SOURCE,
        numbers=numbers,
        details={"circle": rows},
    )


def _skipped(
    rank: int,
    left_out: Collective,
    rows: Sequence[dict[str, Any]],
    lines: RankCodeLines,
    severity: Severity,
) -> JobDiagnosis:
    numbers = Numbers()
    who = numbers.ranks([rank])
    operation = numbers.operation(left_out)
    statement = (
        f"{who} has left out {operation}, which it had called in every round before, and waits "
        "elsewhere for a rank that waits for it"
    )
    here = lines.now(rank)
    if here is not None:
        numbers["line"] = float(here.frame.line)
        statement += f"; it stands in {here.text}"
    return JobDiagnosis(
        rule="flight_recorder_missing_rank",
        severity=severity,
        subject=subject_of((rank,)),
        statement=statement,
        fix=_look_at(here, called_at(left_out)),
        source=SOURCE,
        numbers=numbers,
        ranks=(rank,),
        details={"circle": list(rows)},
    )


def _joined(analysis: HangAnalysis, severity: Severity) -> JobDiagnosis:
    numbers = Numbers()
    oldest = analysis.joined[0]
    members = len(oldest.waiting) + len(oldest.joined)
    return JobDiagnosis(
        rule="flight_recorder_all_joined",
        # It may still end, and no rank is to blame: one level below other hangs.
        severity="warning" if severity == "critical" else "info",
        subject=group_label(oldest.group),
        statement=f"all {numbers.count('members', members, 'rank')} that take part have joined "
        f"{numbers.operation(oldest.entry)}, and it had not ended when the dumps were taken",
        fix="Where it lasts, no rank's code is to blame: look at the network between these hosts "
        "and at NCCL's log.",
        source=SOURCE,
        numbers=numbers,
        details={"operations": [operation_row(op) for op in analysis.joined[:MAX_ROWS]]},
    )
