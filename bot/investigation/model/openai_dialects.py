"""The two APIs of OpenAI: what is sent, and how the answer is read.

Chat completions is what self-hosted servers speak (vLLM, Ollama, llama.cpp, LiteLLM), and Gemini,
DeepSeek, Azure and Bedrock.
https://developers.openai.com/api/reference/resources/chat/subresources/completions
A message's fields that the API does not define are kept and sent back: Gemini refuses a tool call
without its `extra_content` (https://ai.google.dev/gemini-api/docs/thought-signatures), DeepSeek one
without `reasoning_content` (https://api-docs.deepseek.com/guides/thinking_mode), even an empty one.
vLLM, Ollama and OpenRouter go on with thoughts that they get back.

The Responses API is that of the hosted service.
https://developers.openai.com/api/reference/resources/responses
Nothing is kept at the provider. So its reasoning is asked for in encrypted form and goes back in
the place where it stood (https://developers.openai.com/api/docs/guides/reasoning).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from faultline.bot.investigation.model.abilities import Abilities
from faultline.bot.investigation.model.turns import (
    MAX_CALLS,
    AssistantMessage,
    Entry,
    ModelAnswer,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
    bounded,
    items,
    mapping,
    text_of,
    usage_of,
)

Json = dict[str, Any]
SCHEMA_IN_WORDS = "Answer with one JSON object of this JSON schema and nothing else:\n"


def openai_request(turn: Turn, able: Abilities) -> Json:
    """The arguments of `chat.completions.create` or `responses.create`, without what the server
    does not take."""
    chat = able.api == "chat"
    history = _chat_history(turn, able) if chat else _responses_history(turn, able)
    if turn.schema is not None and able.schema != "schema":
        words = SCHEMA_IN_WORDS + json.dumps(turn.schema[1])
        history.append({"role": "user", "content": words})
    request = _form(turn, able) | _tools(turn, able)
    if able.streaming:
        request["stream"] = True
    effort = turn.effort if able.effort != "off" else None
    if chat:
        request["messages"] = [{"role": "system", "content": turn.system}, *history]
        request[able.limit_name] = turn.max_output_tokens
        if effort:
            request["reasoning_effort"] = effort
        if able.streaming and able.stream_usage:
            request["stream_options"] = {"include_usage": True}
        return request
    request |= {"instructions": turn.system, "input": history, "store": False}
    request["max_output_tokens"] = turn.max_output_tokens
    if effort:
        request["reasoning"] = {"effort": effort}
    if able.encrypted:
        request["include"] = ["reasoning.encrypted_content"]
    return request


def _tools(turn: Turn, able: Abilities) -> Json:
    if not able.offers_tools(turn):
        return {}
    tools: list[Json] = []
    for tool in turn.tools:
        function = {**vars(tool), "strict": True}
        named = {"function": function} if able.api == "chat" else function
        tools.append({"type": "function", **named})
    # The tools stay for the server's prompt cache, but the report must not call them.
    return {"tools": tools, "tool_choice": "none" if turn.schema is not None else "auto"}


def _form(turn: Turn, able: Abilities) -> Json:
    """The argument that asks for an answer of a schema, or of JSON."""
    if turn.schema is None or able.schema == "words":
        return {}
    chat = able.api == "chat"
    form: Json = {"type": "json_object"}
    if able.schema == "schema":
        name, schema = turn.schema
        strict = {"name": name, "schema": schema, "strict": True}
        form = {"type": "json_schema", **({"json_schema": strict} if chat else strict)}
    return {"response_format": form} if chat else {"text": {"format": form}}


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


def _chat_history(turn: Turn, able: Abilities) -> list[Json]:
    history = [_chat_message(entry, in_words=not able.tools) for entry in turn.history]
    if any(THINKING in message for message in history):
        # DeepSeek and Kimi want the field in each answer that called a tool, even an empty one.
        for message in history:
            if message.get("tool_calls"):
                message.setdefault(THINKING, "")
    return history


def _chat_message(entry: Entry, *, in_words: bool) -> Json:
    """One entry of the history; `in_words` for servers without tools, where earlier calls become
    text."""
    if isinstance(entry, ToolResult) and not in_words:
        return {"role": "tool", "tool_call_id": entry.call_id, "content": entry.text}
    if not isinstance(entry, AssistantMessage):
        return {"role": "user", "content": entry.text}
    if in_words:
        # Servers refuse an assistant's message that has neither text nor calls.
        return {"role": "assistant", "content": entry.text or "-"}
    carried = entry.carried.fields if entry.carried else {}
    message = {**mapping(carried.get("message")), "role": "assistant"}
    if not entry.calls:
        return {**message, "content": entry.text or "-"}
    of_calls = items(carried.get("calls"))
    calls = []
    for number, call in enumerate(entry.calls):
        call_fields = mapping(of_calls[number] if number < len(of_calls) else None)
        function = {"name": call.name, "arguments": call.arguments}
        calls.append({**call_fields, "id": call.id, "type": "function", "function": function})
    return {**message, "content": entry.text or None, "tool_calls": calls}


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

    def read(self, piece: Mapping[str, Any]) -> None:
        """One chunk, or the completion."""
        usage = usage_of(piece.get("usage"), "prompt_tokens", "completion_tokens")
        self._answer.usage = usage or self._answer.usage
        choices = list(items(piece.get("choices")))
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
            self._open.append(_OpenCall(index, server_id, name, [piece], other))

    def finish(self, *, streamed: bool) -> None:
        """The stream ended: what came is the answer; lost, where the server never said that it was
        whole."""
        self._answer.text = _THOUGHT.sub("", self._answer.text)
        if streamed and not self._finished and self._answer.ending == "stop":
            self._answer.ending = "lost"
        calls = [(call.name, "".join(call.pieces)) for call in self._open]
        self._answer.add_calls(calls, self._first_call)
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


def _responses_history(turn: Turn, able: Abilities) -> list[Json]:
    return [item for entry in turn.history for item in _items(entry, in_words=not able.tools)]


def _items(entry: Entry, *, in_words: bool) -> list[Json]:
    if isinstance(entry, UserMessage):
        return [{"role": "user", "content": entry.text}]
    if isinstance(entry, AssistantMessage):
        messages = [{"role": "assistant", "content": entry.text}] if entry.text.strip() else []
        if in_words:
            return messages
        carried = items(entry.carried.fields.get("items")) if entry.carried else ()
        return _replayed(entry, carried) or [*messages, *(_call(c) for c in entry.calls)]
    if in_words:
        return [{"role": "user", "content": entry.text}]
    return [{"type": "function_call_output", "call_id": entry.call_id, "output": entry.text}]


def _replayed(entry: AssistantMessage, carried: Sequence[Any]) -> list[Json]:
    """The answer's items in their order; calls as they stand in the history, whose ids are
    ours."""
    input_items: list[Json] = []
    calls = iter(entry.calls)
    for item in carried:
        if item["type"] == "function_call":
            input_items += [_call(call) for call in (next(calls, None),) if call is not None]
        elif item["type"] == "message":
            phase = {"phase": item["phase"]} if item.get("phase") else {}
            input_items.append({"role": "assistant", "content": item["text"], **phase})
        else:
            input_items.append(dict(item))
    # The API refuses reasoning that nothing follows, as where an answer ran out of tokens.
    while input_items and input_items[-1].get("type") == "reasoning":
        input_items.pop()
    return input_items


def _call(call: ToolCall) -> Json:
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


class ResponsesReading:
    """The same from the events of a stream, or from one whole response."""

    def __init__(self, answer: ModelAnswer, first_call: int) -> None:
        self._answer = answer
        self._first_call = first_call
        self._items: list[Mapping[str, Any]] = []
        self._whole = False

    def read(self, piece: Mapping[str, Any]) -> None:
        """One event, or the response."""
        kind = piece.get("type")
        if kind == "response.output_text.delta":
            self._answer.text += text_of(piece.get("delta"))
        elif kind == "response.output_item.done":
            self._items.append(mapping(piece.get("item")))
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._response(mapping(piece.get("response")))
        elif piece.get("object") == "response":
            self._response(piece)

    def _response(self, response: Mapping[str, Any]) -> None:
        self._whole = True
        self._answer.usage = (
            usage_of(response.get("usage"), "input_tokens", "output_tokens") or self._answer.usage
        )
        mappings = [mapping(item) for item in items(response.get("output"))]
        # The last event may list fewer items than arrived one by one.
        self._items = mappings if len(mappings) >= len(self._items) else self._items
        status = response.get("status")
        why = mapping(response.get("incomplete_details")).get("reason")
        if status == "incomplete":
            self._answer.ending = "refused" if why == "content_filter" else "length"
        elif status == "failed":
            self._answer.ending = "lost"

    def finish(self, *, streamed: bool) -> None:
        if not self._whole:
            self._answer.ending = "lost"
        messages = [item for item in self._items if item.get("type") == "message"]
        self._answer.text = "".join(map(_text, messages)) or self._answer.text
        if any(_parts(message, "refusal") for message in messages):
            self._answer.ending = "refused"
        calls = [item for item in self._items if _is_call(item)]
        named = [(text_of(call.get("name")), text_of(call.get("arguments"))) for call in calls]
        self._answer.add_calls(named, self._first_call)
        output_items = [item for item in map(_replay_item, self._items) if item]
        # The history holds text and calls anyway, but neither reasoning nor phases.
        if any(item["type"] == "reasoning" or item.get("phase") for item in output_items):
            self._answer.carried = bounded({"items": output_items})


def _is_call(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "function_call" and bool(text_of(item.get("name")))


def _parts(message: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """The parts of a message's content that are of this type."""
    parts = [mapping(part) for part in items(message.get("content"))]
    return [part for part in parts if part.get("type") == kind]


def _text(message: Mapping[str, Any]) -> str:
    return "".join(text_of(part.get("text")) for part in _parts(message, "output_text"))


def _replay_item(item: Mapping[str, Any]) -> Json | None:
    """An item as it is sent back; None for one that is not. A reasoning item that holds nothing but
    its id is unknown to a server that stored nothing."""
    kind = item.get("type")
    if kind == "reasoning":
        names = ("id", "summary", "content", "encrypted_content")
        fields = {n: item[n] for n in names if item.get(n) is not None}
        whole = fields.get("encrypted_content") or fields.get("content")
        return {"type": kind, "summary": [], **fields} if whole else None
    if kind == "message":
        text = _text(item)
        phase = {"phase": item["phase"]} if text_of(item.get("phase")) else {}
        return {"type": kind, "text": text, **phase} if text.strip() else None
    return {"type": kind} if _is_call(item) else None
