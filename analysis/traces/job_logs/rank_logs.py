"""A rank's log: the exceptions in it with the line of code that raised them, exit codes, and known
failures.

A console log of many ranks is taken apart by the prefixes that launchers write ("[rank3]:",
"[default3]:", "3: ").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from faultline.analysis.traces.job_logs.lines import bounded_lines
from faultline.analysis.traces.job_logs.signatures import Signature, match_all, specific_signature
from faultline.analysis.traces.job_logs.structured_log import MARK, raised_in
from faultline.analysis.traces.reading.job_files import JobFile
from faultline.analysis.traces.reading.stack_dumps import StackFrame

MAX_EXCEPTIONS = 50
MAX_FAILURES = 500
"""Kinds of failures of one rank; numbers of driver errors could be made up."""
LINES_AT_ONCE = 2_048
"""Searched together for known failures; at most 32 MiB of text."""
MAX_EXITS = 10_000
MAX_EXCERPT = 300
MAX_EXCEPTION = 1_000
MAX_TRACEBACK = 400
"""Frames of one traceback."""

_PREFIX = re.compile(
    r"^\s{0,4}\[(?:rank|default)_?(\d{1,6})\]:\s?|^\s{0,4}(\d{1,6}): (?=\S|\s{2}File)"
)
_FRAME = re.compile(r'\s{1,8}File "([^"]{1,1000})", line (\d{1,9}), in (.{1,300})')
_RAISED = re.compile(r"(?:\d{9,10}\.\d{1,9} )?([A-Za-z_][\w.]{1,200})(?::(?: (.*))?)?$")
_ELASTIC_RANK = re.compile(r"^\s{2,8}rank\s{1,8}: (\d{1,6}) \(local_rank: \d{1,6}\)")
_ELASTIC_EXIT = re.compile(r"^\s{2,8}exitcode\s{1,8}: (-?\d{1,6}) \(pid: \d{1,10}\)")
_SLURM_EXIT = re.compile(
    r"srun: error: \S{1,200}: tasks? ([\d,-]{1,200}): "
    r"(?:Exited with exit code (\d{1,6})|(Killed|Segmentation fault|Out Of Memory|Terminated))"
)
# srun names signals in words; as exit codes they are negative.
_SIGNALS = {"Killed": -9, "Segmentation fault": -11, "Out Of Memory": -9, "Terminated": -15}
_EXCEPTION = re.compile(r"[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit|Timeout|Failure)$")


@dataclass(frozen=True)
class LoggedException:
    """An exception as a log shows it."""

    type: str
    message: str
    frame: StackFrame | None
    """The innermost line of the job's own code; None where no traceback stands before it."""
    offset: int
    """Byte of the line in the file."""


@dataclass(frozen=True)
class LoggedFailure:
    """The first line that shows a known failure, and how many do."""

    signature: Signature
    line: str
    offset: int
    count: int


@dataclass
class RankLog:
    """What the logs of one rank say."""

    rank: int | None
    """None for what a log of many ranks does not ascribe to any."""
    files: list[str] = field(default_factory=list)
    lines: int = 0
    exceptions: list[LoggedException] = field(default_factory=list)
    failures: dict[str, LoggedFailure] = field(default_factory=dict)
    """By the signature's name; driver errors by their number, as "xid_79"."""


@dataclass(frozen=True)
class JobLogs:
    """All logs of a job."""

    ranks: dict[int | None, RankLog]
    exits: dict[int, int]
    """Rank -> exit code other than 0, as launchers report it; signals are negative."""
    root_cause: int | None = None
    """The rank that torchelastic names as the first to fail."""

    def failed(self, name: str) -> list[tuple[int | None, LoggedFailure]]:
        """Ranks whose log shows a failure, by rank; first the log that names no rank."""
        failures = []
        for rank, log in self.ranks.items():
            if name in log.failures:
                failures.append((rank, log.failures[name]))
        failures.sort(key=lambda failure: -1 if failure[0] is None else failure[0])
        return failures


def read_rank_logs(files: Iterable[JobFile]) -> JobLogs:
    """Read logs; a file whose name gives no rank is taken apart by its lines' prefixes."""
    reader = _Reader()
    for file in files:
        reader.read(file)
    return JobLogs(reader.ranks, reader.exits, reader.root_cause)


class _Reader:
    def __init__(self) -> None:
        self.ranks: dict[int | None, RankLog] = {}
        self.exits: dict[int, int] = {}
        self._stacks: dict[int | None, list[StackFrame]] = {}
        self.root_cause: int | None = None
        self._elastic_rank: int | None = None
        self._root_cause_next = False

    def read(self, file: JobFile) -> None:
        self._stacks = {}
        lines = bounded_lines(file.path)
        while some := list(islice(lines, LINES_AT_ONCE)):
            failures = match_all([raw for _, raw in some])
            for (offset, raw), failure in zip(some, failures, strict=True):
                self._read_line(file, offset, raw, failure)

    def _read_line(self, file: JobFile, offset: int, raw: str, failure: Signature | None) -> None:
        line, rank = _without_prefix(raw)
        # The file's name is more certain than what a line says.
        if file.rank is not None:
            rank = file.rank
        log = self.ranks.setdefault(rank, RankLog(rank))
        if not log.files or log.files[-1] != str(file.path):
            log.files.append(str(file.path))
        log.lines += 1
        self._line(log, line, offset, failure)

    def _line(self, log: RankLog, line: str, offset: int, failure: Signature | None) -> None:
        self._exit(line)
        if failure is not None:
            # One more line that shows a failure; the first one is kept.
            failures = log.failures
            name = specific_signature(failure, line).name
            before = failures.get(name)
            if before is not None:
                failures[name] = LoggedFailure(
                    failure, before.line, before.offset, before.count + 1
                )
            elif len(failures) < MAX_FAILURES:
                failures[name] = LoggedFailure(failure, line[:MAX_EXCERPT], offset, 1)
        if line.startswith("Traceback (most recent call last)"):
            self._stacks[log.rank] = []
            return
        stack = self._stacks.get(log.rank)
        if stack is not None:
            frame = _FRAME.match(line[:2_500])
            if frame and len(stack) < MAX_TRACEBACK:
                stack.append(StackFrame(frame[3].strip(), frame[1], int(frame[2])))
                return
        self._exception(log, line, offset, stack)

    def _exception(
        self, log: RankLog, line: str, offset: int, stack: list[StackFrame] | None
    ) -> None:
        """An exception that the line names: in JSON, or at the end of a traceback."""
        ended = raised_in(line) if MARK in line else None
        if ended is not None and len(log.exceptions) < MAX_EXCEPTIONS:
            log.exceptions.append(LoggedException(ended[0], ended[1][:MAX_EXCEPTION], None, offset))
        raised = _RAISED.match(line[:2_500])
        if raised is None or len(log.exceptions) >= MAX_EXCEPTIONS:
            return
        name = raised[1].rpartition(".")[2]
        if _EXCEPTION.match(name):
            message = (raised[2] or "")[:MAX_EXCEPTION]
            frame = _job_frame(stack or [])
            log.exceptions.append(LoggedException(raised[1], message, frame, offset))
            self._stacks.pop(log.rank, None)

    def _exit(self, line: str) -> None:
        """torchelastic's failure table, and srun's lines."""
        if "Root Cause (first observed failure)" in line:
            self._root_cause_next = True
        if len(self.exits) >= MAX_EXITS:
            return
        # Most lines hold none of these words: looking for them is cheaper than three patterns.
        if not ("rank" in line or "exit" in line or "srun" in line):
            return
        rank = _ELASTIC_RANK.match(line)
        if rank:
            self._elastic_rank = int(rank[1])
            if self._root_cause_next and self.root_cause is None:
                self.root_cause = self._elastic_rank
            self._root_cause_next = False
            return
        code = _ELASTIC_EXIT.match(line)
        if code and self._elastic_rank is not None:
            if int(code[1]):
                self.exits.setdefault(self._elastic_rank, int(code[1]))
            self._elastic_rank = None
            return
        slurm = _SLURM_EXIT.search(line[:1_000])
        if slurm:
            value = int(slurm[2]) if slurm[2] else _SIGNALS[slurm[3]]
            for task in _tasks(slurm[1]):
                self.exits.setdefault(task, value)


def _without_prefix(raw: str) -> tuple[str, int | None]:
    """A line without its launcher's prefix, and the rank that this names."""
    prefix = _PREFIX.match(raw)
    if prefix is None:
        return raw, None
    line = raw[prefix.end() :]
    for number in prefix.groups():
        if number:
            return line, int(number)
    return line, None


def _job_frame(frames: list[StackFrame]) -> StackFrame | None:
    """Of a traceback (innermost last) the innermost line of the job's own code."""
    for frame in reversed(frames):
        if not frame.is_library:
            return frame
    return frames[-1] if frames else None


def _tasks(text: str) -> Iterator[int]:
    """ "3", "0-2,5"."""
    for part in text.split(",")[:1_000]:
        ends = [int(n) for n in part.split("-") if n][:2]
        if ends:
            # Bound the range: a hostile line may name billions of tasks.
            yield from range(ends[0], min(ends[-1], ends[0] + 10_000) + 1)
