"""`series`, `logs`, `traces`, `changes`, `topology` and the like: the tools of
`faultline.bot.investigation.model.tools` over the case of an investigation.

They are the model's own, with their checks, limits and redaction. What they show has ids, which
`evidence` takes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from faultline.analysis.errors import FaultlineError
from faultline.bot.investigation.model.toolbox import READ, ReadArguments
from faultline.bot.investigation.model.tools.contract import Tool
from faultline.bot.mcp.outgoing import NOTICE
from faultline.bot.mcp.tool import (
    ID,
    LONGEST_ARGUMENT,
    McpTool,
    OfInvestigation,
    Result,
    TextResult,
    ToolRun,
)

INVESTIGATION = "investigation"
TITLES = {
    "series": "Metrics of a service",
    "logs": "Logs",
    "traces": "Spans of a service",
    "request": "One request's spans",
    "changes": "Changes",
    "topology": "Who calls whom",
    "collect": "Ask a source for more",
    "query": "Query a source",
    READ.name: "Read a long result",
}
ERROR, END = "<data>\nerror: ", "\n</data>"
"""What stands around the toolbox's word of what went wrong."""
ASKS = ("collect", "query")
"""Tools that ask a source: they take the role of somebody who may investigate."""


def case_tool_list(tools: Sequence[Tool]) -> tuple[McpTool, ...]:
    """The tools as MCP has them."""
    mcp_tools = [_tool(tool.name, tool.description, tool.arguments) for tool in tools]
    return (*mcp_tools, _tool(READ.name, READ.description, ReadArguments))


class _CaseToolArguments(OfInvestigation):
    """The id is checked here, everything else by the tool itself."""

    model_config = ConfigDict(frozen=True, extra="allow", str_max_length=LONGEST_ARGUMENT)


def _tool(name: str, description: str, arguments: type[BaseModel]) -> McpTool:
    async def call(run: ToolRun, call_arguments: _CaseToolArguments) -> Result:
        case = await run.case(call_arguments)
        tool_arguments = call_arguments.model_dump(mode="json", exclude={INVESTIGATION})
        outcome = await case.run(name, json.dumps(tool_arguments))
        if outcome.error:
            raise FaultlineError(outcome.text.removeprefix(ERROR).removesuffix(END))
        return TextResult(f"{NOTICE}\n{outcome.text}")

    # The tool's own schema with the id in front.
    schema = arguments.model_json_schema()
    id_property = {INVESTIGATION: {"type": "string", "description": ID}}
    schema["properties"] = {**id_property, **schema.get("properties", {})}
    schema["required"] = [INVESTIGATION, *schema.get("required", [])]
    return McpTool(
        name,
        TITLES[name],
        description,
        _CaseToolArguments,
        call,
        act="investigate" if name in ASKS else "read",
        schema=schema,
    )
