"""Runs the real command, and writes small jobs for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.analysis.traces.written_traces import document, job, write_trace


def trace(*arguments: object, columns: int = 100) -> subprocess.CompletedProcess[str]:
    """`faultline trace ...`, piped."""
    command = [sys.executable, "-m", "bot.cli", "trace", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONWARNINGS": "error"}
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, env=environment)


def write_job(folder: Path, late_us: dict[tuple[int, int], float] | None = None, ranks: int = 4) -> Path:
    """A job whose times are known; `late_us[rank, step]` is time for which all wait."""
    for rank, events in enumerate(job(ranks=ranks, late_us=late_us)):
        write_trace(folder / f"rank{rank}.pt.trace.json.gz", document(events, rank, ranks))
    return folder


STRAGGLER = {(2, step): 8_000.0 for step in range(8)}
"""Rank 2 is 8 ms late in every step of 10 ms."""
