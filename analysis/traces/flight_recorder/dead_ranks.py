"""Ranks whose process is gone: no dump, and something that says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.traces.doctor.diagnosis import Diagnosis
from analysis.traces.flight_recorder.code_lines import CodeLines
from analysis.traces.flight_recorder.collective import UnreadDump
from analysis.traces.flight_recorder.hang import HangAnalysis
from analysis.traces.flight_recorder.job_state import JobState
from analysis.traces.flight_recorder.wording import Numbers, bounded, operation_row, subject_of
from analysis.traces.job_logs.diagnoses import is_symptom
from analysis.traces.job_logs.rank_logs import JobLogs
from analysis.traces.readable import readable

CRASHES = ("segmentation_fault", "host_out_of_memory", "cuda_out_of_memory", "device_assert", "illegal_memory_access")


@dataclass(frozen=True)
class DeadRank:
    """One rank, and what says that it died."""

    rank: int
    exit_code: int | None
    """Other than 0; signals are negative."""
    crash: str
    """An exception or a failure in its own log; ""."""
    peers_lost: int
    """Other ranks whose log says that a connection was lost, while this rank's log ends without a word."""

    @property
    def certain(self) -> bool:
        """An exit code or its own log says so."""
        return self.exit_code is not None or bool(self.crash)


def dead_ranks(state: JobState, logs: JobLogs) -> list[DeadRank]:
    """Ranks without a dump for which an exit code, their own log or the others' logs tell of their end.

    Where no rank left a dump, only exit codes and crashes count.
    """
    lost = {rank for rank, _ in logs.failed("peer_connection_lost") if rank is not None}
    missing = state.without_dump if state.dumps else frozenset(logs.exits) | frozenset(r for r in logs.ranks if r)
    found = []
    for rank in sorted(missing | frozenset(logs.exits)):
        code = logs.exits.get(rank)
        crash = _crash(logs, rank)
        quiet = rank in logs.ranks and not logs.ranks[rank].exceptions and rank not in lost
        peers = len(lost - {rank}) if quiet and rank in missing and state.dumps else 0
        if (rank in missing and (crash or peers or code is not None)) or (code is not None and not lost - {rank}):
            found.append(DeadRank(rank, code, crash, peers))
    certain = [d for d in found if d.exit_code is not None]
    return _first_to_fail(certain, logs) if certain and not state.dumps else found


def _first_to_fail(dead: list[DeadRank], logs: JobLogs) -> list[DeadRank]:
    """Without dumps: launchers end the others with SIGTERM or SIGABRT, so ranks with another code are first."""
    own = [d for d in dead if d.exit_code not in (-15, -6, 143, 134)]
    return own or dead


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
    dead: Sequence[DeadRank], analysis: HangAnalysis, unread: Sequence[UnreadDump], lines: CodeLines
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
        statement += f"; {count} wait{'s' if len(waiting) == 1 else ''} for {'it' if len(ranks) == 1 else 'them'} in "
        statement += operation
    here = lines.now(ranks[0])
    if here is not None:
        numbers["line"] = float(here.frame.line)
        statement += f"; its last line of code is {here.text}"
    one = len(ranks) == 1
    return Diagnosis(
        rule="dead_rank",
        severity="critical" if dead else "warning",
        subject=subject_of(ranks),
        statement=statement,
        fix=f"Read the log of {'that rank' if one else 'the first of them'} first, then its host's kernel log (out of "
        "memory, Xid).",
        source="no flight recorder dump, exit codes and logs",
        numbers=numbers,
        ranks=ranks,
        details={
            "dead": [
                {"rank": d.rank, "exit_code": d.exit_code, "crash": d.crash, "peers_that_lost_it": d.peers_lost}
                for d in dead[:20]
            ],
            "waited_in": [operation_row(a.operation) for a in list(awaited.values())[:20]],
            "waiting": bounded(waiting),
            "certain": any(d.certain for d in dead),
        },
    )


def _end(numbers: Numbers, dead: Sequence[DeadRank], ranks: Sequence[int], problems: Mapping[int | None, str]) -> str:
    if not dead:
        problem = problems.get(ranks[0])
        left = f"left a dump that cannot be read ({readable(problem, 60)})" if problem else "left no dump"
        return f"{left}: dead, or out of reach"
    first = dead[0]
    if first.exit_code is not None and first.exit_code < 0:
        end = f"ended by signal {numbers.say('signal', -first.exit_code)}"
    elif first.exit_code is not None:
        end = f"ended with exit code {numbers.say('exit_code', first.exit_code)}"
    elif first.crash:
        end = "ended"
    else:
        count = numbers.count("peers_lost", first.peers_lost, "other rank")
        return f"left no dump and no last word, and {count} lost the connection"
    return f"{end} ({first.crash})" if first.crash else end
