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

from faultline.analysis.case.folder import json_bytes
from faultline.analysis.case.observations import OBSERVATIONS_FILE, Observations
from faultline.analysis.errors import EvidenceError
from faultline.bot.answer.writer.payload import Redactor
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.toolbox import in_short
from faultline.bot.investigation.model.turns import (
    AssistantMessage,
    Carried,
    Entry,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from faultline.bot.runtime.threads import in_thread

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


# What a conversation leaves in the case folder, below one folder of it, and how a worker that takes
# over reads it.
#
# transcript.jsonl stays. observations.json and placeholders.json are for going on; the latter,
# which says what the placeholders of personal data stand for, is emptied when the conversation has
# ended.

PLACEHOLDERS = "placeholders.json"


class Placeholders(BaseModel):
    """The state of a redactor."""

    originals: dict[str, str] = {}
    counts: dict[str, int] = {}


@dataclass
class Records:
    """The files of one conversation. `resumed` says whether there were some."""

    model_session: ModelSession
    transcript: Transcript
    redactor: Redactor
    resumed: bool = False
    _stored: dict[str, Any] = field(default_factory=dict)
    """Observations by id, with placeholders. They quote log lines, and nothing personal stays in
    what is kept of a conversation."""

    async def save(self) -> None:
        """Store the conversation so far."""
        observations = await in_thread(self._observations)
        # The transcript comes last, because it refers to what the other two hold.
        files = {
            PLACEHOLDERS: json.dumps(self.redactor.state()).encode("utf-8", "replace"),
            OBSERVATIONS_FILE: observations,
            NAME: self.transcript.as_bytes(),
        }
        for name, content in files.items():
            await in_thread(self.model_session.keep, f"{self.model_session.store}/{name}", content)

    def _observations(self) -> bytes:
        for observation in self.model_session.observations:
            if observation.id not in self._stored:
                self._stored[observation.id] = self.redactor.redact_all(
                    observation.model_dump(mode="json")
                )
        return json_bytes({"findings": list(self._stored.values())})

    async def close(self) -> None:
        """What the placeholders stood for is forgotten."""
        await in_thread(
            self.model_session.keep, f"{self.model_session.store}/{PLACEHOLDERS}", b"{}"
        )


async def open_records(model_session: ModelSession) -> Records:
    """The records of a conversation, taken up where an earlier worker left them; from the start if
    they are broken."""
    services = frozenset(map(str.casefold, await in_thread(model_session.services)))
    folder = model_session.folder / model_session.store
    try:
        stored = (folder / NAME).read_bytes()
        transcript = read_transcript(stored)
        placeholders = Placeholders.model_validate_json((folder / PLACEHOLDERS).read_bytes())
        redactor = Redactor.resumed(placeholders.originals, placeholders.counts)
        redactor.services = services
        stored_rows = json.loads((folder / OBSERVATIONS_FILE).read_bytes())
        observations = Observations.model_validate(_revealed(stored_rows, redactor))
        evidence_names = [line.asked for line in transcript.lines if line.asked]
        model_session.observations = list(observations.findings)
        for name in evidence_names:
            await model_session.restore(name)
    except FileNotFoundError:
        return Records(model_session, Transcript(), Redactor(services=services))
    except (EvidenceError, ValidationError, ValueError, OSError):
        # `restore` may have merged some of the evidence already.
        model_session.start_over()
        return Records(model_session, Transcript(), Redactor(services=services))
    return Records(
        model_session,
        transcript,
        redactor,
        resumed=bool(transcript.lines),
    )


def _revealed(value: Any, redactor: Redactor) -> Any:
    """A JSON value with every placeholder turned back."""
    if isinstance(value, str):
        return redactor.reveal(value)
    if isinstance(value, dict):
        return {_revealed(k, redactor): _revealed(v, redactor) for k, v in value.items()}
    return [_revealed(v, redactor) for v in value] if isinstance(value, list) else value
