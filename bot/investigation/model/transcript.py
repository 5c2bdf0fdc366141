"""The transcript: everything that was sent to a model and came back, one JSON object per line, with
placeholders.

It is stored whole after each round, so that a worker that takes over goes on where the other ended,
and no round that was paid for is asked for again. What stands in it has left the machine already:
nothing else is added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from faultline.analysis.errors import EvidenceError
from faultline.bot.investigation.model.compaction import in_short
from faultline.bot.investigation.model.turns import (
    AssistantMessage,
    Carried,
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
    """start, told, said, result, compacted, failed, ended."""
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
    carried: dict[str, Any] | None = None
    """said: what the server sent beside text and calls and may want back. `of` names server and
    model."""
    shortened: int = 0
    """compacted: as many results, from the first on, are sent in short from here on; `text`
    replaces the first data, where there is one."""


@dataclass
class Transcript:
    """The lines so far. `save` is called by whoever has finished a round."""

    lines: list[TranscriptLine] = field(default_factory=list)

    def add(self, line: TranscriptLine) -> None:
        """One more line."""
        self.lines.append(line)

    def as_bytes(self) -> bytes:
        """The file."""
        # Without defaults: most fields belong to other kinds of lines.
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
    """The history as the model is given it: as it was, or as it was last compacted."""
    history: list[Entry] = []
    compacted = next((line for line in reversed(lines) if line.kind == "compacted"), None)
    shortened = compacted.shortened if compacted else 0
    first = compacted.text if compacted else ""
    results = 0
    for line in lines:
        if line.kind == "told":
            history.append(UserMessage(first or line.text))
            # The shorter data replaces the first message only.
            first = ""
        elif line.kind == "said":
            history.append(AssistantMessage(line.text, calls_of(line), _carried(line)))
        elif line.kind == "result" and line.call is not None:
            results += 1
            text = in_short(line.text) if results <= shortened else line.text
            history.append(ToolResult(line.call, text))
    return history


def calls_of(line: TranscriptLine) -> tuple[ToolCall, ...]:
    """The calls of a stored answer."""
    return tuple(ToolCall(c["id"], c["name"], c["arguments"]) for c in line.calls)


def _carried(line: TranscriptLine) -> Carried | None:
    carried = line.carried or {}
    of, fields = carried.get("of"), carried.get("fields")
    return Carried(of, fields) if isinstance(of, str) and isinstance(fields, dict) else None


def usage_json(usage: Usage) -> dict[str, int]:
    """Of an answer, for its line."""
    return asdict(usage)


def usage_in(line: TranscriptLine) -> Usage:
    """Of a stored answer."""
    usages: dict[str, Any] = line.usage or {}
    return Usage(*(usages.get(name, 0) for name in ("input", "output", "cached", "written")))
