"""Prompts: the texts that a person picks in their agent, with what they typed put in as data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.foreign_text import single_line
from faultline.prompts import load_prompt

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
