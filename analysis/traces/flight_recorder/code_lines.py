"""The line of code where a rank stands, joined from everything that knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from faultline.analysis.traces.flight_recorder.collective import Collective
from faultline.analysis.traces.flight_recorder.job_state import JobState
from faultline.analysis.traces.job_logs.rank_logs import JobLogs
from faultline.analysis.traces.readable import readable
from faultline.analysis.traces.reading.stack_dumps import StackDump, StackFrame

LineSource = Literal["stack dump", "flight recorder", "log"]


@dataclass(frozen=True)
class CodeLine:
    """Where, and who says so."""

    frame: StackFrame
    source: LineSource
    in_collective: bool = False
    """The stack dump shows it inside torch.distributed."""

    @property
    def text(self) -> str:
        """ "branch_without_allreduce (train.py:183)", fit for a sentence."""
        return f"{readable(self.frame.function, 60)} ({self.place})"

    @property
    def place(self) -> str:
        """ "train.py:183"."""
        return f"{readable(PurePath(self.frame.file).name, 60)}:{self.frame.line}"


@dataclass(frozen=True)
class RankCodeLines:
    """What is known of the ranks' places."""

    stacks: Mapping[int, StackDump]
    logs: JobLogs

    def now(self, rank: int) -> CodeLine | None:
        """Where the rank stands: its stack dump, else the last traceback in its log."""
        dump = self.stacks.get(rank)
        main = dump.main if dump else None
        if main is not None and main.job_frame is not None:
            return CodeLine(main.job_frame, "stack dump", main.in_collective)
        log = self.logs.ranks.get(rank)
        raised = [e.frame for e in log.exceptions if e.frame is not None] if log else []
        return CodeLine(raised[-1], "log") if raised else None

    def last_collective(self, state: JobState, rank: int) -> CodeLine | None:
        """Where the rank called its last collective."""
        dump = state.dumps.get(rank)
        return called_at(dump.entries[-1]) if dump and dump.entries else None


def called_at(entry: Collective) -> CodeLine | None:
    """Where a collective was called; None for dumps without stacks."""
    frames = [StackFrame(f.function, f.file, f.line) for f in entry.frames]
    # Of library frames alone, the innermost is better than none.
    frame = next((f for f in frames if not f.is_library), frames[0] if frames else None)
    return CodeLine(frame, "flight recorder") if frame else None


def code_lines(stacks: Sequence[StackDump], logs: JobLogs) -> RankCodeLines:
    """Join; of several stack dumps of a rank the first by name counts."""
    by_rank: dict[int, StackDump] = {}
    for dump in stacks:
        if dump.rank is not None and dump.main is not None:
            by_rank.setdefault(dump.rank, dump)
    return RankCodeLines(by_rank, logs)
