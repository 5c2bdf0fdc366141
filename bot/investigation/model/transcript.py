"""The transcript: everything that was sent to a model and came back, one JSON object per line, with
placeholders.

It is stored whole after each round, so that a worker that takes over goes on where the other ended,
and no round that was paid for is asked for again. What stands in it has left the machine already:
nothing else is added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from analysis.errors import EvidenceError
from bot.investigation.model.turns import (
    AssistantMessage,
    Entry,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)

NAME = "transcript.jsonl"

Save = Callable[[str, bytes], None]
"""Stores a file by its name. Blocks."""


class TranscriptLine(BaseModel):
    """One line. Which fields it has depends on `kind`."""

    model_config = ConfigDict(frozen=True)

    kind: str
    """start, told, said, result, ended."""
    text: str = ""
    prompt: str | None = None
    """start: name and version of the prompt."""
    model: str | None = None
    calls: list[dict[str, str]] = []
    call: str | None = None
    tool: str | None = None
    error: bool = False
    usage: dict[str, int] | None = None
    counted: bool = True
    seconds: float | None = None
    """Since the start, over all workers."""
    ending: str | None = None
    reports: bool = False
    """said: whether this is the report."""
    asked: str | None = None
    """result: name of the evidence that the call brought."""


@dataclass
class Transcript:
    """The lines so far. `save` is called by whoever has finished a round."""

    lines: list[TranscriptLine] = field(default_factory=list)

    def add(self, line: TranscriptLine) -> None:
        """One more line."""
        self.lines.append(line)

    def as_bytes(self) -> bytes:
        """The file."""
        dumped = (line.model_dump(mode="json", exclude_defaults=True) for line in self.lines)
        return "".join(
            json.dumps(d, ensure_ascii=False, sort_keys=True) + "\n" for d in dumped
        ).encode("utf-8", "replace")

    @property
    def seconds(self) -> float:
        """Taken until the last line."""
        return max((line.seconds for line in self.lines if line.seconds is not None), default=0.0)

    @property
    def ended(self) -> str | None:
        """Why it ended, once it has."""
        return next((line.text for line in self.lines if line.kind == "ended"), None)


def read_transcript(content: bytes | None) -> Transcript:
    """The stored transcript up to the last whole line; empty where there is none. Raises
    EvidenceError."""
    lines: list[TranscriptLine] = []
    for number, raw in enumerate((content or b"").splitlines(), start=1):
        try:
            lines.append(TranscriptLine.model_validate(json.loads(raw)))
        except (ValueError, ValidationError, RecursionError) as error:
            raise EvidenceError(NAME, "is not a line of a transcript", f"line {number}") from error
    return Transcript(lines)


def entries(lines: Sequence[TranscriptLine]) -> list[Entry]:
    """The history as the model was given it."""
    found: list[Entry] = []
    for line in lines:
        if line.kind == "told":
            found.append(UserMessage(line.text))
        elif line.kind == "said":
            found.append(
                AssistantMessage(
                    line.text,
                    tuple(ToolCall(c["id"], c["name"], c["arguments"]) for c in line.calls),
                )
            )
        elif line.kind == "result" and line.call is not None:
            found.append(ToolResult(line.call, line.text))
    return found


def usage_json(usage: Usage | None) -> dict[str, int] | None:
    """Of an answer, for its line."""
    return {"input": usage.input, "output": usage.output, "cached": usage.cached} if usage else None


def usage_in(line: TranscriptLine) -> Usage:
    """Of a stored answer."""
    given: dict[str, Any] = line.usage or {}
    return Usage(given.get("input", 0), given.get("output", 0), given.get("cached", 0))
