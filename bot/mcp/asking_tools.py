"""`investigate`, `wait` and `recent`: begin an investigation, follow it, find earlier ones."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from faultline.bot.answer.writer.payload import Redactor
from faultline.bot.mcp.investigations import InvestigationHandle, shown
from faultline.bot.mcp.outgoing import Exact, outgoing, when
from faultline.bot.mcp.tool import McpTool, OfInvestigation, Result, ToolArguments, ToolRun
from faultline.bot.runtime.threads import in_thread

WAIT_S = 45
"""Less than the minute after which clients give up by default
(https://github.com/modelcontextprotocol/typescript-sdk, DEFAULT_REQUEST_TIMEOUT_MSEC)."""
LONGEST_WAIT_S = 600
MOST_RECENT = 50
MOST_LINES = 40


class InvestigateArguments(ToolArguments):
    question: str = Field(
        min_length=1, description="What is seen, as a person would say it: checkout is slow."
    )
    service: str | None = Field(
        default=None, max_length=200, description="The service it is about, where that is known."
    )
    since: str | None = Field(
        default=None,
        max_length=60,
        description="When it began: 30m, 2h, 14:19, or an ISO 8601 time. Default: what the "
        "question says, or else now.",
    )
    wait_s: float = Field(
        default=WAIT_S,
        ge=0,
        le=LONGEST_WAIT_S,
        description="Seconds to wait for the answer. 0 returns the id at once.",
    )


class WaitArguments(OfInvestigation):
    wait_s: float = Field(
        default=WAIT_S, ge=0, le=LONGEST_WAIT_S, description="Seconds to wait at most."
    )


class RecentArguments(ToolArguments):
    most: int = Field(default=10, ge=1, le=MOST_RECENT, description="How many.")


async def investigate(run: ToolRun, arguments: InvestigateArguments) -> Result:
    """Begin, and wait as long as asked."""
    begun = await run.investigations.begin(
        run.caller, arguments.question, arguments.service, arguments.since or None
    )
    handle = await run.investigations.wait(run.caller, begun, arguments.wait_s, run.report_progress)
    return await _state(run, handle)


async def wait(run: ToolRun, arguments: WaitArguments) -> Result:
    """Wait for the answer."""
    investigation = arguments.investigation
    handle = await run.investigations.wait(
        run.caller, investigation, arguments.wait_s, run.report_progress
    )
    return await _state(run, handle)


async def recent(run: ToolRun, arguments: RecentArguments) -> Result:
    """The newest investigations."""
    latest = await run.investigations.latest(run.caller, arguments.most)
    value = {"investigations": [_summary(handle) for handle in latest]}
    return await in_thread(outgoing, value, Redactor())


async def _state(run: ToolRun, handle: InvestigationHandle) -> Result:
    value = _summary(handle)
    if handle.investigation.status == "done":
        value["next"] = Exact("`answer` gives the cause and its proof; `verify` checks it again.")
    elif not handle.has_ended:
        lines = await run.investigations.progress(handle)
        value["progress"] = [shown(line) for line in lines[-MOST_LINES:]]
        value["next"] = Exact("`wait` with this id.")
    # No case is open here, so no placeholders have to agree with others.
    return await in_thread(outgoing, value, Redactor())


def _summary(handle: InvestigationHandle) -> dict[str, Any]:
    investigation = handle.investigation
    return {
        "investigation": Exact(investigation.id),
        "status": Exact(investigation.status),
        "asked": investigation.question or investigation.alert.title,
        "service": investigation.alert.service,
        "began": when(investigation.alert.started_at),
        "accepted": when(investigation.accepted_at),
        "finished": when(investigation.finished_at),
        "verdict": Exact(investigation.verdict) if investigation.verdict else None,
        "confidence": investigation.confidence,
        "headline": investigation.headline,
    }


ASKING = (
    McpTool(
        "investigate",
        "Investigate an incident",
        "Find the cause of an incident: collects metrics, logs, traces and changes from the "
        "connected sources around the time, compares them with before, and ranks causes by code. "
        "Reads only. Takes about a minute; returns the id at once where it takes longer than "
        "`wait_s`.",
        InvestigateArguments,
        investigate,
        act="investigate",
        begins=True,
    ),
    McpTool(
        "wait",
        "Wait for an answer",
        "Wait until an investigation has its answer, or until the time is over.",
        WaitArguments,
        wait,
    ),
    McpTool(
        "recent",
        "Recent investigations",
        "The newest investigations with their headlines, earlier ones of this bot among them.",
        RecentArguments,
        recent,
    ),
)
