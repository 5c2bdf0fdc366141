"""The MCP server itself: tools, resources and prompts, for whichever transport.

Every request comes from a `Caller`. Whatever goes wrong in a tool is its result, in one line.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.analysis.secrets.redaction import masked
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.writer.plain_text import neutral
from faultline.bot.investigation.model.toolbox import what_is_wrong
from faultline.bot.mcp import resources
from faultline.bot.mcp.answer_tools import ANSWERING
from faultline.bot.mcp.asking_tools import ASKING
from faultline.bot.mcp.callers import Caller, CallLimits
from faultline.bot.mcp.case_tools import case_tool_list
from faultline.bot.mcp.investigations import Investigations
from faultline.bot.mcp.open_cases import OpenCases, case_tools
from faultline.bot.mcp.outgoing import as_text
from faultline.bot.mcp.resources import PROMPTS, McpPrompt
from faultline.bot.mcp.tool import TRACE_DOCTOR, McpTool, Result, TextResult, ToolRun
from faultline.bot.mcp.verify_tool import Verifier, verify_tool
from faultline.bot.policy.people import TAKES
from faultline.bot.runtime.logs import program_version
from faultline.connectors.shared.contract.base import Connector
from faultline.prompts import load_prompt

NAME = "faultline"
Context = ServerRequestContext[Any, Any]
CallerOf = Callable[[Context], Caller]
Record = Callable[[Context, Caller, str, str | None, str], Awaitable[None]]
"""Writes a line of the audit: who called which tool about which investigation, and why it was
refused or failed, or nothing."""
LONGEST_ERROR = 600
NO_STORE = "the store does not answer; try again"

log = logging.getLogger("faultline.mcp")


async def not_recorded(
    _ctx: Context, _caller: Caller, _tool: str, _about: str | None, _why: str
) -> None:
    """For the person at this machine, whose acts nobody audits."""


@dataclass
class McpServer:
    """The tools, resources and prompts. `scratch` is a folder for what callers look up."""

    investigations: Investigations
    scratch: Path
    caller_of: CallerOf
    connectors: Sequence[Connector] = ()
    """Sources that may be asked for more."""
    verifier: Verifier | None = None
    record: Record = not_recorded
    limits: CallLimits = field(default_factory=CallLimits)

    def __post_init__(self) -> None:
        self.cases = OpenCases(self.investigations, self.connectors, self.scratch)
        tools = (
            *ASKING,
            *ANSWERING,
            verify_tool(self.verifier),
            *case_tool_list(case_tools(self.connectors)),
            TRACE_DOCTOR,
        )
        self.tools: dict[str, McpTool] = {tool.name: tool for tool in tools}
        self.prompts: dict[str, McpPrompt] = {prompt.name: prompt for prompt in PROMPTS}

    def close(self) -> None:
        """End what was started for callers."""
        self.cases.close()
        if self.verifier is not None:
            self.verifier.close()

    def built(self) -> Server[Any]:
        """The server of the MCP library."""
        return Server(
            NAME,
            version=program_version(),
            title="Faultline",
            instructions=load_prompt("mcp_server").text,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            # Nobody else than the tools says what their arguments are.
            get_tool_input_schema=self._schema_of,
        )

    def _schema_of(self, name: str) -> dict[str, Any] | None:
        tool = self.tools.get(name)
        return tool.input_schema if tool is not None else None

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The tools that the caller's role is enough for."""
        caller = self.caller_of(ctx)
        may = [tool for tool in self.tools.values() if caller.may(tool.act)]
        return types.ListToolsResult(tools=[_tool(mcp_tool) for mcp_tool in may])

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Run a tool. What goes wrong is its result."""
        caller, arguments = self.caller_of(ctx), params.arguments or {}
        about = arguments.get("investigation")
        why = ""
        try:
            result = await self._called(ctx, caller, params.name, arguments)
        except ValidationError as error:
            why = what_is_wrong(error)
        except FaultlineError as error:
            why = str(error)
        except SQLAlchemyError:
            why = NO_STORE
        # The edge of a tool: the agent gets the error, the session goes on.
        except Exception as error:
            log.exception("tool %s failed", single_line(params.name, 60))
            why = f"failed ({type(error).__name__})"
        id_ = single_line(about, 100) if isinstance(about, str) else None
        await self.record(ctx, caller, single_line(params.name, 60), id_, why)
        return _failed(why) if why else _succeeded(result)

    async def _called(
        self, ctx: Context, caller: Caller, name: str, raw_arguments: dict[str, Any]
    ) -> Result:
        tool = self.tools.get(name)
        if tool is None:
            raise FaultlineError(f"there is no tool {single_line(name, 60)!r}")
        if not caller.may(tool.act):
            raise FaultlineError(f"this takes the role {TAKES[tool.act]}; yours is {caller.role}")
        arguments = tool.arguments.model_validate(raw_arguments)
        with self.limits.call(caller):
            lines = 0

            async def report_progress(line: str) -> None:
                nonlocal lines
                # The protocol asks for a number that grows.
                lines += 1
                await ctx.session.report_progress(lines, None, line)

            run = ToolRun(caller, self.investigations, self.cases, report_progress)
            return await tool.call(run, arguments)

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """The files of the newest cases, a page at a time."""
        caller = self.caller_of(ctx)
        with self._protocol_errors(caller):
            cursor = params.cursor if params is not None else None
            files, more = await resources.listed(self.investigations, caller, cursor)
        listed_resources = [
            types.Resource(
                uri=file.uri,
                name=file.uri.removeprefix(resources.SCHEME),
                title=file.file.title,
                description=file.description,
                mime_type=file.file.media_type,
            )
            for file in files
        ]
        return types.ListResourcesResult(resources=listed_resources, next_cursor=more)

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """How the files of a case are called."""
        template = types.ResourceTemplate(
            uri_template=resources.TEMPLATE,
            name="case file",
            title="A file of an investigation's case",
            description=f"file is one of {', '.join(resources.FILES)}.",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """One file of a case."""
        caller, uri = self.caller_of(ctx), str(params.uri)
        with self._protocol_errors(caller):
            file, content = await resources.read(self.cases, caller, uri)
        about = uri.removeprefix(resources.SCHEME).partition("/")[0]
        await self.record(ctx, caller, f"read {file.name}", about, "")
        if isinstance(content, bytes):
            blob = base64.b64encode(content).decode()
            contents: types.TextResourceContents | types.BlobResourceContents = (
                types.BlobResourceContents(uri=uri, mime_type=file.media_type, blob=blob)
            )
        else:
            contents = types.TextResourceContents(uri=uri, mime_type=file.media_type, text=content)
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """The prompts."""
        return types.ListPromptsResult(
            prompts=[_prompt(prompt) for prompt in self.prompts.values()]
        )

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """One prompt with the caller's arguments."""
        with self._protocol_errors(self.caller_of(ctx)):
            prompt = self.prompts.get(params.name)
            if prompt is None:
                prompt_names = ", ".join(self.prompts)
                raise FaultlineError(f"there is no such prompt; there are {prompt_names}")
            text = prompt.text(params.arguments or {})
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=prompt.description, messages=[message])

    @contextmanager
    def _protocol_errors(self, caller: Caller) -> Iterator[None]:
        """A request that is no tool's: what goes wrong is an error of the protocol."""
        try:
            with self.limits.call(caller):
                yield
        except FaultlineError as error:
            raise MCPError(
                types.INVALID_PARAMS, neutral(masked(str(error)), LONGEST_ERROR)
            ) from None
        except SQLAlchemyError:
            raise MCPError(types.INTERNAL_ERROR, NO_STORE) from None


def _succeeded(result: Result) -> types.CallToolResult:
    if isinstance(result, TextResult):
        return types.CallToolResult(content=[types.TextContent(text=result.text)])
    # The text as well: clients of earlier versions of the protocol read nothing else.
    return types.CallToolResult(
        content=[types.TextContent(text=as_text(result))], structured_content=dict(result)
    )


def _failed(why: str) -> types.CallToolResult:
    text = neutral(masked(why), LONGEST_ERROR)
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _tool(mcp_tool: McpTool) -> types.Tool:
    return types.Tool(
        name=mcp_tool.name,
        title=mcp_tool.title,
        description=mcp_tool.description,
        input_schema=mcp_tool.input_schema,
        annotations=types.ToolAnnotations(
            title=mcp_tool.title,
            # Nothing is changed at any source; `investigate` adds an investigation of our own.
            read_only_hint=not mcp_tool.begins,
            destructive_hint=False,
            idempotent_hint=not mcp_tool.begins,
            open_world_hint=mcp_tool.act == "investigate",
        ),
    )


def _prompt(mcp_prompt: McpPrompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=a.name, description=a.description, required=a.required)
        for a in mcp_prompt.arguments
    ]
    return types.Prompt(
        name=mcp_prompt.name,
        title=mcp_prompt.title,
        description=mcp_prompt.description,
        arguments=arguments,
    )
