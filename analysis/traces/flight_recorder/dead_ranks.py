"""Ranks whose process is gone: no dump, and something that says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.traces.doctor.diagnosis import Diagnosis, Severity
from analysis.traces.flight_recorder.code_lines import CodeLines
from analysis.traces.flight_recorder.collective import UnreadDump
from analysis.traces.flight_recorder.hang import HangAnalysis
from analysis.traces.flight_recorder.job_state import JobState
from analysis.traces.flight_recorder.wording import Numbers, bounded, operation_row, subject_of
from analysis.traces.job_logs.diagnoses import is_symptom
from analysis.traces.job_logs.rank_logs import JobLogs
from analysis.traces.readable import readable

CRASHES = (
    "segmentation_fault",
    "collective_size_mismatch",
    "native_abort",
    "host_out_of_memory",
    "cuda_out_of_memory",
    "device_assert",
    "illegal_memory_access",
)


GIVEN_UP = ("peer_connection_lost", "gloo_timeout", "nccl_watchdog_timeout")
ENDED_BY_LAUNCHER = (-15, -6, -9, 143, 134, 137)
"""SIGTERM, then SIGKILL for what is left; watchdogs abort."""


@dataclass(frozen=True)
class DeadRank:
    """One rank, and what says that it died."""

    rank: int
    exit_code: int | None
    """Other than 0; signals are negative."""
    crash: str
    """An exception or a failure in its own log; ""."""
    peers: int
    """Other ranks whose log tells of a lost connection or a timeout, while this rank's log ends
    without a word."""

    @property
    def certain(self) -> bool:
        """An exit code or its own log says so."""
        return self.exit_code is not None or bool(self.crash)


def dead_ranks(state: JobState, logs: JobLogs) -> list[DeadRank]:
    """Ranks without a dump for which an exit code, their own log or the others' logs tell of their
    end.

    Where no rank left a dump exit codes count; else the one rank whose log ends without a word
    while all others lost the connection to a peer.
    """
    if not state.dumps:
        first = [
            DeadRank(rank, logs.exits[rank], _crash(logs, rank), 0) for rank in _first_to_fail(logs)
        ]
        return first or _only_silent(logs)
    lost = {rank for name in GIVEN_UP for rank, _ in logs.failed(name) if rank is not None}
    found = []
    for rank in sorted(state.without_dump):
        code, crash = logs.exits.get(rank), _crash(logs, rank)
        log = logs.ranks.get(rank)
        peers = len(lost - {rank}) if log and not log.exceptions and rank not in lost else 0
        if code is not None or crash or peers:
            found.append(DeadRank(rank, code, crash, peers))
    return found


def _first_to_fail(logs: JobLogs) -> list[int]:
    """The rank that the launcher names; else those it did not end itself, unless these are all."""
    if logs.root_cause in logs.exits:
        return [rank for rank in logs.exits if rank == logs.root_cause]
    own = sorted(rank for rank, code in logs.exits.items() if code not in ENDED_BY_LAUNCHER)
    known = {rank for rank in logs.ranks if rank is not None} | set(logs.exits)
    return own if len(own) < len(known) else []


def _only_silent(logs: JobLogs) -> list[DeadRank]:
    known = {rank for rank in logs.ranks if rank is not None}
    lost = {rank for rank, _ in logs.failed("peer_connection_lost") if rank is not None}
    silent = [rank for rank in known - lost if not logs.ranks[rank].exceptions]
    return (
        [DeadRank(silent[0], None, "", len(lost))]
        if len(silent) == 1 and len(lost) == len(known) - 1 > 1
        else []
    )


def _crash(logs: JobLogs, rank: int) -> str:
    log = logs.ranks.get(rank)
    if log is None:
        return ""
    raised = next((e for e in log.exceptions if not is_symptom(e)), None)
    if raised is not None:
        return readable(raised.type.rpartition(".")[2], 60)
    failure = next((log.failures[name] for name in CRASHES if name in log.failures), None)
    return failure.signature.meaning if failure else ""


def dead_diagnosis(
    dead: Sequence[DeadRank],
    analysis: HangAnalysis,
    unread: Sequence[UnreadDump],
    lines: CodeLines,
    severity: Severity,
) -> Diagnosis | None:
    """Ranks that died; else ranks without a dump that others wait for."""
    if not dead and analysis.kind != "absent":
        return None
    awaited = {a.rank: a for a in analysis.absent}
    ranks = tuple(d.rank for d in dead) or tuple(awaited)
    problems: Mapping[int | None, str] = {u.rank: u.problem for u in unread}
    numbers = Numbers()
    statement = f"{numbers.ranks(ranks)} {_end(numbers, dead, ranks, problems)}"
    waiting = {r for a in awaited.values() for r in a.waiting}
    if waiting:
        count = numbers.count("waiting", len(waiting), "rank")
        operation = numbers.operation(next(iter(awaited.values())).operation.entry)
        statement += (
            f"; {count} wait{'s' if len(waiting) == 1 else ''} for "
            f"{'it' if len(ranks) == 1 else 'them'} in "
        )
        statement += operation
    here = lines.now(ranks[0])
    if here is not None:
        numbers["line"] = float(here.frame.line)
        statement += f"; its last line of code is {here.text}"
    one = len(ranks) == 1
    return Diagnosis(
        rule="dead_rank",
        severity="critical" if dead else severity,
        subject=subject_of(ranks),
        statement=statement,
        fix=f"Read the log of {'that rank' if one else 'the first of them'} first, then its "
        f"host's kernel log (out of "
        "memory, Xid).",
        source="no flight recorder dump, exit codes and logs",
        numbers=numbers,
        ranks=ranks,
        details={
            "dead": [
                {
                    "rank": d.rank,
                    "exit_code": d.exit_code,
                    "crash": d.crash,
                    "peers_that_gave_up": d.peers,
                }
                for d in dead[:20]
            ],
            "waited_in": [operation_row(a.operation) for a in list(awaited.values())[:20]],
            "waiting": bounded(waiting),
            "certain": any(d.certain for d in dead),
        },
    )


def _end(
    numbers: Numbers,
    dead: Sequence[DeadRank],
    ranks: Sequence[int],
    problems: Mapping[int | None, str],
) -> str:
    if not dead:
        problem = problems.get(ranks[0])
        left = (
            f"left a dump that cannot be read ({readable(problem, 60)})"
            if problem
            else "left no dump"
        )
        return f"{left}: dead, or out of reach"
    first = dead[0]
    if first.exit_code is not None and first.exit_code < 0:
        end = f"ended by signal {numbers.say('signal', -first.exit_code)}"
    elif first.exit_code is not None:
        end = f"ended with exit code {numbers.say('exit_code', first.exit_code)}"
    elif first.crash:
        end = "ended"
    else:
        count = numbers.count("peers", first.peers, "other rank")
        return (
            f"left no dump and no last word in its log, while {count} lost connections or timed out"
        )
    return f"{end} ({first.crash})" if first.crash else end
