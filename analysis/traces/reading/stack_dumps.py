"""Where a rank's threads stand: stack dumps of faulthandler (torch's debug server), py-spy and its
pages.

Formats: faulthandler.dump_traceback ("most recent call first"), `py-spy dump`, and the debug
server's /stacks and /pyspy_dump pages with one such text per rank.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from faultline.analysis.traces.reading.file_kinds import rank_in_name

MAX_BYTES = 8 << 20
MAX_THREADS = 2_000
MAX_FRAMES = 200
MAX_LINE = 2_000

_THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-fA-F]{1,16}|\d{1,20})\b[^\n]{0,200}")
_FAULT_FRAME = re.compile(r'\s{1,8}File "([^"]{1,1000})", line (\d{1,9}) in (.{1,300})')
_PYSPY_FRAME = re.compile(r"\s{2,8}(\S.{0,300}) \(([^()]{1,1000}):(\d{1,9})\)$")
_PAGE_PART = re.compile(r"<h2>Rank (\d{1,6}):[^<]{0,500}</h2>\s{0,200}<pre>")
_LIBRARY = re.compile(
    r"(?:site|dist)-packages/|(?:^|/)torch/|(?:^|/)python\d\.\d+/|(?:^|/)lib/python|^<frozen"
    r"|^<string>|\.so(?:\.|$)|^\("
)
_COLLECTIVE = re.compile(r"torch/distributed/|/c10d_logger\.py|distributed_c10d\.py")


@dataclass(frozen=True)
class StackFrame:
    """One call."""

    function: str
    file: str
    line: int

    @property
    def is_library(self) -> bool:
        """Whether it is PyTorch's, Python's or another package's code, not the job's own."""
        return _LIBRARY.search(self.file) is not None


@dataclass(frozen=True)
class StackThread:
    """One thread's calls, innermost first."""

    name: str
    frames: tuple[StackFrame, ...]

    @property
    def job_frame(self) -> StackFrame | None:
        """The innermost call of the job's own code; where there is none, the innermost of all."""
        frames = (f for f in self.frames if not f.is_library)
        return next(frames, self.frames[0] if self.frames else None)

    @property
    def in_collective(self) -> bool:
        """Whether it stands in torch.distributed, seen from the job's own code."""
        # Frames come innermost first: a collective counts only before the job's code.
        for frame in self.frames:
            if not frame.is_library:
                return False
            if _COLLECTIVE.search(frame.file):
                return True
        return False


@dataclass(frozen=True)
class StackDump:
    """The threads of one rank at one moment."""

    rank: int | None
    file: str
    threads: tuple[StackThread, ...]

    @property
    def main(self) -> StackThread | None:
        """The thread that runs the training loop: MainThread, else the one that a module's top
        level started."""
        for thread in self.threads:
            if "MainThread" in thread.name and thread.frames:
                return thread
        # The outermost call of a script is its <module>.
        started = [
            t for t in self.threads if t.frames and t.frames[-1].function.strip() == "<module>"
        ]
        return started[-1] if started else None


def read_stack_dumps(paths: Iterable[Path]) -> list[StackDump]:
    """Every rank's stacks in these files; files that hold none, or cannot be opened, give
    nothing."""
    stack_dumps: list[StackDump] = []
    for path in paths:
        try:
            with path.open("rb") as file:
                text = file.read(MAX_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        parts = _page(text) if text.lstrip()[:1] == "<" else [(rank_in_name(path), text)]
        for rank, part in parts:
            threads = parse_stacks(part)
            if threads:
                stack_dumps.append(StackDump(rank, str(path), threads))
    return stack_dumps


def parse_stacks(text: str) -> tuple[StackThread, ...]:
    """The threads of one text of faulthandler or py-spy."""
    threads: list[StackThread] = []
    name: str | None = None
    frames: list[StackFrame] = []
    for raw in text.splitlines():
        line = raw[:MAX_LINE]
        header = _THREAD.match(line)
        if header:
            if name is not None:
                threads.append(StackThread(name, tuple(frames)))
            if len(threads) >= MAX_THREADS:
                return tuple(threads)
            name, frames = header[0], []
        elif name is not None and len(frames) < MAX_FRAMES:
            frame: StackFrame | None
            match = _FAULT_FRAME.match(line)
            if match:
                frame = StackFrame(match[3].strip(), match[1], int(match[2]))
            else:
                match = _PYSPY_FRAME.match(line)
                frame = StackFrame(match[1].strip(), match[2], int(match[3])) if match else None
            if frame is not None:
                frames.append(frame)
    if name is not None:
        threads.append(StackThread(name, tuple(frames)))
    return tuple(threads)


def _page(text: str) -> Sequence[tuple[int | None, str]]:
    parts = []
    for heading in _PAGE_PART.finditer(text):
        # The last stack of a cut-off page has no end.
        end = text.find("</pre>", heading.end())
        parts.append(
            (int(heading[1]), html.unescape(text[heading.end() : end if end >= 0 else len(text)]))
        )
    return parts
