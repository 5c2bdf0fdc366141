"""What goes to a model and what comes back, whichever API carries it.

A history is only ever appended to: servers keep what they have seen of a prompt, from its
beginning, and charge less.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

MAX_ANSWER_CHARACTERS = 200_000
"""A server that does not stop is not listened to any longer."""
MAX_CALLS = 8
"""Tool calls of one answer that are looked at."""
MAX_TOOL_NAME = 80
MAX_CARRIED_CHARACTERS = 400_000
"""Of what one answer holds beside text and calls; what is longer is not kept."""
DEEPEST = 12
"""Levels of a server's JSON that are kept."""

Ending = Literal["stop", "length", "refused", "lost"]
"""How an answer ended: whole, out of tokens, the model declined, or the stream broke off."""


@dataclass(frozen=True)
class UserMessage:
    """What we tell the model."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it, before any check. `id` is ours: a server's may be missing or
    repeated."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Carried:
    """What a server sent in a message beside text and calls (thoughts, signatures, encrypted
    reasoning). It means something to that server and model alone, which `of` names, and is sent
    back to them as it came. What `fields` holds is up to the API."""

    of: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class AssistantMessage:
    """What the model answered."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    carried: Carried | None = None


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
    effort: str | None = None
    """How hard the model may think; None leaves it to the server."""


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counted them. `cached` was read from its cache and `written` into it;
    both are a part of `input`."""

    input: int
    output: int
    cached: int = 0
    written: int = 0


@dataclass
class ModelAnswer:
    """An answer while it comes in, and afterwards. What a broken stream brought stands."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    usage: Usage | None = None
    ending: Ending = "stop"
    carried: Mapping[str, Any] = field(default_factory=dict)
    """`Carried.fields`."""
    thought: int = 0
    """Characters of thinking that were sent beside the text."""
    calls_left_out: int = 0
    """Calls beyond `MAX_CALLS`, which nobody runs."""

    @property
    def empty(self) -> bool:
        """Whether nothing came."""
        return not self.text.strip() and not self.calls

    @property
    def full(self) -> bool:
        """Whether more would not be looked at."""
        called = sum(len(c.arguments) for c in self.calls)
        return len(self.text) + self.thought + called > MAX_ANSWER_CHARACTERS

    def add_calls(self, calls: Sequence[tuple[str, str]], first: int) -> None:
        """Tool calls by name and arguments, numbered from `first`."""
        self.calls_left_out += max(0, len(calls) - MAX_CALLS)
        for number, (name, arguments) in enumerate(calls[:MAX_CALLS], start=first):
            self.calls.append(ToolCall(f"c{number:08d}", name[:MAX_TOOL_NAME], arguments))

    def start_over(self) -> None:
        """Forget what a try brought that failed."""
        self.text, self.calls, self.usage, self.ending = "", [], None, "stop"
        self.calls_left_out = 0
        self.carried, self.thought = {}, 0


def usage_of(raw: Any, input_name: str, output_name: str) -> Usage | None:
    """From a server's usage object, where it is one: `input_name` and `output_name` are its names
    for input and output tokens."""
    if not isinstance(raw, Mapping):
        return None
    sent, got = count(raw.get(input_name)), count(raw.get(output_name))
    if sent is None or got is None:
        return None
    details = mapping(raw.get(f"{input_name}_details"))
    # DeepSeek names what its cache held beside the count, not in the details.
    remaining_count = (
        count(details.get("cached_tokens")) or count(raw.get("prompt_cache_hit_tokens")) or 0
    )
    # A server may count more as cached than as sent. The cost must not fall below zero.
    remaining_count = min(remaining_count, sent)
    written = count(details.get("cache_write_tokens")) or 0
    return Usage(sent, got, remaining_count, min(written, sent - remaining_count))


def count(value: Any) -> int | None:
    """A count that a server gave, where it is one."""
    return (
        value
        # A server may send anything: no negative or absurd count may reach the budget.
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


def storable_json(value: Any, depth: int = DEEPEST) -> Any:
    """A server's JSON value as it can be stored and sent again; None for what lies too deep."""
    if isinstance(value, str):
        return text_of(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth > 0 and isinstance(value, Mapping):
        return {text_of(k): storable_json(v, depth - 1) for k, v in value.items()}
    if depth > 0 and isinstance(value, list):
        return [storable_json(v, depth - 1) for v in value]
    return None


def bounded(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is carried, or nothing where it is too long to be kept."""
    remaining_json = storable_json(fields)
    return remaining_json if len(json.dumps(remaining_json)) <= MAX_CARRIED_CHARACTERS else {}


def read_as(turn: Turn, reader: str | None) -> Turn:
    """The turn for one server and model: what another one sent in an answer means nothing to it.
    Without a reader nothing is carried back."""
    history = [
        replace(entry, carried=None)
        if isinstance(entry, AssistantMessage) and entry.carried and entry.carried.of != reader
        else entry
        for entry in turn.history
    ]
    return replace(turn, history=history)
