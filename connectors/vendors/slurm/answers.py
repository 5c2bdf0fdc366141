"""What is read of slurmrestd's answers, and jobs as one value whichever daemon tells of them.

Fields as in Slurm's OpenAPI documents of the versions v0.0.42, v0.0.44 and v0.0.45.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

LATEST = 9_000_000_000
"""Seconds since 1970 beyond which a number is no time."""


class SlurmNumber(msgspec.Struct):
    """A number that may be unset or infinite (`uint32_no_val_struct`)."""

    set: bool = False
    infinite: bool = False
    number: float = 0

    @property
    def value(self) -> int | None:
        return int(self.number) if self.set and not self.infinite else None


class SlurmSignal(msgspec.Struct):
    id: SlurmNumber = msgspec.field(default_factory=SlurmNumber)
    name: str | None = None


class SlurmExit(msgspec.Struct):
    """`process_exit_code_verbose`."""

    return_code: SlurmNumber = msgspec.field(default_factory=SlurmNumber)
    signal: SlurmSignal = msgspec.field(default_factory=SlurmSignal)

    @property
    def text(self) -> str:
        """For humans; empty where nothing is known."""
        # A signal tells more than the exit code beside it.
        if self.signal.id.value:
            return f"signal {self.signal.id.value}"
        code = self.return_code.value
        return "" if code is None else f"exit code {code}"


class SlurmError(msgspec.Struct):
    description: str | None = None
    error: str | None = None


class SlurmStates(msgspec.Struct):
    current: list[str] = msgspec.field(default_factory=list)
    reason: str | None = None


class AccountedTimes(msgspec.Struct):
    submission: int = 0
    start: int = 0
    end: int = 0
    limit: SlurmNumber = msgspec.field(default_factory=SlurmNumber)


class AccountedJob(msgspec.Struct):
    """A job as the accounting (slurmdbd) has it."""

    job_id: int
    name: str = ""
    state: SlurmStates = msgspec.field(default_factory=SlurmStates)
    time: AccountedTimes = msgspec.field(default_factory=AccountedTimes)
    exit_code: SlurmExit = msgspec.field(default_factory=SlurmExit)
    nodes: str | None = None
    failed_node: str | None = None
    partition: str | None = None
    restart_cnt: int = 0
    kill_request_user: str | None = None


class ControlledJob(msgspec.Struct):
    """A job as the controller (slurmctld) has it, for some minutes after its end."""

    job_id: int
    name: str | None = ""
    job_state: list[str] = msgspec.field(default_factory=list)
    state_reason: str | None = None
    submit_time: SlurmNumber = msgspec.field(default_factory=SlurmNumber)
    start_time: SlurmNumber = msgspec.field(default_factory=SlurmNumber)
    end_time: SlurmNumber = msgspec.field(default_factory=SlurmNumber)
    time_limit: SlurmNumber = msgspec.field(default_factory=SlurmNumber)
    exit_code: SlurmExit = msgspec.field(default_factory=SlurmExit)
    nodes: str | None = None
    failed_node: str | None = None
    partition: str | None = None
    restart_cnt: int = 0


class SlurmNode(msgspec.Struct):
    name: str
    state: list[str] = msgspec.field(default_factory=list)
    reason: str | None = None
    reason_changed_at: SlurmNumber = msgspec.field(default_factory=SlurmNumber)
    partitions: list[str] = msgspec.field(default_factory=list)


class AccountedJobsAnswer(msgspec.Struct):
    jobs: list[AccountedJob]
    errors: list[SlurmError] = msgspec.field(default_factory=list)


class ControlledJobsAnswer(msgspec.Struct):
    jobs: list[ControlledJob]
    errors: list[SlurmError] = msgspec.field(default_factory=list)


class NodesAnswer(msgspec.Struct):
    nodes: list[SlurmNode]
    errors: list[SlurmError] = msgspec.field(default_factory=list)


class ControllerPing(msgspec.Struct):
    hostname: str = ""
    responding: bool | None = None


class PingAnswer(msgspec.Struct):
    pings: list[ControllerPing] = msgspec.field(default_factory=list)
    errors: list[SlurmError] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class SlurmJob:
    """One attempt of a job: a requeued job has one entry per attempt in the accounting."""

    id: int
    name: str
    states: tuple[str, ...]
    reason: str
    submitted: datetime | None
    started: datetime | None
    ended: datetime | None
    limit_min: int | None
    exit: str
    nodes: str
    failed_node: str
    partition: str
    restarts: int
    killed_by: str = ""

    @classmethod
    def accounted(cls, job: AccountedJob) -> SlurmJob:
        """As the accounting tells of it."""
        return cls(
            id=job.job_id,
            name=job.name,
            states=tuple(job.state.current),
            reason=job.state.reason or "",
            submitted=time_at(job.time.submission),
            started=time_at(job.time.start),
            ended=time_at(job.time.end),
            limit_min=job.time.limit.value,
            exit=job.exit_code.text,
            nodes=job.nodes or "",
            failed_node=job.failed_node or "",
            partition=job.partition or "",
            restarts=job.restart_cnt,
            killed_by=job.kill_request_user or "",
        )

    @classmethod
    def controlled(cls, job: ControlledJob) -> SlurmJob:
        """As the controller tells of it."""
        return cls(
            id=job.job_id,
            name=job.name or "",
            states=tuple(job.job_state),
            reason=job.state_reason or "",
            submitted=time_at(job.submit_time.value),
            started=time_at(job.start_time.value),
            ended=time_at(job.end_time.value),
            limit_min=job.time_limit.value,
            exit=job.exit_code.text,
            nodes=job.nodes or "",
            failed_node=job.failed_node or "",
            partition=job.partition or "",
            restarts=job.restart_cnt,
        )


def time_at(seconds: int | None) -> datetime | None:
    """Seconds since 1970 as a time; 0 and what is no time give None."""
    if not seconds or not 0 < seconds < LATEST:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def node_names(ranges: str, most: int) -> list[str]:
    """The names in a host list such as `gpu[01-03,07],login1`, at most that many.

    Slurm writes lists so (slurm.schedmd.com, scontrol "show hostnames"). Other text gives itself.
    """
    names: list[str] = []
    for part in _parts(ranges):
        for name in _expanded(part):
            # Stop here: a short text may stand for millions of names.
            if len(names) >= most:
                return names
            names.append(name)
    return names


def _parts(ranges: str) -> Iterator[str]:
    """Split at the commas outside brackets."""
    depth, start = 0, 0
    for place, sign in enumerate(ranges):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            yield ranges[start:place].strip()
            start = place + 1
    last = ranges[start:].strip()
    if last:
        yield last


def _expanded(part: str) -> Iterator[str]:
    before, bracket, rest = part.partition("[")
    inside, closing, after = rest.partition("]")
    if not bracket or not closing:
        yield part
        return
    for piece in inside.split(","):
        for number in _numbers(piece):
            # A name may hold several lists: rack[1-2]node[01-16].
            for tail in _expanded(after):
                yield f"{before}{number}{tail}"


def _numbers(piece: str) -> Iterator[str]:
    first, dash, last = piece.partition("-")
    is_range = dash and _is_number(first) and _is_number(last)
    if not is_range:
        yield piece
        return
    for number in range(int(first), int(last) + 1):
        # Slurm writes all numbers of a range with the same digits: `gpu[08-10]`.
        yield str(number).zfill(len(first))


def _is_number(text: str) -> bool:
    # int() must not meet a hostile number of thousands of digits.
    return text.isascii() and text.isdigit() and len(text) <= 9
