"""Case folders as resources: the files that an agent may list and read.

A closed list of names: no path comes from outside. Each text is redacted when it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.exports.answered import ExportedAnswer
from faultline.bot.answer.exports.formats import FORMATS
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.replay import json_of
from faultline.bot.mcp.callers import Caller
from faultline.bot.mcp.investigations import Investigations
from faultline.bot.mcp.open_cases import OpenCase, OpenCases
from faultline.bot.mcp.outgoing import NOTICE, as_text
from faultline.bot.runtime.threads import in_thread
from faultline.prompts import load_prompt

SCHEME = "faultline://cases/"
TEMPLATE = SCHEME + "{investigation}/{file}"
MARKDOWN, JSON, PNG = "text/markdown", "application/json", "image/png"
MOST_BYTES = 1_000_000
PAGE = 10
"""Investigations whose files are listed at once."""
MOST_LISTED = 200


@dataclass(frozen=True)
class CaseFile:
    """One file of every case. `write` makes it from the answer; without it the stored file is
    read."""

    name: str
    media_type: str
    title: str
    stored: str = ""
    """Its name in the folder, where it is stored."""
    write: Callable[[ExportedAnswer], str] | None = None


def _answer(answered: ExportedAnswer) -> str:
    return json.dumps(json_of(answered.view), indent=1, ensure_ascii=False)


FILES: Mapping[str, CaseFile] = {
    case_file.name: case_file
    for case_file in (
        CaseFile("report.md", MARKDOWN, "Report", stored="report.md"),
        CaseFile("answer.json", JSON, "Answer", write=_answer),
        CaseFile("alert.json", JSON, "What was asked", stored="alert.json"),
        CaseFile("scope.json", JSON, "Where and when was looked", stored="scope.json"),
        CaseFile("evidence.json", JSON, "What was collected, and what not", stored="evidence.json"),
        CaseFile("findings.json", JSON, "All findings and causes", stored="findings.json"),
        CaseFile("chart.png", PNG, "Map and decisive chart", stored="charts/decisive.png"),
        CaseFile("postmortem.md", MARKDOWN, "Postmortem", write=FORMATS["postmortem"].write),
        CaseFile("agent.md", MARKDOWN, "Task for a coding agent", write=FORMATS["agent"].write),
    )
}


@dataclass(frozen=True)
class ListedFile:
    """A file of one case, as it is listed."""

    uri: str
    file: CaseFile
    description: str


async def listed(
    investigations: Investigations, caller: Caller, cursor: str | None
) -> tuple[list[ListedFile], str | None]:
    """The files of the newest answered investigations, and the cursor of the next page. Raises
    FaultlineError for a cursor that none of these pages gave."""
    skip = 0
    if cursor is not None:
        # A cursor comes from outside.
        if not cursor.isdecimal() or int(cursor) > MOST_LISTED:
            raise FaultlineError("the cursor is none that a list gave")
        skip = int(cursor)
    latest = await investigations.latest(caller, MOST_LISTED)
    done = [handle.investigation for handle in latest if handle.investigation.status == "done"]
    files = []
    for investigation in done[skip : skip + PAGE]:
        about = single_line(investigation.headline or investigation.alert.title, 200)
        files += [
            ListedFile(f"{SCHEME}{investigation.id}/{f.name}", f, about) for f in FILES.values()
        ]
    more = skip + PAGE < len(done)
    return files, str(skip + PAGE) if more else None


async def read(cases: OpenCases, caller: Caller, uri: str) -> tuple[CaseFile, str | bytes]:
    """The content of one file. Raises FaultlineError."""
    investigation_id, _, name = uri.removeprefix(SCHEME).partition("/")
    file = FILES.get(name)
    if not uri.startswith(SCHEME) or file is None:
        raise FaultlineError(
            f"there is no resource {single_line(uri, 200)!r}: they are called {TEMPLATE}, and the "
            f"files are {', '.join(FILES)}"
        )
    case = await cases.open(caller, investigation_id)
    content = await in_thread(_content, case, file)
    if len(content) > MOST_BYTES:
        raise FaultlineError(f"{name} is larger than {MOST_BYTES:,} bytes; use the tools")
    if isinstance(content, bytes):
        return file, content
    async with case.lock:
        return file, await in_thread(_redacted, case, file, content)


def _content(case: OpenCase, file: CaseFile) -> str | bytes:
    if file.write is not None:
        return file.write(case.answered)
    path: Path = case.folder / file.stored
    if not path.is_file():
        raise FaultlineError(f"this case has no {file.name}")
    content = path.read_bytes()
    return content if file.media_type == PNG else content.decode("utf-8", "replace")


def _redacted(case: OpenCase, file: CaseFile, text: str) -> str:
    if file.media_type == JSON:
        value: Any = case.redactor.redact_all(json.loads(text))
        whole = {"notice": NOTICE, file.name.partition(".")[0]: value}
        return as_text(whole, indent=1)
    return f"> {NOTICE}\n\n{case.redactor.redact(text)}"


# Prompts: the texts that a person picks in their agent, with what they typed put in as data.

LONGEST = 500
MISSING_ARGUMENT = "(not given)"
_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class PromptArgument:
    """One thing that the person is asked for."""

    name: str
    description: str
    required: bool = False


@dataclass(frozen=True)
class McpPrompt:
    """A prompt; `file` is its text in the package `prompts`."""

    name: str
    title: str
    description: str
    file: str
    arguments: tuple[PromptArgument, ...]

    def text(self, arguments: Mapping[str, str]) -> str:
        """The text with the arguments. Raises FaultlineError naming one that is missing or
        unknown."""
        names = {argument.name for argument in self.arguments}
        for name in arguments:
            if name not in names:
                raise FaultlineError(f"the prompt {self.name} takes {', '.join(sorted(names))}")
        values = {"id": quote(arguments.get("investigation", ""), safe="")}
        for argument in self.arguments:
            value = single_line(arguments.get(argument.name, ""), LONGEST)
            if argument.required and not value:
                raise FaultlineError(f"the prompt {self.name} needs {argument.name}")
            values[argument.name] = (
                # A JSON string: what somebody typed stays data inside the prompt.
                json.dumps(value, ensure_ascii=False) if value else MISSING_ARGUMENT
            )
        # In one pass: what somebody typed may look like a name.
        return _NAME.sub(lambda m: values.get(m[1], m[0]), load_prompt(self.file).text)


INVESTIGATION = PromptArgument("investigation", "Id of an investigation.", required=True)
PROMPTS = (
    McpPrompt(
        "investigate",
        "Investigate an incident",
        "Find the cause of what is going wrong, with its evidence.",
        "mcp_investigate",
        (
            PromptArgument("question", "What is seen: checkout is slow.", required=True),
            PromptArgument("service", "The service it is about."),
            PromptArgument("since", "When it began: 30m, 14:19."),
        ),
    ),
    McpPrompt(
        "postmortem",
        "Write a postmortem",
        "Complete the draft of an investigation's postmortem.",
        "mcp_postmortem",
        (INVESTIGATION,),
    ),
    McpPrompt(
        "is_it_over",
        "Is it over?",
        "Ask the sources again, and say whether the incident goes on.",
        "mcp_is_it_over",
        (INVESTIGATION,),
    ),
)
