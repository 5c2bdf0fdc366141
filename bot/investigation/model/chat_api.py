"""Chat completions: what self-hosted servers speak (vLLM, Ollama, llama.cpp, LiteLLM), and
Gemini, DeepSeek, Azure and Bedrock.

https://developers.openai.com/api/reference/resources/chat/subresources/completions

A message's fields that the API does not define are kept and sent back: Gemini refuses a tool call
without its `extra_content` (https://ai.google.dev/gemini-api/docs/thought-signatures), DeepSeek one
without `reasoning_content` (https://api-docs.deepseek.com/guides/thinking_mode), even an empty one.
vLLM, Ollama and OpenRouter go on with thoughts that they get back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faultline.bot.investigation.model.abilities import Abilities
from faultline.bot.investigation.model.turns import (
    MAX_CALLS,
    MAX_TOOL_NAME,
    AssistantMessage,
    Entry,
    ModelAnswer,
    ToolCall,
    ToolSpec,
    Turn,
    UserMessage,
    bounded,
    items,
    mapping,
    text_of,
    usage_of,
)

SCHEMA_IN_WORDS = "Answer with one JSON object of this JSON schema and nothing else:\n"
_THOUGHT = re.compile(
    r"^\s*(?:<(think|thought|reasoning)>.*?(?:</\1>|$)|(?![\s{]).*?</think>)", re.DOTALL
)
"""Servers that do not take a model's thoughts out of its answer leave them in such an element:
llama.cpp and others in `think`, Gemini in `thought`, Bedrock in `reasoning`. Some
templates open it in the prompt, so that only its end is in the answer; an answer that was cut has
no end."""
THINKING = "reasoning_content"
_DEFINED = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio"}
)
"""Fields of an answer's message that the API defines."""
_DEFINED_OF_A_CALL = frozenset({"index", "id", "type", "function"})
_GROWING = frozenset({"text", "summary"})
"""Fields of a part of `reasoning_details`: their text comes in pieces, one after the other."""


def chat_request(turn: Turn, able: Abilities) -> dict[str, Any]:
    """The arguments of `chat.completions.create`, without what the server does not take."""
    request: dict[str, Any] = {}
    if turn.schema is not None:
        name, schema = turn.schema
        if able.schema == "schema":
            named = {"name": name, "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": named}
        elif able.schema == "json":
            request["response_format"] = {"type": "json_object"}
    if able.offers_tools(turn):
        request["tools"] = [_tool(tool) for tool in turn.tools]
        # The tools stay for the server's prompt cache, but the report must not call them.
        request["tool_choice"] = "none" if turn.schema is not None else "auto"
    request["messages"] = _messages(turn, able)
    request[able.limit_name] = turn.max_output_tokens
    if turn.effort and able.effort != "off":
        request["reasoning_effort"] = turn.effort
    if able.streaming:
        request["stream"] = True
        if able.stream_usage:
            request["stream_options"] = {"include_usage": True}
    return request


def _messages(turn: Turn, able: Abilities) -> list[dict[str, Any]]:
    history = [_message(entry, in_words=not able.tools) for entry in turn.history]
    if any(THINKING in message for message in history):
        # DeepSeek and Kimi want the field in each answer that called a tool, even an empty one.
        for message in history:
            if message.get("tool_calls"):
                message.setdefault(THINKING, "")
    if turn.schema is not None and able.schema != "schema":
        history.append({"role": "user", "content": SCHEMA_IN_WORDS + json.dumps(turn.schema[1])})
    return [{"role": "system", "content": turn.system}, *history]


def _message(entry: Entry, *, in_words: bool) -> dict[str, Any]:
    """One entry of the history; `in_words` for servers without tools, where earlier calls become
    text."""
    if isinstance(entry, AssistantMessage):
        return _assistant_message(entry, in_words=in_words)
    if isinstance(entry, UserMessage) or in_words:
        return {"role": "user", "content": entry.text}
    return {"role": "tool", "tool_call_id": entry.call_id, "content": entry.text}


def _assistant_message(entry: AssistantMessage, *, in_words: bool) -> dict[str, Any]:
    if in_words:
        # Servers refuse an assistant's message that has neither text nor calls.
        return {"role": "assistant", "content": entry.text or "-"}
    carried = entry.carried.fields if entry.carried else {}
    if not entry.calls:
        message_fields = mapping(carried.get("message"))
        return {**message_fields, "role": "assistant", "content": entry.text or "-"}
    of_calls = items(carried.get("calls"))
    calls = []
    for number, call in enumerate(entry.calls):
        call_fields = mapping(of_calls[number] if number < len(of_calls) else None)
        function = {"name": call.name, "arguments": call.arguments}
        calls.append({**call_fields, "id": call.id, "type": "function", "function": function})
    message = {"role": "assistant", "content": entry.text or None, "tool_calls": calls}
    return {**mapping(carried.get("message")), **message}


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
    server_id: Any
    """The server's own id of it."""
    name: str
    pieces: list[str]
    """The arguments that have come so far."""
    other: dict[str, Any] = field(default_factory=dict)
    """Fields that the API does not define."""

    def goes_on_with(self, index: Any, server_id: Any) -> bool:
        """Whether a part of a call with this index and id belongs to this one."""
        if index is None and self.index is None:
            # Gemini gives no index: a part without an id continues the last call.
            return not server_id or server_id == self.server_id
        if index is None or index != self.index:
            return False
        # Some servers give every call the index 0, each with its own id.
        return not server_id or not self.server_id or server_id == self.server_id


class ChatReading:
    """Puts an answer together from the chunks of a stream, or from one whole completion. Nothing is
    taken on trust."""

    def __init__(self, answer: ModelAnswer, first_call: int) -> None:
        self._answer = answer
        self._first_call = first_call
        self._open: list[_OpenCall] = []
        self._other: dict[str, Any] = {}
        self._finished = False

    def read(self, chunk: Mapping[str, Any]) -> None:
        """One chunk."""
        usage = usage_of(chunk.get("usage"), "prompt_tokens", "completion_tokens")
        self._answer.usage = usage or self._answer.usage
        choices = list(items(chunk.get("choices")))
        # The last chunk of some servers has counts and no choice.
        choice = mapping(choices[0] if choices else None)
        part = mapping(choice.get("delta") or choice.get("message"))
        self._answer.text += _content_text(part.get("content"))
        for name, value in part.items():
            if name not in _DEFINED and value is not None:
                self._answer.thought += len(value) if isinstance(value, str) else 0
                self._other[name] = _joined(self._other.get(name), value)
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
        index, server_id = call.get("index"), call.get("id")
        name, arguments = text_of(function.get("name")), function.get("arguments")
        # Some servers give the arguments as an object and not as text.
        piece = json.dumps(arguments) if isinstance(arguments, Mapping) else text_of(arguments)
        other = {k: v for k, v in call.items() if k not in _DEFINED_OF_A_CALL and v is not None}
        for open_call in reversed(self._open if index is not None else self._open[-1:]):
            if open_call.goes_on_with(index, server_id) and not (
                index is None and name and not server_id
            ):
                open_call.pieces.append(piece)
                open_call.other |= other
                return
        if name and len(self._open) < MAX_CALLS:
            self._open.append(_OpenCall(index, server_id, name[:MAX_TOOL_NAME], [piece], other))

    def finish(self, *, streamed: bool) -> None:
        """The stream ended: what came is the answer; lost, where the server never said that it was
        whole."""
        self._answer.text = _THOUGHT.sub("", self._answer.text)
        if streamed and not self._finished and self._answer.ending == "stop":
            self._answer.ending = "lost"
        for number, call in enumerate(self._open, start=self._first_call):
            arguments = "".join(call.pieces)
            self._answer.calls.append(ToolCall(f"c{number:08d}", call.name, arguments))
        of_calls = [call.other for call in self._open]
        if self._other or any(of_calls):
            self._answer.carried = bounded({"message": self._other, "calls": of_calls})


def _content_text(content: Any) -> str:
    """A message's text; Mistral's thinking models give a list of parts."""
    if isinstance(content, list):
        return "".join(text_of(mapping(p).get("text")) for p in content)
    return text_of(content)


def _joined(before: Any, more: Any) -> Any:
    """A field of a message with what the next chunk adds to it: texts and lists grow."""
    if isinstance(before, str) and isinstance(more, str):
        return before + more
    if isinstance(more, list):
        joined = list(items(before))
        for part in more:
            if joined and _goes_on(mapping(joined[-1]), mapping(part)):
                joined[-1] = _grown(joined[-1], part)
            else:
                joined.append(part)
        return joined
    if isinstance(before, Mapping) and isinstance(more, Mapping):
        return {**before, **{k: v for k, v in more.items() if v is not None}}
    return more


def _goes_on(before: Mapping[str, Any], more: Mapping[str, Any]) -> bool:
    """Whether a part of `reasoning_details` is a piece of the one before it."""
    same = before.get("type") == more.get("type") and before.get("index") == more.get("index")
    return same and bool(_GROWING & before.keys() & more.keys())


def _grown(before: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    grown = {**before, **{k: v for k, v in more.items() if v is not None}}
    for name in _GROWING & before.keys() & more.keys():
        grown[name] = text_of(before.get(name)) + text_of(more.get(name))
    return grown
