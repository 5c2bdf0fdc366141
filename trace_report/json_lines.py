"""`--jsonl FILE`: one JSON object a line. The rows of a rank are written as soon as the rank has
been analysed, and not kept.

`record` says what a line is: "row" (of `analysis`, with the `file` and `rank` that it is of), then,
once all ranks have been read, "row" across ranks, "rank", "diagnosis", "dropped", and "summary" as
the last line. A rank that follows from the order of files is null until its "rank" line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from faultline.analysis.errors import SettingsError
from faultline.trace_report.job_report import JobReport, answer, rows_of_job
from faultline.trace_report.json_output import json_line

STANDARD_OUTPUT = "-"
WriteLines = Callable[[bytes], None]


@contextmanager
def line_writer(name: str | None) -> Iterator[WriteLines | None]:
    """Writes lines to the file, or to standard output, at once; None without a name. It raises
    SettingsError where that is impossible."""
    if name is None:
        yield None
        return
    with ExitStack() as opened:
        with _refusals(name):
            if name == STANDARD_OUTPUT:
                file: BinaryIO = sys.stdout.buffer
            else:
                file = opened.enter_context(Path(name).open("wb"))

        def write(lines: bytes) -> None:
            with _refusals(name):
                file.write(lines)
                # Flush after each rank: a reader can follow while others are still being read.
                file.flush()

        yield write


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise SettingsError(name, f"cannot be written ({why})") from error


def rest_of(report: JobReport) -> bytes:
    """The lines of what is known only once all ranks have been read."""
    return b"".join(json_line(line) for line in _rest(report))


def _rest(report: JobReport) -> Iterator[dict[str, Any]]:
    for name, rows in rows_of_job(report).items():
        for row in rows:
            yield {"record": "row", "analysis": name, **row}
    document = answer(report)
    for rank in document["ranks"]:
        yield {"record": "rank", **rank}
    for diagnosis in document["diagnoses"]:
        yield {"record": "diagnosis", **diagnosis}
    yield {"record": "dropped", **document["dropped"]}
    yield {"record": "summary", **document["summary"]}
