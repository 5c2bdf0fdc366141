"""What a capture brought: files with their rank, process and host, and gaps with their reasons."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from faultline.analysis.errors import SettingsError
from faultline.analysis.traces.reading.capture_note import NAME
from faultline.bot.investigation.capture.dynolog import PORT, DaemonAddress
from faultline.bot.settings import Settings
from faultline.bot.settings.investigation import JobSettings
from faultline.bot.store.follow_ups import CaptureBudget, CaptureStatus

FileKind = Literal["trace", "stacks", "flight_recorder"]
MAX_TEXT = 2000


@dataclass(frozen=True)
class CapturedFile:
    """One file. What is not known is None: a trace on demand tells its rank only where the profiler
    knows it."""

    path: Path
    kind: FileKind
    host: str
    pid: int | None = None
    rank: int | None = None
    taken: datetime | None = None
    """When it was asked for."""


@dataclass(frozen=True)
class CaptureGap:
    """What is missing, and why."""

    where: str
    why: str


@dataclass(frozen=True)
class MethodResult:
    """What one way of capturing brought. `counts`: whether any machine was, or may have been, asked
    to record."""

    files: tuple[CapturedFile, ...] = ()
    gaps: tuple[CaptureGap, ...] = ()
    counts: bool = True
    refusal: str | None = None
    start: datetime | None = None


@dataclass(frozen=True)
class CaptureResult:
    """One capture, whatever its result."""

    id: str
    job: str
    status: CaptureStatus
    folder: Path
    files: tuple[CapturedFile, ...] = ()
    gaps: tuple[CaptureGap, ...] = ()
    refusal: str | None = None
    start: datetime | None = None

    @property
    def text(self) -> str:
        """The result on one line, for the record."""
        if self.refusal:
            return single_line(self.refusal)
        text = "; ".join(f"{gap.where}: {gap.why}" for gap in self.gaps)
        return single_line(
            f"files: {len(self.files)}, gaps: {len(self.gaps)}{' (' + text + ')' if text else ''}"
        )

    def write_note(self) -> None:
        """Say beside the files whose they are."""
        value = {
            "capture": self.id,
            "job": self.job,
            "start": self.start.isoformat() if self.start else None,
            "files": [_noted(file) for file in self.files],
            "gaps": [asdict(gap) for gap in self.gaps],
        }
        (self.folder / NAME).write_text(json.dumps(value, indent=1), encoding="utf-8")


def _noted(file: CapturedFile) -> dict[str, object]:
    taken = file.taken.isoformat() if file.taken else None
    # The note lies beside the files, so their names are enough.
    return asdict(file) | {"path": file.path.name, "taken": taken}


def status_of(method_result: MethodResult) -> CaptureStatus:
    """The word for it in the record."""
    if method_result.refusal:
        return "refused"
    if not method_result.files:
        return "failed"
    return "partial" if method_result.gaps else "recorded"


def single_line(text: str) -> str:
    """Foreign text fit for one line."""
    # Cut before cleaning: a foreign text may have any length.
    clean = " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * MAX_TEXT]).split())
    return clean if len(clean) <= MAX_TEXT else clean[: MAX_TEXT - 1] + "…"


# What one capture would ask, and which hosts, decided from the settings alone. Nothing is asked
# here.
#
# A job is asked only where `jobs.NAME.allow_capture` says so; whatever is in the way is a
# SettingsError that names the key.

DEFAULT_SECONDS = 0.5
"""libkineto's own default, a few steps of most jobs."""


@dataclass(frozen=True)
class CapturePlan:
    """One capture of one job."""

    job: str
    seconds: float
    """Length of the recording; 0 where iterations are counted."""
    iterations: int
    daemons: tuple[DaemonAddress, ...]
    slurm_job_id: int
    ranks_per_host: int | None
    ranks: int | None
    debug_server: str | None
    debug_hosts: tuple[str, ...]
    debug_ports: range
    job_directory: str
    trace_location: str
    endpoint_url: str | None
    wait_seconds: float
    max_file_bytes: int
    budget: CaptureBudget

    @property
    def requested(self) -> str:
        """What is recorded, in words."""
        return f"{self.iterations} iterations" if self.iterations else f"{self.seconds:g} s"

    @property
    def hosts(self) -> str:
        """Everything that may be spoken to, in words."""
        names = [str(daemon) for daemon in self.daemons]
        return ", ".join([self.debug_server, *names] if self.debug_server else names)


def plan_capture(
    settings: Settings, job: str, *, seconds: float | None = None, iterations: int | None = None
) -> CapturePlan:
    """The plan for a capture of a number of seconds or iterations. Raises SettingsError."""
    table = settings.jobs.get(job)
    if table is None:
        raise SettingsError(f"jobs.{job[:100]}", "no such table in the settings")
    _check_allowed(job, table, seconds, iterations)
    daemons = tuple(_address(f"jobs.{job}.hosts", host) for host in table.hosts)
    # A debug server cannot count iterations.
    frontend = table.debug_server if not iterations else None
    everybody = len(daemons) * table.ranks_per_host if table.ranks_per_host and daemons else None
    length = min(DEFAULT_SECONDS, table.longest_seconds) if seconds is None else seconds
    return CapturePlan(
        job=job,
        seconds=0.0 if iterations else length,
        iterations=iterations or 0,
        daemons=daemons,
        slurm_job_id=table.slurm_job_id,
        ranks_per_host=table.ranks_per_host,
        ranks=table.ranks or everybody,
        debug_server=frontend,
        debug_hosts=_debug_hosts(table, daemons),
        debug_ports=table.ports_of_debug_servers,
        job_directory=(table.job_directory or "").rstrip("/"),
        trace_location=table.trace_location or table.job_directory or "",
        endpoint_url=settings.traces.endpoint_url,
        wait_seconds=table.wait_seconds,
        max_file_bytes=settings.traces.max_file_bytes,
        budget=CaptureBudget(timedelta(minutes=table.cooldown_minutes), table.captures_per_day),
    )


def _check_allowed(
    job: str, table: JobSettings, seconds: float | None, iterations: int | None
) -> None:
    def wrong(key: str, problem: str) -> SettingsError:
        return SettingsError(f"jobs.{job}.{key}", problem)

    if not table.allow_capture:
        raise wrong("allow_capture", "is false: this job's machines are not asked for anything")
    if seconds is not None and iterations is not None:
        raise SettingsError("--seconds", "cannot be given together with --iterations")
    if seconds is not None and not 0 < seconds <= table.longest_seconds:
        raise wrong(
            "longest_seconds",
            f"allows more than 0 and at most {table.longest_seconds:g} s, not {seconds:g} s",
        )
    if iterations is not None and not 0 < iterations <= table.most_iterations:
        raise wrong(
            "most_iterations", f"allows 1 to {table.most_iterations} iterations, not {iterations}"
        )
    if not table.hosts and not table.debug_server:
        raise wrong(
            "hosts", "names no hosts with a Dynolog daemon, and debug_server is not set either"
        )
    if not table.hosts and iterations is not None:
        raise wrong(
            "hosts",
            "names no hosts with a Dynolog daemon, and a debug server cannot count iterations",
        )
    if table.hosts and not table.job_directory:
        raise wrong(
            "job_directory", "is not set: the job's processes must know where to write their traces"
        )


def _debug_hosts(table: JobSettings, daemons: tuple[DaemonAddress, ...]) -> tuple[str, ...]:
    frontend = urlsplit(table.debug_server).hostname if table.debug_server else None
    names = (*table.debug_hosts, *(daemon.host for daemon in daemons), frontend)
    # They are compared with hostnames from `urlsplit`, which are in lower case.
    return tuple(dict.fromkeys(name.lower() for name in names if name))


def _address(key: str, host: str) -> DaemonAddress:
    """`name`, `name:port`, `[v6 address]:port`, or a bare v6 address."""
    if host.count(":") > 1 and not host.startswith("["):
        return DaemonAddress(host)
    try:
        # Behind `//`, `urlsplit` reads the text as a host and a port.
        parts = urlsplit(f"//{host}")
        name, explicit_port = parts.hostname, parts.port
    except ValueError:
        name, explicit_port = None, None
    if (
        not name
        or parts.path
        or parts.query
        or "@" in host
        or not host.isprintable()
        or " " in host
    ):
        raise SettingsError(key, f"{host[:100]!r} is not like name or name:port")
    return DaemonAddress(name, explicit_port or PORT)
