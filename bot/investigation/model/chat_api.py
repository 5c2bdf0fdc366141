"""Chat completions: what self-hosted servers speak (vLLM, Ollama, llama.cpp, LiteLLM).

https://developers.openai.com/api/reference/resources/chat/subresources/completions
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
        calls = [] if in_words else [_call(c) for c in entry.calls]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": entry.text or ("-" if not calls else None),
        }
        return [{**message, "tool_calls": calls} if calls else message]
    if in_words:
        return [{"role": "user", "content": entry.text}]
    return [{"role": "tool", "tool_call_id": entry.call_id, "content": entry.text}]


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


class ChatReading:
    """Puts an answer together from the chunks of a stream, or from one whole completion. Nothing is
    taken on trust."""

    def __init__(self, answer: ModelAnswer, first_call: int) -> None:
        self._answer = answer
        self._first_call = first_call
        self._open: list[tuple[Any, Any, str, list[str]]] = []
        """(index, the server's id, name, pieces of the arguments) of each call."""
        self._finished = False

    def read(self, chunk: Mapping[str, Any]) -> None:
        """One chunk."""
        self._answer.usage = (
            usage_of(chunk.get("usage"), "prompt_tokens", "completion_tokens") or self._answer.usage
        )
        choice = mapping(next(iter(items(chunk.get("choices"))), None))
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
        index, given, name = call.get("index"), call.get("id"), text_of(function.get("name"))
        arguments = function.get("arguments")
        piece = json.dumps(arguments) if isinstance(arguments, Mapping) else text_of(arguments)
        for known in reversed(self._open):
            # Some servers give every call the index 0, with an id and a name of its own.
            if (
                known[0] == index
                and index is not None
                and (not given or not known[1] or given == known[1])
            ):
                known[3].append(piece)
                return
        if name and len(self._open) < MAX_CALLS:
            self._open.append((index, given, name[:MAX_TOOL_NAME], [piece]))

    def finish(self, *, streamed: bool) -> None:
        """The stream ended: what came is the answer; lost, where the server never said that it was
        whole."""
        self._answer.text = _THOUGHT.sub("", self._answer.text)
        if streamed and not self._finished and self._answer.ending == "stop":
            self._answer.ending = "lost"
        for number, (_, _, name, pieces) in enumerate(self._open):
            self._answer.calls.append(
                ToolCall(f"c{self._first_call + number:08d}", name, "".join(pieces))
            )
