"""Which of the last lines of a container says why it ended.

Most languages write it last, followed by the frames of a stack or a hint of the runtime's; Go
writes it first, above the stacks of all goroutines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from faultline.analysis.secrets.redaction import masked
from faultline.connectors.shared.vendor_text import short

LONGEST = 120
"""Characters of it that are shown. The log holds the rest."""
LONGEST_READ = 4_000
_FIRST = re.compile(r"(?:panic|fatal error): ")
"""Go (runtime/panic.go)."""
_FRAME = re.compile(
    r"\s|goroutine \d+ \[|\.\.\. \d+ more|exit status \d+$|Node\.js v\d|created by "
    r"|note: run with `RUST_BACKTRACE|--- End of |#\d+ |\[signal |[\w./*()-]+\(.*\)$|}$"
)
"""Lines of a stack, and what Go, Node.js and Rust write below one."""
_CALM = re.compile(r"(?:[^\s\[]{1,40} ){0,4}\[?(?:DEBUG|INFO|LOG|NOTICE|WARN|WARNING)\b")
_GRAVE = re.compile(r"\b(?:ERROR|SEVERE|CRITICAL|FATAL|PANIC|EMERG)\b")
"""Levels as loggers and PostgreSQL write them: a server says that it shuts down after it has said
why."""
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
"""Colours, which many loggers write for terminals."""


class _JsonLine(msgspec.Struct):
    message: str | None = None
    msg: str | None = None
    log: str | None = None
    error: str | None = None


def readable(line: str) -> str:
    """A line as it may be shown: without colours and other control characters."""
    plain = _ANSI.sub("", line[:LONGEST_READ])
    return "".join(c if c.isprintable() or c == "\t" else " " for c in plain)


def telling_line(lines: Sequence[str]) -> str:
    """The line that says why, cut and without secrets; "" where there is none."""
    readables = [line for line in map(readable, lines) if line.strip()]
    # Go's line wins wherever it stands: below it come only stacks.
    for line in reversed(readables):
        if _FIRST.match(line):
            return _shown(line)
    without_frames = [line for line in readables if not _FRAME.match(line)]
    if without_frames and _CALM.match(without_frames[-1]):
        grave_lines = [line for line in without_frames if _GRAVE.search(line)]
        without_frames = grave_lines or without_frames
    if without_frames:
        return _shown(without_frames[-1])
    return _shown(readables[-1]) if readables else ""


def _shown(line: str) -> str:
    text = line
    if text.startswith("{"):
        text = _message_in(text) or text
    # Masked before it is cut: half a key looks like none.
    return short(masked(text), LONGEST)


def _message_in(line: str) -> str:
    try:
        read = msgspec.json.decode(line, type=_JsonLine)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    message = read.message or read.msg or read.log or ""
    if read.error and read.error not in message:
        message = f"{message}: {read.error}" if message else read.error
    return message
