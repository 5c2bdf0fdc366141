"""Ranks whose process is gone: no dump, and something that says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis, Severity
from faultline.analysis.traces.flight_recorder.code_lines import RankCodeLines
from faultline.analysis.traces.flight_recorder.collective import UnreadDump
from faultline.analysis.traces.flight_recorder.hang import HangAnalysis
from faultline.analysis.traces.flight_recorder.job_state import JobState, WaitedOperation
from faultline.analysis.traces.flight_recorder.wording import (
    Numbers,
    bounded,
    operation_row,
    subject_of,
)
from faultline.analysis.traces.job_logs.diagnoses import is_symptom
from faultline.analysis.traces.job_logs.rank_logs import JobLogs
from faultline.analysis.traces.readable import readable

CRASHES = (
    "segmentation_fault",
    "collective_size_mismatch",
    "native_abort",
    "host_out_of_memory",
    "cuda_out_of_memory",
    "device_assert",
    "illegal_memory_access",
)
PEER_FAILURES = ("peer_connection_lost", "gloo_timeout", "nccl_watchdog_timeout")
ENDED_BY_LAUNCHER = (-15, -6, -9, 143, 134, 137)
"""SIGTERM, then SIGKILL for what is left; watchdogs abort."""
MAX_ROWS = 20
"""Ranks and operations listed in details."""


@dataclass(frozen=True)
class DeadRank:
    """One rank, and what says that it died."""

    rank: int
    exit_code: int | None
    """Other than 0; signals are negative."""
    crash: str
    """An exception or a failure in its own log; ""."""
    peers: int
    """Other ranks whose log reports a lost connection or a timeout, while this rank's log ends
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
        first = []
        for rank in _first_to_fail(logs):
            first.append(DeadRank(rank, logs.exits[rank], _crash(logs, rank), 0))
        return first or _only_silent(logs)
    gave_up = _gave_up(logs, PEER_FAILURES)
    deaths = []
    for rank in sorted(state.without_dump):
        code, crash = logs.exits.get(rank), _crash(logs, rank)
        log = logs.ranks.get(rank)
        peers = 0
        # A rank that gave up on a peer outlived it: only a log that ends without a word is suspect.
        if log and not log.exceptions and rank not in gave_up:
            peers = len(gave_up)
        if code is not None or crash or peers:
            deaths.append(DeadRank(rank, code, crash, peers))
    return deaths


def _gave_up(logs: JobLogs, failures: Sequence[str]) -> set[int]:
    """Ranks whose log tells of one of these failures."""
    ranks = set()
    for name in failures:
        for rank, _ in logs.failed(name):
            if rank is not None:
                ranks.add(rank)
    return ranks


def _first_to_fail(logs: JobLogs) -> list[int]:
    """The rank that the launcher names; else those it did not end itself, unless these are all."""
    if logs.root_cause is not None and logs.root_cause in logs.exits:
        return [logs.root_cause]
    # The launcher ends the survivors by signal; any other code is a rank's own.
    ranks = sorted(rank for rank, code in logs.exits.items() if code not in ENDED_BY_LAUNCHER)
    reporting_ranks = _ranks_with_log(logs) | set(logs.exits)
    # Where every rank failed by itself, none can be called the first.
    return ranks if len(ranks) < len(reporting_ranks) else []


def _ranks_with_log(logs: JobLogs) -> set[int]:
    return {rank for rank in logs.ranks if rank is not None}


def _only_silent(logs: JobLogs) -> list[DeadRank]:
    ranks = _ranks_with_log(logs)
    lost = _gave_up(logs, ["peer_connection_lost"])
    # With two ranks, one of which lost the other, nothing tells who went first.
    if len(lost) < 2 or len(lost) != len(ranks) - 1:
        return []
    silent = [rank for rank in ranks - lost if not logs.ranks[rank].exceptions]
    if len(silent) != 1:
        return []
    return [DeadRank(silent[0], None, "", len(lost))]


def _crash(logs: JobLogs, rank: int) -> str:
    log = logs.ranks.get(rank)
    if log is None:
        return ""
    for exception in log.exceptions:
        if not is_symptom(exception):
            return readable(exception.type.rpartition(".")[2], 60)
    for name in CRASHES:
        if name in log.failures:
            return log.failures[name].signature.meaning
    return ""


def dead_diagnosis(
    dead: Sequence[DeadRank],
    analysis: HangAnalysis,
    unread: Sequence[UnreadDump],
    lines: RankCodeLines,
    severity: Severity,
) -> JobDiagnosis | None:
    """Ranks that died; else ranks without a dump that others wait for."""
    if not dead and analysis.kind != "absent":
        return None
    ranks = tuple(rank.rank for rank in dead)
    if not ranks:
        ranks = tuple(awaited.rank for awaited in analysis.absent)
    numbers = Numbers()
    statement = f"{numbers.ranks(ranks)} {_end(numbers, dead, ranks, unread)}"
    waiting = {rank for awaited in analysis.absent for rank in awaited.waiting}
    if waiting:
        first_operation = analysis.absent[0].operation
        statement += _who_waits(numbers, len(waiting), first_operation, single=len(ranks) == 1)
    here = lines.now(ranks[0])
    if here is not None:
        numbers["line"] = float(here.frame.line)
        statement += f"; its last line of code is {here.text}"
    whose = "that rank" if len(ranks) == 1 else "the first of them"
    return JobDiagnosis(
        rule="dead_rank",
        severity="critical" if dead else severity,
        subject=subject_of(ranks),
        statement=statement,
        fix=f"Read the log of {whose} first, then its host's kernel log (out of memory, Xid).",
        source="no flight recorder dump, exit codes and logs",
        numbers=numbers,
        ranks=ranks,
        details={
            "dead": [_row(rank) for rank in dead[:MAX_ROWS]],
            "waited_in": [operation_row(a.operation) for a in analysis.absent[:MAX_ROWS]],
            "waiting": bounded(waiting),
            "certain": any(rank.certain for rank in dead),
        },
    )


def _row(dead: DeadRank) -> dict[str, Any]:
    return {
        "rank": dead.rank,
        "exit_code": dead.exit_code,
        "crash": dead.crash,
        "peers_that_gave_up": dead.peers,
    }


def _who_waits(numbers: Numbers, waiting: int, operation: WaitedOperation, *, single: bool) -> str:
    count = numbers.count("waiting", waiting, "rank")
    verb = "waits" if waiting == 1 else "wait"
    awaited = "it" if single else "them"
    return f"; {count} {verb} for {awaited} in {numbers.operation(operation.entry)}"


def _end(
    numbers: Numbers,
    dead: Sequence[DeadRank],
    ranks: Sequence[int],
    unread: Sequence[UnreadDump],
) -> str:
    if not dead:
        problems = {dump.rank: dump.problem for dump in unread}
        problem = problems.get(ranks[0])
        if problem:
            left = f"left a dump that cannot be read ({readable(problem, 60)})"
        else:
            left = "left no dump"
        return f"{left}: dead, or out of reach"
    first = dead[0]
    # Popen and the elastic launcher give a signal as a negative exit code.
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
