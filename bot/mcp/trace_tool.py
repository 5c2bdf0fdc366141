"""`trace_doctor`: what is wrong with a training job, from its profiler traces, dumps and logs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pydantic import Field

from faultline.analysis.errors import EvidenceError, FaultlineError
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.writer.redaction import Redactor
from faultline.bot.conversation.allowed_traces import allowed_place
from faultline.bot.conversation.trace_request import diagnosed
from faultline.bot.mcp.outgoing import Exact, outgoing
from faultline.bot.mcp.tool import ID, McpTool, Result, ToolArguments, ToolRun
from faultline.bot.runtime.threads import in_thread

TRACES = "traces"
MOST_UNREAD = 20


class TraceArguments(ToolArguments):
    path: str | None = Field(
        default=None,
        max_length=1_000,
        description="File, folder, archive or s3://bucket/prefix with the traces of one job.",
    )
    investigation: str | None = Field(
        default=None, max_length=100, description=f"{ID} Its own traces, in the place of `path`."
    )


async def trace_doctor(run: ToolRun, arguments: TraceArguments) -> Result:
    """The diagnoses, the worst first."""
    # Exactly one of them: neither says what to read, and both contradict each other.
    if (arguments.path is None) == (arguments.investigation is None):
        raise FaultlineError("give either `path` or `investigation`")
    if arguments.investigation is not None:
        _, folder = await run.investigations.folder(run.caller, arguments.investigation)
        place = str(folder / TRACES)
        if not await in_thread((folder / TRACES).is_dir):
            raise EvidenceError(arguments.investigation, "its case holds no traces")
    else:
        place = await in_thread(_place, run, arguments.path or "")
    await run.report_progress("reading traces")
    with tempfile.TemporaryDirectory(prefix="faultline-mcp-traces-") as scratch:
        report = await diagnosed(place, run.investigations.settings.traces, Path(scratch))
    return await in_thread(outgoing, _value(report), Redactor())


def _place(run: ToolRun, location: str) -> str:
    """Where the traces are. Others than the person at this machine read below `traces.locations`
    alone."""
    settings = run.investigations.settings.traces
    if run.caller.is_local:
        if location.startswith("s3://"):
            return location
        path = Path(location).expanduser()
        if not path.exists():
            raise EvidenceError(single_line(location, 200), "there is no such file or folder")
        return str(path.resolve())
    place = allowed_place(location, settings.locations)
    if place is None:
        raise EvidenceError(
            single_line(location, 200), "lies in none of the configured traces.locations"
        )
    return place


def _value(report: Any) -> dict[str, Any]:
    diagnoses = [
        diagnosis for diagnosis in report.get("diagnoses") or [] if isinstance(diagnosis, dict)
    ]
    return {
        "summary": report.get("summary"),
        "facts": report.get("facts"),
        "diagnoses": [
            {
                **diagnosis,
                "rule": Exact(diagnosis.get("rule") or ""),
                "severity": diagnosis.get("severity"),
            }
            for diagnosis in diagnoses
        ],
        "diagnoses_in_all": report.get("diagnoses_in_all"),
        "unread": (report.get("unread") or [])[:MOST_UNREAD],
        "unread_in_all": report.get("unread_in_all"),
    }


TRACE_DOCTOR = McpTool(
    "trace_doctor",
    "Diagnose training traces",
    "What is wrong with a PyTorch training job, from its profiler traces, flight-recorder dumps, "
    "Nsight exports and logs: stragglers, idle GPUs, exposed communication, hangs; with a fix.",
    TraceArguments,
    trace_doctor,
)
