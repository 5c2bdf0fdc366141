"""The toolbox: checks what a model asks for, runs it within bounds, and gives it back as data with
placeholders, one line a row.

Calls of one round may run side by side: their rows are numbered in the order of the calls.

Arguments are hostile: a log line may have dictated them. They are validated against a typed model;
names must be those that the case or the settings know. What is too long to send is kept as a file
of the case, with a tool to search it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, ValidationError

from faultline.analysis.errors import FaultlineError
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.writer.payload import Redactor, as_data, clean
from faultline.bot.answer.writer.plain_text import neutral
from faultline.bot.investigation.model.model_session import InOrder, ModelSession
from faultline.bot.investigation.model.schemas import strict_schema
from faultline.bot.investigation.model.tools.bounded_query import query_tool
from faultline.bot.investigation.model.tools.calculator import CALCULATE
from faultline.bot.investigation.model.tools.changes import CHANGES
from faultline.bot.investigation.model.tools.compare import COMPARE
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    askable,
)
from faultline.bot.investigation.model.tools.logs import LOGS
from faultline.bot.investigation.model.tools.objects import EVENTS
from faultline.bot.investigation.model.tools.overview import DATA, FINDING
from faultline.bot.investigation.model.tools.queries import collect_tool
from faultline.bot.investigation.model.tools.series import SERIES
from faultline.bot.investigation.model.tools.spans import REQUEST, TRACES
from faultline.bot.investigation.model.tools.topology import TOPOLOGY
from faultline.bot.investigation.model.tools.training import EXTERNAL, TRAINING
from faultline.bot.investigation.model.turns import ToolCall, ToolSpec
from faultline.bot.runtime.threads import in_thread

RESULT_LIMIT = 12_000
"""Characters of a result that are sent: 40 rows of 300. Of a longer one its head and tail."""
HEAD, TAIL = 9_000, 2_000
ROW_LIMIT = 2_000
"""60 points of a series beside yesterday's and last week's."""
LONGEST_RESULT = 400_000
"""Characters of a result that are kept."""
MATCHES = 40
TOOL_S = 60.0
"""One call may take so long; a new query has the connector's own deadline besides."""
RESULTS = "results"
_REPLACED = re.compile(r"[\[‗∗∼∶‹›…]|\(at\)|: //")
"""What stands in a shown name for something that is not shown as it is."""
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
    evidence_name: str | None = None


@dataclass
class Toolbox:
    """The tools of one conversation, the same from its beginning to its end."""

    model_session: ModelSession
    redactor: Redactor
    tools: Sequence[Tool] = ()
    _stored_results: dict[str, str] = field(default_factory=dict)
    _order: InOrder = field(default_factory=InOrder)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them."""
        tool_specs = [
            ToolSpec(t.name, t.description, strict_schema(t.arguments)) for t in self.tools
        ]
        read = ToolSpec(READ.name, READ.description, strict_schema(ReadArguments))
        return (*tool_specs, read) if tool_specs else ()

    async def run(self, call: ToolCall, *, within_s: float) -> ToolOutcome:
        """Carry out a call. Never raises: what went wrong is the result.

        May be called for several calls at once, in their order.
        """
        with self._order.place() as after_those_before:
            call_result = await self._run_call(call, within_s)
            await after_those_before()
            # One at a time: the redactor counts its placeholders, the bench its rows.
            return await in_thread(self._rendered, call_result)

    async def _run_call(self, call: ToolCall, within_s: float) -> CallResult | ReadArguments | str:
        """What to render; a text is what went wrong."""
        tool = next((t for t in self.tools if t.name == call.name), None)
        try:
            raw_arguments = self._arguments(call)
            if call.name == READ.name and self.tools:
                return ReadArguments.model_validate(raw_arguments)
            if tool is None:
                raise InvalidCall(
                    f"no such tool; there are {', '.join(t.name for t in self.specs)}"
                )
            arguments = tool.arguments.model_validate(raw_arguments)
            async with asyncio.timeout(min(TOOL_S, within_s)):
                return await tool.call(self.model_session, arguments)
        except ValidationError as error:
            return what_is_wrong(error)
        except (InvalidCall, FaultlineError) as error:
            return str(error)
        except TimeoutError:
            return "took too long; ask for fewer rows or a shorter time"
        # The edge of a tool: the model gets the error, the conversation goes on.
        except Exception as error:  # noqa: BLE001
            return f"failed ({type(error).__name__})"

    def _rendered(self, call_result: CallResult | ReadArguments | str) -> ToolOutcome:
        if isinstance(call_result, str):
            return self._error(call_result)
        return (
            self._read(call_result)
            if isinstance(call_result, ReadArguments)
            else self._render_result(call_result)
        )

    def _arguments(self, call: ToolCall) -> dict[str, Any]:
        """The arguments with placeholders turned back into what they stand for; nulls count as not
        given."""
        try:
            raw_arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            raise InvalidCall("the arguments are not JSON") from None
        if not isinstance(raw_arguments, dict):
            raise InvalidCall("the arguments are not a JSON object")
        # The table of names takes a pass over the case, so build it only where it is needed.
        has_replaced = _REPLACED.search(json.dumps(raw_arguments, ensure_ascii=False))
        names = self._shown_names() if has_replaced else {}
        return {k: self._revealed(v, names) for k, v in raw_arguments.items() if v is not None}

    def _shown_names(self) -> dict[str, str]:
        """Names of the case by what was shown of them: a secret in one cannot be revealed, and
        mark-up is shown as something else."""
        case = self.model_session.case
        names = [*self.model_session.services(), *case.metrics["signal"].unique().to_list()]
        for column in ("service", "id"):
            names += case.changes[column].drop_nulls().unique().to_list()
        names += case.states["name"].drop_nulls().unique().to_list()
        shown: dict[str, str] = {}
        # Sorted: of names that are shown alike, the same one is meant in every run.
        for name in sorted(names):
            for form in (name, plain(name)):
                shown.setdefault(clean(form, self.redactor), name)
        return shown

    def _revealed(self, value: Any, names: Mapping[str, str]) -> Any:
        if isinstance(value, str):
            return names.get(value.strip()) or self.redactor.reveal(value)
        return [self._revealed(v, names) for v in value] if isinstance(value, list) else value

    def _error(self, why: str) -> ToolOutcome:
        return ToolOutcome(_as_data([f"error: {clean(why, self.redactor)}"]), error=True)

    def _render_result(self, call_result: CallResult) -> ToolOutcome:
        lines = [f"provenance: {clean(call_result.provenance, self.redactor)}"]
        if call_result.note:
            lines.append(f"note: {clean(call_result.note, self.redactor)}")
        lines += [self._line(row) for row in call_result.rows]
        if call_result.cut:
            lines.append(f"cut: {clean(call_result.cut, self.redactor)}")
        return ToolOutcome(
            self._bounded("\n".join(lines)[:LONGEST_RESULT]),
            evidence_name=call_result.evidence_name,
        )

    def _line(self, row: Row) -> str:
        """What code says, then what somebody else wrote, which is the last of the line."""
        cited = row.finding
        if cited is not None and not cited.id:
            cited = self.model_session.observe(cited)
        name = f"[{cited.id}] " if cited is not None and cited.id else ""
        # Redact before cutting: half a secret is not recognised.
        text = neutral(self.redactor.redact(row.text), ROW_LIMIT)
        if not row.quote:
            return f"{name}{text}"
        # A name may hold quotation marks: only what is quoted begins with one.
        text = text.replace('"', "'")
        quote = neutral(self.redactor.redact(row.quote), ROW_LIMIT)
        return f'{name}{text} "{quote}"'

    def _bounded(self, text: str) -> str:
        """The result; of a long one its head and tail, and where the whole of it is kept."""
        if len(text) <= RESULT_LIMIT:
            return _as_data([text])
        name = f"r{len(self._stored_results) + 1}"
        self._stored_results[name] = text
        self.model_session.keep(f"{self.model_session.store}/{RESULTS}/{name}.txt", text.encode())
        # Cut at the ends of lines, so that no half row can be cited.
        head, tail = text[:HEAD].rsplit("\n", 1)[0], text[-TAIL:].split("\n", 1)[-1]
        lines, shown = text.count("\n") + 1, head.count("\n") + tail.count("\n") + 2
        left_out = (
            f"cut: {max(0, lines - shown)} of {lines} lines left out; all are kept as {name}, "
            "which `read` searches"
        )
        return _as_data([head, left_out, tail])

    def _read(self, arguments: ReadArguments) -> ToolOutcome:
        """Lines of a kept result. It holds placeholders already."""
        text = self._stored_results.get(arguments.file)
        if text is None:
            return self._error(
                "no result is kept under this name; there are "
                f"{', '.join(self._stored_results) or 'none'}"
            )
        # The words were turned back from placeholders; the kept text has them still.
        words = self.redactor.redact(arguments.contains).lower() if arguments.contains else ""
        numbered = enumerate(text.split("\n"), start=1)
        lines = [
            f"{n}: {line}"
            for n, line in numbered
            if n >= arguments.from_line and words in line.lower()
        ]
        shown: list[str] = []
        size = 0
        for line in lines[:MATCHES]:
            size += len(line) + 1
            if size > RESULT_LIMIT and shown:
                break
            shown.append(line[:RESULT_LIMIT])
        rest = len(lines) - len(shown)
        if rest:
            shown.append(f"cut: {rest} more lines; narrow with contains or from_line")
        return ToolOutcome(_as_data(shown or ["no such line"]))

    def restore(self) -> None:
        """The kept results of a worker that ended."""
        folder = self.model_session.folder / self.model_session.store / RESULTS
        for number in range(1, 1000):
            path = folder / f"r{number}.txt"
            if not path.is_file():
                return
            self._stored_results[f"r{number}"] = path.read_text(encoding="utf-8", errors="replace")


ALL = (
    DATA,
    FINDING,
    SERIES,
    LOGS,
    TRACES,
    REQUEST,
    CHANGES,
    TOPOLOGY,
    EVENTS,
    EXTERNAL,
    COMPARE,
    CALCULATE,
    TRAINING,
)


def tools_for(model_session: ModelSession) -> tuple[Tool, ...]:
    """The tools for which the case has data, or a connector may bring some."""
    tools = [tool for tool in ALL if tool.offered(model_session)]
    if askable(model_session.connectors):
        tools.append(collect_tool(model_session.connectors))
    if model_session.answering:
        tools.append(query_tool(model_session.answering))
    return tuple(tools)


def toolbox_for(
    model_session: ModelSession, redactor: Redactor, *, resumed: bool
) -> Toolbox | None:
    """The toolbox of a conversation, with what an earlier worker kept; None where there are no
    tools."""
    tools = tools_for(model_session)
    toolbox = Toolbox(model_session, redactor, tools) if tools else None
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


def _as_data(lines: Sequence[str]) -> str:
    """Lines as the one element of data. They are neutral, so no tag is left in them; what is left
    of angle brackets stays as it is, so that it can be quoted."""
    return "<data>\n" + "\n".join(lines).replace("</", "‹/") + "\n</data>"


def what_is_wrong(error: ValidationError) -> str:
    """Which arguments, and what is wrong with each; without the values."""
    errors = error.errors(include_input=False, include_url=False)[:5]
    return "; ".join(
        f"{neutral('.'.join(map(str, e['loc'])), 60)}: {neutral(e['msg'], 120)}" for e in errors
    )


# A tool result in a few lines, for a conversation that no longer fits the server's context.
#
# The row that a finding or observation may be cited for stays with its id and the beginning of what
# it says. So does the line that names a result that is kept whole and can be read again.

SHORTENED = "shortened; rows without an id were left out"
MOST_ROWS = 24
LONGEST_ROW = 200
"""Characters. A finding's sentence is rarely longer."""
LONGEST_DIGEST, SHORTEST_ROW = 6_000, 110
"""Characters, about 2,000 tokens: 50 observations have room."""
_CITED = re.compile(r"\[([FL]\d{1,5})\] ")
_OUR_PREFIXES = ("provenance: ", "error: ", "cut: ")
"""Lines of ours that stay."""


def in_short(result: str) -> str:
    """The result with the lines that count, cut; as it was, where that is no shorter, or where it
    holds no rows."""
    lines = _lines(result)
    if SHORTENED in lines[:1] or not any(map(_CITED.match, lines)):
        return result
    rows = [line[:LONGEST_ROW] for line in lines if _CITED.match(line)]
    ours = [line[:LONGEST_ROW] for line in lines if line.startswith(_OUR_PREFIXES)]
    left_out = [f"{len(rows) - MOST_ROWS} more rows"] if len(rows) > MOST_ROWS else []
    shortened = as_data([SHORTENED, *ours, *rows[:MOST_ROWS], *left_out])
    return shortened if len(shortened) < len(result) else result


def observed(results: Iterable[str]) -> str:
    """What all results showed that may be cited, once each: the first rows of every result before
    the later ones of any. Empty where there is nothing. For a server whose context does not even
    hold the results in short."""
    lines_by_id: dict[str, tuple[int, str]] = {}
    # From the end, so that the latest row of an id counts.
    for result in reversed(list(results)):
        cited = [(match[1], line) for line in _lines(result) if (match := _CITED.match(line))]
        for place, (name, line) in enumerate(cited):
            lines_by_id.setdefault(name, (place, line[:SHORTEST_ROW]))
    lines: list[str] = []
    left = LONGEST_DIGEST
    # Findings are in the document too, observations nowhere else.
    for name in sorted(
        lines_by_id, key=lambda name: (not name.startswith("L"), lines_by_id[name][0])
    ):
        left -= len(lines_by_id[name][1])
        if left < 0:
            break
        lines.append(lines_by_id[name][1])
    return as_data(lines) if lines else ""


def _lines(result: str) -> list[str]:
    return [line for line in result.split("\n") if line not in ("<data>", "</data>")]
