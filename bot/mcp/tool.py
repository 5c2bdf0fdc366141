"""One tool as it is declared: its words, its arguments, who may call it, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from faultline.bot.mcp.callers import Caller
from faultline.bot.mcp.investigations import Investigations, ProgressReporter
from faultline.bot.mcp.open_cases import OpenCase, OpenCases
from faultline.bot.policy.people import Act

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
