"""Chat completions: what self-hosted servers speak (vLLM, Ollama, llama.cpp, LiteLLM).

https://developers.openai.com/api/reference/resources/chat/subresources/completions
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.investigation.model.abilities import Abilities
from bot.investigation.model.turns import (
    MAX_CALLS,
    MAX_TOOL_NAME,
    AssistantMessage,
    Entry,
    ModelAnswer,
    ToolCall,
    ToolSpec,
    Turn,
    UserMessage,
    items,
    mapping,
    text_of,
    usage_of,
)

SCHEMA_IN_WORDS = "Answer with one JSON object of this JSON schema and nothing else:\n"
_THOUGHT = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)
"""Servers that do not take a model's thoughts out of its answer leave them in this element."""


def chat_request(turn: Turn, able: Abilities) -> dict[str, Any]:
    """The arguments of `chat.completions.create`, without what the server does not take."""
    system = turn.system
    request: dict[str, Any] = {}
    if turn.schema is not None:
        name, schema = turn.schema
        if able.schema == "schema":
            named = {"name": name, "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": named}
        elif able.schema == "json":
            request["response_format"] = {"type": "json_object"}
    history = [m for entry in turn.history for m in _messages(entry, in_words=not able.tools)]
    if turn.schema is not None and able.schema != "schema":
        history.append({"role": "user", "content": SCHEMA_IN_WORDS + json.dumps(turn.schema[1])})
    if turn.tools and able.tools and not (turn.schema is not None and not able.tools_beside_schema):
        request["tools"] = [_tool(tool) for tool in turn.tools]
        request["tool_choice"] = "none" if turn.schema is not None else "auto"
    request["messages"] = [{"role": "system", "content": system}, *history]
    request[able.limit_name] = turn.max_output_tokens
    if able.streaming:
        request["stream"] = True
        if able.stream_usage:
            request["stream_options"] = {"include_usage": True}
    return request


def _messages(entry: Entry, *, in_words: bool) -> list[dict[str, Any]]:
    """One entry of the history; `in_words` for servers without tools, where earlier calls become
    text."""
    if isinstance(entry, UserMessage):
        return [{"role": "user", "content": entry.text}]
    if isinstance(entry, AssistantMessage):
        return [_assistant_message(entry, in_words=in_words)]
    if in_words:
        return [{"role": "user", "content": entry.text}]
    return [{"role": "tool", "tool_call_id": entry.call_id, "content": entry.text}]


def _assistant_message(entry: AssistantMessage, *, in_words: bool) -> dict[str, Any]:
    if in_words or not entry.calls:
        # Servers refuse an assistant's message that has neither text nor calls.
        return {"role": "assistant", "content": entry.text or "-"}
    calls = [_call(call) for call in entry.calls]
    return {"role": "assistant", "content": entry.text or None, "tool_calls": calls}


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": True,
    }
    return {"type": "function", "function": function}


@dataclass
class _OpenCall:
    """A call whose arguments may still grow."""

    index: Any
    given_id: Any
    """The server's own id of it."""
    name: str
    pieces: list[str]
    """Of the arguments."""

    def goes_on_with(self, index: Any, given_id: Any) -> bool:
        """Whether a part of a call with this index and id belongs to this one."""
        if index is None or index != self.index:
            return False
        # Some servers give every call the index 0, each with its own id.
        return not given_id or not self.given_id or given_id == self.given_id


class ChatReading:
    """Puts an answer together from the chunks of a stream, or from one whole completion. Nothing is
    taken on trust."""

    def __init__(self, answer: ModelAnswer, first_call: int) -> None:
        self._answer = answer
        self._first_call = first_call
        self._open: list[_OpenCall] = []
        self._finished = False

    def read(self, chunk: Mapping[str, Any]) -> None:
        """One chunk."""
        usage = usage_of(chunk.get("usage"), "prompt_tokens", "completion_tokens")
        self._answer.usage = usage or self._answer.usage
        choices = list(items(chunk.get("choices")))
        # The last chunk of some servers has counts and no choice.
        choice = mapping(choices[0] if choices else None)
        part = mapping(choice.get("delta") or choice.get("message"))
        self._answer.text += text_of(part.get("content"))
        if text_of(part.get("refusal")):
            self._answer.ending = "refused"
        for call in items(part.get("tool_calls")):
            self._call(mapping(call))
        finish = choice.get("finish_reason")
        if isinstance(finish, str):
            self._finished = True
            if finish == "length":
                self._answer.ending = "length"
            elif finish == "content_filter":
                self._answer.ending = "refused"

    def _call(self, call: Mapping[str, Any]) -> None:
        function = mapping(call.get("function"))
        index, given = call.get("index"), call.get("id")
        name, arguments = text_of(function.get("name")), function.get("arguments")
        # Some servers give the arguments as an object and not as text.
        piece = json.dumps(arguments) if isinstance(arguments, Mapping) else text_of(arguments)
        for known in reversed(self._open):
            if known.goes_on_with(index, given):
                known.pieces.append(piece)
                return
        if name and len(self._open) < MAX_CALLS:
            self._open.append(_OpenCall(index, given, name[:MAX_TOOL_NAME], [piece]))

    def finish(self, *, streamed: bool) -> None:
        """The stream ended: what came is the answer; lost, where the server never said that it was
        whole."""
        self._answer.text = _THOUGHT.sub("", self._answer.text)
        if streamed and not self._finished and self._answer.ending == "stop":
            self._answer.ending = "lost"
        for number, call in enumerate(self._open, start=self._first_call):
            arguments = "".join(call.pieces)
            self._answer.calls.append(ToolCall(f"c{number:08d}", call.name, arguments))
