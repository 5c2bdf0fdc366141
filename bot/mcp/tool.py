"""One tool as it is declared: its words, its arguments, who may call it, and what it does."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from faultline.analysis.errors import EvidenceError, FaultlineError
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.writer.payload import Redactor
from faultline.bot.conversation.trace_request import allowed_place, diagnosed
from faultline.bot.mcp.callers import Caller
from faultline.bot.mcp.investigations import Investigations, ProgressReporter
from faultline.bot.mcp.open_cases import OpenCase, OpenCases
from faultline.bot.mcp.outgoing import Exact, outgoing
from faultline.bot.policy.people import Act
from faultline.bot.runtime.threads import in_thread

LONGEST_ARGUMENT = 2_000
ID = "Id of an investigation, as `investigate` and `recent` give it."


class ToolArguments(BaseModel):
    """Base of the arguments. What is not known is refused, so that the agent learns that it was not
    heard."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST_ARGUMENT)


class OfInvestigation(ToolArguments):
    """Arguments of a tool about one investigation."""

    investigation: str = Field(min_length=1, max_length=100, description=ID)


@dataclass(frozen=True)
class ToolRun:
    """What a call may use."""

    caller: Caller
    investigations: Investigations
    cases: OpenCases
    report_progress: ProgressReporter
    """Tells the client one line of progress."""

    async def case(self, arguments: OfInvestigation) -> OpenCase:
        """The case that the call is about. Raises FaultlineError."""
        return await self.cases.open(self.caller, arguments.investigation)


@dataclass(frozen=True)
class TextResult:
    """A result that is lines of data already, not JSON."""

    text: str


Result = Mapping[str, Any] | TextResult


@dataclass(frozen=True)
class McpTool:
    """A tool. What `call` gives as a mapping has been through `faultline.bot.mcp.outgoing`."""

    name: str
    title: str
    description: str
    arguments: type[BaseModel]
    call: Callable[[ToolRun, Any], Awaitable[Result]]
    act: Act = "read"
    begins: bool = False
    """Whether it begins something, which another call does not begin a second time for nothing."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of the arguments, where it is not that of the model."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, as clients see it."""
        schema = dict(self.schema or self.arguments.model_json_schema())
        # The class's own docstring is written for us.
        schema.pop("description", None)
        schema.pop("title", None)
        properties = {
            name: dict(property_schema)
            for name, property_schema in schema.get("properties", {}).items()
        }
        for property_schema in properties.values():
            # A name again, which each conversation would carry.
            property_schema.pop("title", None)
        return {**schema, "properties": properties}


# `trace_doctor`: what is wrong with a training job, from its profiler traces, dumps and logs.

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
