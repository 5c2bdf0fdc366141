"""A hang's analysis as diagnoses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.traces.doctor.diagnosis import Diagnosis, Severity
from analysis.traces.flight_recorder.circles import Circle
from analysis.traces.flight_recorder.code_lines import CodeLine, CodeLines, called_at
from analysis.traces.flight_recorder.hang import AwaitedRank, HangAnalysis, StuckRank
from analysis.traces.flight_recorder.job_state import JobState
from analysis.traces.flight_recorder.matching import Mismatch
from analysis.traces.flight_recorder.wording import (
    Numbers,
    bounded,
    group_label,
    operation_row,
    subject_of,
)
from analysis.traces.readable import readable

SOURCE = (
    "flight recorder: wait-for graph of pending collectives (docs/trace-engine/flight-recorder.md)"
)
MAX_ROWS = 20


def hang_diagnosis(
    state: JobState, analysis: HangAnalysis, lines: CodeLines, severity: Severity
) -> Diagnosis | None:
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
    state: JobState, analysis: HangAnalysis, lines: CodeLines, severity: Severity
) -> Diagnosis:
    found = analysis.outside
    ranks, first = tuple(f.rank for f in found), found[0]
    held = analysis.waiting - frozenset(ranks)
    numbers = Numbers()
    places = {f.rank: lines.now(f.rank) for f in found}
    here = places[first.rank]
    who, several = numbers.ranks(ranks), len(ranks) > 1
    waiting = numbers.count("waiting", len(held), "rank")
    statement = (
        f"{who} {'have' if several else 'has'} not joined collectives that hold up {waiting}: "
        f"{f'rank {first.rank}' if several else 'it'} is missing in "
        f"{numbers.operation(first.operation.entry)}"
    )
    statement += _stands(numbers, here, lines.last_collective(state, first.rank), several)
    others = called_at(first.operation.entry)
    return Diagnosis(
        rule="flight_recorder_missing_rank",
        severity=severity,
        subject=subject_of(ranks),
        statement=statement,
        fix=_look_at(here, others),
        source=SOURCE,
        numbers=numbers,
        ranks=ranks,
        details={
            "culprits": [
                _culprit_row(f, places[f.rank], lines.last_collective(state, f.rank))
                for f in found[:MAX_ROWS]
            ],
            "operation": operation_row(first.operation),
            "waiting": bounded(held),
            "waiting_at": others.place if others else None,
        },
    )


def _stands(numbers: Numbers, here: CodeLine | None, last: CodeLine | None, several: bool) -> str:
    where = f"; rank {int(numbers['rank_1'])}" if several else "; it"
    if here is not None:
        numbers["line"] = float(here.frame.line)
        return f"{where} {'raised in' if here.source == 'log' else 'stands in'} {here.text}"
    if last is not None:
        numbers["line"] = float(last.frame.line)
        return f"{where} called its last collective in {last.text}"
    return ""


def _look_at(here: CodeLine | None, others: CodeLine | None) -> str:
    reach = (
        f"the collective that the others called at {others.place}"
        if others
        else "the collective the others wait in"
    )
    if here is not None:
        return f"See at {here.place} why it does not reach {reach}."
    return (
        f"Take a stack there (py-spy dump, or dump_traceback of the debug server) to see what "
        f"keeps it from {reach}."
    )


def _culprit_row(
    found: AwaitedRank, here: CodeLine | None, last: CodeLine | None
) -> dict[str, Any]:
    return {
        "rank": found.rank,
        "stands_in": here.text if here else None,
        "line_from": here.source if here else None,
        "in_collective": here.in_collective if here else None,
        "last_collective": readable(found.last.op) if found.last else None,
        "last_collective_at": last.place if last else None,
        "missing_in": operation_row(found.operation),
    }


def _mismatch(
    found: Sequence[Mismatch], culprits: tuple[int, ...], lines: CodeLines, severity: Severity
) -> Diagnosis:
    first = next((m for m in found if m.odd), found[0])
    numbers = Numbers()
    what = f"at collective {numbers.say('collective', first.seq)} of {group_label(first.group)}"
    usual = _said(numbers, first, "usual")
    here: CodeLine | None = None
    if first.odd:
        rank, entry = next(iter(sorted(first.odd.items())))
        here = called_at(entry) or lines.now(rank)
        verb = "calls" if len(first.odd) == 1 else "call"
        if first.aspect != "operation":
            verb = "has" if len(first.odd) == 1 else "have"
        statement = (
            f"{numbers.ranks(sorted(first.odd))} {verb} {_said(numbers, first, 'odd')} "
            f"{what}, where "
        )
        statement += f"{numbers.count('agreeing', len(first.agree), 'rank')} {_verb(first)} {usual}"
        if here is not None:
            numbers["line"] = float(here.frame.line)
            statement += f"; it is called in {here.text}"
    else:
        sides = (
            "differ in "
            + {"operation": "what they call", "data type": "data type", "size": "size"}[
                first.aspect
            ]
        )
        statement = (
            f"{numbers.count('agreeing', len(first.agree), 'rank')} {sides} {what}, as "
            f"many one way as the other"
        )
    return Diagnosis(
        rule="flight_recorder_mismatch",
        severity=severity,
        subject=subject_of(culprits),
        statement=statement,
        fix=_MISMATCH_FIX[first.aspect] + (f" Start at {here.place}." if here else ""),
        source="flight recorder: minority of operation, data type and size at the same collective",
        numbers=numbers,
        ranks=culprits,
        details={
            "decided_by": "the group's earlier collectives" if first.by_history else "the majority",
            "mismatches": [_mismatch_row(m) for m in found[:MAX_ROWS]],
        },
    )


_MISMATCH_FIX = {
    "operation": "All ranks of a group must call the same collectives in one order: look for a "
    "branch that depends on "
    "the rank or its data.",
    "data type": "Give the tensor one data type on all ranks.",
    "size": "All ranks must pass tensors of one size: look for an uneven last batch, or pad.",
}


def _verb(found: Mismatch) -> str:
    one = len(found.agree) == 1
    if found.aspect == "operation":
        return "calls" if one else "call"
    return "has" if one else "have"


def _said(numbers: Numbers, found: Mismatch, side: str) -> str:
    entry = found.usual if side == "usual" or not found.odd else found.odd[min(found.odd)]
    if found.aspect == "operation":
        return readable(entry.op, 60)
    if found.aspect == "data type":
        return readable(
            "/".join((*entry.input_dtypes[:1], *entry.output_dtypes[:1])) or "no type", 40
        )
    elements = sum(_product(s) for s in entry.input_sizes)
    return f"{numbers.say(f'{side}_elements', elements)} elements"


def _product(shape: Sequence[int]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def _mismatch_row(found: Mismatch) -> dict[str, Any]:
    return {
        "group": group_label(found.group),
        "collective": found.seq,
        "aspect": found.aspect,
        "usual": readable(found.usual.op),
        "usual_sizes": [list(s) for s in found.usual.input_sizes[:4]],
        "agree": bounded(found.agree),
        "odd": [
            {
                "rank": rank,
                "operation": readable(entry.op),
                "sizes": [list(s) for s in entry.input_sizes[:4]],
                "dtypes": [readable(t, 30) for t in entry.input_dtypes[:4]],
                "called_at": place.place if (place := called_at(entry)) else None,
            }
            for rank, entry in sorted(found.odd.items())[:MAX_ROWS]
        ],
    }


def _stuck(found: Sequence[StuckRank], lines: CodeLines, severity: Severity) -> Diagnosis:
    ranks, first = tuple(f.rank for f in found), found[0]
    numbers = Numbers()
    pending = sum(f.pending for f in found)
    verb = "has" if len(ranks) == 1 else "have"
    of = "" if len(ranks) == 1 else f", on rank {first.rank} from"
    statement = (
        f"{numbers.ranks(ranks)} {verb} {numbers.count('pending', pending, 'operation')} on the "
        f"device that do not end"
        f"{of or ', from'} {numbers.operation(first.operation.entry)} on, which has ended on "
        f"{numbers.count('ended_elsewhere', len(first.operation.done), 'other member')} of the "
        f"group"
    )
    here = lines.now(first.rank)
    return Diagnosis(
        rule="flight_recorder_device_stuck",
        severity=severity,
        subject=subject_of(ranks),
        statement=statement,
        fix="Look for Xid, ECC and NVLink lines in the kernel log of "
        + ("that rank's host" if len(ranks) == 1 else "those ranks' hosts")
        + ", drain the node and run diagnostics on the GPU.",
        source="flight recorder: pending on this rank, ended on its peers",
        numbers=numbers,
        ranks=ranks,
        details={
            "stuck": [
                {"rank": f.rank, "pending": f.pending} | operation_row(f.operation)
                for f in found[:MAX_ROWS]
            ],
            "stands_in": here.text if here else None,
        },
    )


def _circle(circle: Circle, lines: CodeLines, severity: Severity) -> Diagnosis:
    numbers = Numbers()
    rows = [
        {"rank": r} | operation_row(op)
        for r, op in zip(circle.ranks, circle.operations, strict=True)
    ][:MAX_ROWS]
    if circle.skipped is not None and circle.left_out is not None:
        here = lines.now(circle.skipped)
        statement = (
            f"{numbers.ranks([circle.skipped])} has left out "
            f"{numbers.operation(circle.left_out.entry)}, which it had "
            f"called in every round before, and waits elsewhere for a rank that waits for it"
        )
        if here is not None:
            numbers["line"] = float(here.frame.line)
            statement += f"; it stands in {here.text}"
        return Diagnosis(
            rule="flight_recorder_missing_rank",
            severity=severity,
            subject=subject_of((circle.skipped,)),
            statement=statement,
            fix=_look_at(here, called_at(circle.left_out.entry)),
            source=SOURCE,
            numbers=numbers,
            ranks=(circle.skipped,),
            details={"circle": rows},
        )
    return Diagnosis(
        rule="flight_recorder_deadlock",
        severity=severity,
        subject=subject_of(circle.ranks),
        statement=f"{numbers.ranks(circle.ranks)} wait for each other in a circle, the first in "
        f"{numbers.operation(circle.operations[0].entry)}",
        fix="Ranks must call the collectives of different groups in the same order: compare the "
        "code lines.",
        source=SOURCE,
        numbers=numbers,
        details={"circle": rows},
    )


def _joined(analysis: HangAnalysis, severity: Severity) -> Diagnosis:
    numbers = Numbers()
    oldest = analysis.joined[0]
    members = len(oldest.waiting) + len(oldest.joined)
    return Diagnosis(
        rule="flight_recorder_all_joined",
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
