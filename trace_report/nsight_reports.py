"""Reports of Nsight Systems (`.nsys-rep`) become SQLite exports: only NVIDIA's own `nsys` reads
them.

It runs without the environment of this process, in a folder that is removed, for a bounded time and
on a bounded disk. Options: NVIDIA's Nsight Systems User Guide, "CLI Export Command Switch Options";
long options take their value after =.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from faultline.analysis.errors import EvidenceError

SUFFIXES = (".nsys-rep", ".qdrep")
EXPORT_SECONDS = 600.0
"""Longest export of one report (own; a report of 1 GB takes about a minute)."""
POLL_S = 0.1
MAX_MESSAGE = 160
_SQLITE = b"SQLite format 3\0"
_STDERR_TAIL = 4096


def is_report(path: Path) -> bool:
    """Whether a file's name is that of a report, and it is not an export under that name."""
    return path.name.lower().endswith(SUFFIXES) and not _is_database(path)


def without_export(paths: Iterable[Path]) -> list[Path]:
    """The reports among the files that have no export beside them yet, in order."""
    files = list(paths)
    have = set(files)
    beside = (".sqlite", ".sqlite3", ".sqlite.gz")
    return [
        f
        for f in files
        if is_report(f) and not any(f.with_suffix(suffix) in have for suffix in beside)
    ]


def export_command(report: str) -> str:
    """What to type to export a report, ready for a shell."""
    # A name that begins with a dash must not read as an option.
    name = report if report.startswith(("/", "./", "../")) else f"./{report}"
    output = str(Path(name).with_suffix(".sqlite"))
    output = output if output.startswith(("/", "../")) else f"./{output}"
    words = (
        "nsys",
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={output}",
        name,
    )
    return " ".join(shlex.quote(word) for word in words)


def exported(
    report: Path, folder: Path, *, name: str, most_bytes: int, limit_s: float | None = None
) -> Path:
    """The SQLite export of a report, in a new folder below `folder`. `name` is what people call the
    report.

    Raises EvidenceError, which says what to do, where there is no `nsys` or it fails, takes longer
    than `limit_s` (EXPORT_SECONDS) or writes more than `most_bytes`.
    """
    tool = shutil.which("nsys")
    if tool is None:
        raise EvidenceError(
            name,
            f"only NVIDIA's nsys reads it, and it is not on PATH here; run: {export_command(name)}",
        )
    place = Path(tempfile.mkdtemp(prefix="nsys-", dir=folder))
    try:
        target = place / f"{report.stem}.sqlite"
        with tempfile.TemporaryDirectory(prefix="work-", dir=place) as work:
            why = _run(
                # The command runs in another folder, where a relative path would not be found.
                os.path.abspath(tool),
                report.resolve(),
                target,
                Path(work),
                most_bytes,
                limit_s or EXPORT_SECONDS,
            )
        if why is None and not _is_database(target):
            why = "wrote no SQLite file"
        if why is not None:
            raise EvidenceError(
                name, f"nsys export {why}; run it where the report was made: {export_command(name)}"
            )
    except BaseException:
        # Also on Ctrl-C: leave no partial export behind.
        shutil.rmtree(place, ignore_errors=True)
        raise
    return target


def _run(
    tool: str, report: Path, target: Path, work: Path, most_bytes: int, limit_s: float
) -> str | None:
    """Why the export failed, or None. All that `nsys` writes lies below the target's folder."""
    command = [
        tool,
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={target}",
        str(report),
    ]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(work),
        "TMPDIR": str(work),
        "LANG": "C.UTF-8",
    }
    path = work / "stderr"
    try:
        with path.open("wb") as errors:
            process = subprocess.Popen(
                command,
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                # A new session, so that one signal ends all that nsys starts.
                start_new_session=True,
            )
    except OSError as error:
        return f"cannot be started ({error.strerror or type(error).__name__})"
    try:
        why = _watched(process, target.parent, most_bytes, limit_s)
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if why is None and process.returncode:
        why = f"failed with exit status {process.returncode}{_last_line(path)}"
    return why


def _watched(
    process: subprocess.Popen[bytes], folder: Path, most_bytes: int, limit_s: float
) -> str | None:
    ends = time.monotonic() + limit_s
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
        total = 0
        for place, _, files in os.walk(folder):
            for file in files:
                with suppress(OSError):
                    # lstat: follow no link that nsys may leave.
                    total += os.lstat(os.path.join(place, file)).st_size
        if total > most_bytes:
            return f"needs more than the {most_bytes:,} bytes of disk that it may take"
        if process.poll() is not None:
            return None
        if time.monotonic() > ends:
            return f"did not end within {limit_s:g} s"


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _last_line(stderr_path: Path) -> str:
    """What `nsys` said last, in brackets; "" where it said nothing."""
    try:
        with stderr_path.open("rb") as file:
            file.seek(max(0, stderr_path.stat().st_size - _STDERR_TAIL))
            lines = file.read(_STDERR_TAIL).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    spoken = [
        " ".join("".join(c if c.isprintable() else " " for c in line).split()) for line in lines
    ]
    return next((f" ({line[:MAX_MESSAGE]})" for line in reversed(spoken) if line), "")
