"""The toolbox: checks what a model asks for, runs it within bounds, and gives it back as data with
placeholders.

Arguments are hostile: a log line may have dictated them. They are validated against a typed model;
names must be those that the case or the settings know. What is too long to send is kept as a file
of the case, with a tool to search it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, ValidationError

from analysis.errors import FaultlineError
from bot.answer.writer.payload import as_data, clean
from bot.answer.writer.plain_text import neutral
from bot.answer.writer.redaction import Redactor
from bot.investigation.model.bench import Bench
from bot.investigation.model.schemas import strict_schema
from bot.investigation.model.tools.changes import CHANGES
from bot.investigation.model.tools.findings import FINDING
from bot.investigation.model.tools.found import Arguments, Found, NotFound, Tool
from bot.investigation.model.tools.logs import LOGS
from bot.investigation.model.tools.queries import askable, collect_tool
from bot.investigation.model.tools.series import SERIES
from bot.investigation.model.tools.spans import TRACES
from bot.investigation.model.tools.topology import TOPOLOGY
from bot.investigation.model.tools.training import TRAINING
from bot.investigation.model.turns import ToolCall, ToolSpec
from bot.runtime.threads import in_thread

RESULT_LIMIT = 6_000
"""Characters of a result that are sent; of a longer one its head and tail."""
HEAD, TAIL = 3_500, 1_200
LONGEST_RESULT = 400_000
"""Characters of a result that are kept."""
LINE_LIMIT = 300
MATCHES = 40
TOOL_S = 60.0
"""One call may take so long; a new query has the connector's own deadline besides."""
RESULTS = "results"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_SAFE_NAME = re.compile(r"[^A-Za-z0-9_-]")


class ReadArguments(Arguments):
    file: str = Field(description="Name of the kept result, such as r2.")
    contains: str | None = Field(
        default=None, description="Only lines with these words, any case; or null."
    )
    from_line: int = Field(default=1, ge=1, le=10_000_000, description="The first line wanted.")


READ = ToolSpec(
    "read",
    "Lines of a result that was too long to be sent whole; or only those with some words.",
    {},
)


@dataclass(frozen=True)
class ToolOutcome:
    """What a call gave, as it is sent."""

    text: str
    error: bool = False
    asked: str | None = None


@dataclass
class Toolbox:
    """The tools of one conversation, the same from its beginning to its end."""

    bench: Bench
    redactor: Redactor
    tools: Sequence[Tool] = ()
    _kept: dict[str, str] = field(default_factory=dict)
    _telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Calls of one round run side by side, but placeholders and kept results are numbered."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them."""
        told = [ToolSpec(t.name, t.description, strict_schema(t.arguments)) for t in self.tools]
        read = ToolSpec(READ.name, READ.description, strict_schema(ReadArguments))
        return (*told, read) if told else ()

    async def run(self, call: ToolCall, *, within_s: float) -> ToolOutcome:
        """Carry out a call. Never raises: what went wrong is the result."""
        tool = next((t for t in self.tools if t.name == call.name), None)
        try:
            if call.name == READ.name and self.tools:
                asked = ReadArguments.model_validate(self._arguments(call))
                async with self._telling:
                    return await in_thread(self._read, asked)
            if tool is None:
                raise NotFound(f"no such tool; there are {', '.join(t.name for t in self.specs)}")
            arguments = tool.arguments.model_validate(self._arguments(call))
            async with asyncio.timeout(min(TOOL_S, within_s)):
                found = await tool.call(self.bench, arguments)
        except ValidationError as error:
            return await self._failed(_what_is_wrong(error))
        except (NotFound, FaultlineError) as error:
            return await self._failed(str(error))
        except TimeoutError:
            return await self._failed("took too long")
        # The edge of a tool: the model gets the error, the conversation goes on.
        except Exception as error:  # noqa: BLE001
            return await self._failed(f"failed ({type(error).__name__})")
        async with self._telling:
            return await in_thread(self._told, found)

    async def _failed(self, why: str) -> ToolOutcome:
        async with self._telling:
            return self._error(why)

    def _arguments(self, call: ToolCall) -> dict[str, Any]:
        """The arguments with placeholders turned back into what they stand for; nulls count as not
        given."""
        try:
            given = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            raise NotFound("the arguments are not JSON") from None
        if not isinstance(given, dict):
            raise NotFound("the arguments are not a JSON object")
        return {k: self._revealed(v) for k, v in given.items() if v is not None}

    def _revealed(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redactor.reveal(value)
        return [self._revealed(v) for v in value] if isinstance(value, list) else value

    def _error(self, why: str) -> ToolOutcome:
        return ToolOutcome(
            as_data([json.dumps({"error": clean(why, self.redactor)}, ensure_ascii=False)]),
            error=True,
        )

    def _told(self, found: Found) -> ToolOutcome:
        head = {"provenance": found.provenance, "note": found.note}
        lines = [
            json.dumps(clean(row, self.redactor), ensure_ascii=False) for row in (head, *found.rows)
        ]
        if found.text:
            safe = self.redactor.redact(found.text).split("\n")
            lines += [
                json.dumps(_CONTROL.sub(" ", line)[:LINE_LIMIT], ensure_ascii=False)
                for line in safe
            ]
        return ToolOutcome(self._bounded("\n".join(lines)[:LONGEST_RESULT]), asked=found.asked)

    def _bounded(self, text: str) -> str:
        """The result; of a long one its head and tail, and where the whole of it is kept."""
        if len(text) <= RESULT_LIMIT:
            return as_data([text])
        name = f"r{len(self._kept) + 1}"
        self._kept[name] = text
        self.bench.keep(f"{self.bench.store}/{RESULTS}/{name}.txt", text.encode())
        head, tail = text[:HEAD].rsplit("\n", 1)[0], text[-TAIL:].split("\n", 1)[-1]
        lines, shown = text.count("\n") + 1, head.count("\n") + tail.count("\n") + 2
        left_out = json.dumps(
            {"left_out_lines": max(0, lines - shown), "kept_as": name, "lines": lines}
        )
        return as_data([head, left_out, tail])

    def _read(self, asked: ReadArguments) -> ToolOutcome:
        """Lines of a kept result. It holds placeholders already."""
        text = self._kept.get(asked.file)
        if text is None:
            return self._error(
                f"no result is kept under this name; there are {', '.join(self._kept) or 'none'}"
            )
        # The words were turned back from placeholders; the kept text has them still.
        words = self.redactor.redact(asked.contains).lower() if asked.contains else ""
        numbered = enumerate(text.split("\n"), start=1)
        lines = [
            f"{n}: {line}" for n, line in numbered if n >= asked.from_line and words in line.lower()
        ]
        shown: list[str] = []
        size = 0
        for line in lines[:MATCHES]:
            size += len(line) + 1
            if size > RESULT_LIMIT and shown:
                break
            shown.append(line[:RESULT_LIMIT])
        rest = len(lines) - len(shown)
        return ToolOutcome(
            as_data(
                [*shown, *([json.dumps({"more_lines": rest})] if rest else [])]
                or ['"no such line"']
            )
        )

    def restore(self) -> None:
        """The kept results of a worker that ended."""
        folder = self.bench.folder / self.bench.store / RESULTS
        for number in range(1, 1000):
            path = folder / f"r{number}.txt"
            if not path.is_file():
                return
            self._kept[f"r{number}"] = path.read_text(encoding="utf-8", errors="replace")


def tools_for(bench: Bench) -> tuple[Tool, ...]:
    """The tools that make sense for a case."""
    tools = [FINDING, SERIES, LOGS, TRACES, CHANGES, TOPOLOGY]
    if any(e.kind == "traces" for e in bench.case.evidence) and bench.case.trace_files:
        tools.append(TRAINING)
    if askable(bench.connectors):
        tools.append(collect_tool(bench.connectors))
    return tuple(tools)


def toolbox_for(bench: Bench, redactor: Redactor, *, resumed: bool) -> Toolbox | None:
    """The toolbox of a conversation, with what an earlier worker kept; None where there are no
    tools."""
    tools = tools_for(bench)
    toolbox = Toolbox(bench, redactor, tools) if tools else None
    if toolbox is not None and resumed:
        toolbox.restore()
    return toolbox


def safe_call(call: ToolCall) -> ToolCall:
    """The call as it may stand in a history: servers refuse odd names and arguments that are not an
    object."""
    try:
        whole = isinstance(json.loads(call.arguments or "{}"), dict)
    except (ValueError, RecursionError):
        whole = False
    name = _SAFE_NAME.sub("_", call.name)[:64] or "unnamed"
    return ToolCall(call.id, name, (call.arguments or "{}") if whole else "{}")


def _what_is_wrong(error: ValidationError) -> str:
    """Which arguments, and what is wrong with each; without the values."""
    found = error.errors(include_input=False, include_url=False)[:5]
    return "; ".join(
        f"{neutral('.'.join(map(str, e['loc'])), 60)}: {neutral(e['msg'], 120)}" for e in found
    )
