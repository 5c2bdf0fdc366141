"""Runs the command, and writes small jobs for it."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from faultline.bot.cli import main as cli
from tests.analysis.traces.written_traces import document, job, write_trace


def trace_process(*arguments: object, columns: int = 100) -> subprocess.CompletedProcess[str]:
    """`faultline trace ...`, piped, in a separate process."""
    command = [sys.executable, "-m", "faultline.bot.cli.main", "trace", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONWARNINGS": "error"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=110, check=False, env=environment
    )


def trace(*arguments: object, columns: int = 100) -> subprocess.CompletedProcess[str]:
    """The same in this process, where nothing has to be loaded again."""
    return faultline("trace", *arguments, columns=columns)


def faultline(*arguments: object, columns: int = 100) -> subprocess.CompletedProcess[str]:
    """`faultline ...` in this process: its entry point, with streams as pipes have them."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    problems = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    command = ["faultline", *map(str, arguments)]
    streams = mock.patch.multiple(sys, argv=command, stdout=out, stderr=problems)
    with streams, mock.patch.dict(os.environ, {"COLUMNS": str(columns)}), _no_log_handlers():
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        out.flush()
        problems.flush()
    printed, said = (stream.buffer.getvalue().decode() for stream in (out, problems))
    return subprocess.CompletedProcess(command, code, printed, said)


@contextmanager
def _no_log_handlers() -> Iterator[None]:
    """The log as a new process has it: what is warned of goes to standard error."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def write_job(
    folder: Path, late_us: dict[tuple[int, int], float] | None = None, ranks: int = 4
) -> Path:
    """A job whose times are known; `late_us[rank, step]` is time for which all wait."""
    for rank, events in enumerate(job(ranks=ranks, late_us=late_us)):
        write_trace(folder / f"rank{rank}.pt.trace.json.gz", document(events, rank, ranks))
    return folder


STRAGGLER = {(2, step): 8_000.0 for step in range(8)}
"""Rank 2 is 8 ms late in every step of 10 ms."""
