"""What goes to a model and what comes back, whichever API carries it.

A history is only ever appended to: servers keep what they have seen of a prompt, from its
beginning, and charge less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

MAX_ANSWER_CHARACTERS = 200_000
"""A server that does not stop is not listened to any longer."""
MAX_CALLS = 8
"""Tool calls of one answer that are looked at."""
MAX_TOOL_NAME = 80

Ending = Literal["stop", "length", "refused", "lost"]
"""How an answer ended: whole, out of tokens, the model declined, or the stream broke off."""


@dataclass(frozen=True)
class UserMessage:
    """What we tell the model."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it: nothing of it is checked yet. `id` is ours; a server's may be
    missing or twice."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class AssistantMessage:
    """What the model answered."""

    text: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True)
class ToolResult:
    """What a call brought."""

    call_id: str
    text: str


Entry = UserMessage | AssistantMessage | ToolResult


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model sees it. `parameters` is a JSON schema in which every property is
    required."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Turn:
    """One request. `schema` (name and JSON schema) asks for an answer of that form; then no tool
    may be called."""

    system: str
    history: Sequence[Entry]
    max_output_tokens: int
    tools: Sequence[ToolSpec] = ()
    schema: tuple[str, Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counted them. `cached` is a part of `input`."""

    input: int
    output: int
    cached: int = 0


@dataclass
class ModelAnswer:
    """An answer while it comes in, and afterwards. What a broken stream brought stands."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    usage: Usage | None = None
    ending: Ending = "stop"

    @property
    def empty(self) -> bool:
        """Whether nothing came."""
        return not self.text.strip() and not self.calls

    @property
    def full(self) -> bool:
        """Whether more would not be looked at."""
        return len(self.text) + sum(len(c.arguments) for c in self.calls) > MAX_ANSWER_CHARACTERS


def usage_of(raw: Any, given: str, said: str) -> Usage | None:
    """From a server's usage object, where it is one: `given` and `said` are its names for input and
    output tokens."""
    if not isinstance(raw, Mapping):
        return None
    sent, got = count(raw.get(given)), count(raw.get(said))
    if sent is None or got is None:
        return None
    details = raw.get(f"{given}_details")
    kept = count(details.get("cached_tokens")) if isinstance(details, Mapping) else None
    return Usage(sent, got, min(kept or 0, sent))


def count(value: Any) -> int | None:
    """A count that a server gave, where it is one."""
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12
        else None
    )


def text_of(value: Any) -> str:
    """A text that a server gave; empty where it is none. Half a surrogate pair, which no file
    holds, is a `?`."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """An object that a server gave; empty where it is none."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> Sequence[Any]:
    """A list that a server gave; empty where it is none."""
    return value if isinstance(value, list) else ()
