"""`faultline capture`: ask a running job for a trace, or show what was asked before."""

from __future__ import annotations

import asyncio
import getpass
import socket
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from faultline.bot.investigation.capture.captured import plan_capture, single_line
from faultline.bot.investigation.capture.run import run_capture
from faultline.bot.settings import Settings
from faultline.bot.store.databases import open_store
from faultline.bot.store.follow_ups import CaptureLog

NOTHING_CAPTURED = 1


def capture_now(
    settings: Settings,
    job: str,
    *,
    seconds: float | None,
    iterations: int | None,
    output: Path | None,
) -> int:
    """Ask, collect and print; 0 when anything was recorded, else 1. Raises SettingsError."""
    plan = plan_capture(settings, job, seconds=seconds, iterations=iterations)
    store = open_store(settings)
    target = output or settings.store.directory / "captures"
    try:
        try:
            name = getpass.getuser()
        except (OSError, KeyError):
            # A container's user may have no entry in the password file.
            name = "someone"
        result = asyncio.run(
            run_capture(
                plan,
                CaptureLog(store.engine),
                target,
                requested_by=f"{name}@{socket.gethostname()}, command line",
                say=_say,
            )
        )
    finally:
        store.engine.dispose()
    if result.refusal is not None:
        sys.stderr.write(f"faultline: {job}: {single_line(result.refusal)}\n")
        return NOTHING_CAPTURED
    # Paths are copied from here, so no line breaks within one.
    console = Console(highlight=False, soft_wrap=True)
    for file in result.files:
        who = f"rank {file.rank}" if file.rank is not None else "rank unknown"
        process = f", process {file.pid}" if file.pid is not None else ""
        console.print(
            Text(
                single_line(
                    f"{file.path}  {file.kind.replace('_', ' ')}, {who}{process} on {file.host}"
                )
            )
        )
    for gap in result.gaps:
        console.print(Text(single_line(f"missing: {gap.where}: {gap.why}"), style="yellow"))
    if result.files:
        console.print(Text(f"look at it: faultline trace {result.folder}"))
    return 0 if result.files else NOTHING_CAPTURED


def print_history(settings: Settings, job: str | None) -> None:
    """The record, newest first."""
    store = open_store(settings)
    console = Console(highlight=False, soft_wrap=True)
    for row in CaptureLog(store.engine).history(job):
        line = (
            f"{row.requested_at:%Y-%m-%d %H:%M:%S}Z  {row.id}  {row.status:<8}  {row.job}  "
            f"{row.requested}"
        )
        console.print(
            Text(
                single_line(
                    f"{line}  by {row.requested_by}  hosts {row.hosts}  "
                    f"{row.result or 'no end recorded'}"
                )
            )
        )
    store.engine.dispose()


def _say(line: str) -> None:
    sys.stderr.write(f"{single_line(line)}\n")
