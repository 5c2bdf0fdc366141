"""The Responses API of the hosted service.
https://developers.openai.com/api/reference/resources/responses

Nothing is kept at the provider. So its reasoning is asked for in encrypted form and goes back in
the place where it stood (https://developers.openai.com/api/docs/guides/reasoning).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from faultline.bot.investigation.model.abilities import Abilities
from faultline.bot.investigation.model.chat_api import SCHEMA_IN_WORDS
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


def responses_request(turn: Turn, able: Abilities) -> dict[str, Any]:
    """The arguments of `responses.create`, without what the server does not take. Nothing is kept
    at the provider."""
    history = [i for entry in turn.history for i in _items(entry, in_words=not able.tools)]
    request: dict[str, Any] = {
        "instructions": turn.system,
        "max_output_tokens": turn.max_output_tokens,
        "store": False,
    }
    if able.encrypted:
        request["include"] = ["reasoning.encrypted_content"]
    if turn.effort and able.effort != "off":
        request["reasoning"] = {"effort": turn.effort}
    if turn.schema is not None:
        name, schema = turn.schema
        if able.schema == "schema":
            request["text"] = {
                "format": {"type": "json_schema", "name": name, "schema": schema, "strict": True}
            }
        else:
            history.append({"role": "user", "content": SCHEMA_IN_WORDS + json.dumps(schema)})
            if able.schema == "json":
                request["text"] = {"format": {"type": "json_object"}}
    if able.offers_tools(turn):
        request["tools"] = [_tool(tool) for tool in turn.tools]
        # The tools stay for the server's prompt cache, but the report must not call them.
        request["tool_choice"] = "none" if turn.schema is not None else "auto"
    request["input"] = history
    if able.streaming:
        request["stream"] = True
    return request


def _items(entry: Entry, *, in_words: bool) -> list[dict[str, Any]]:
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


def _replayed(entry: AssistantMessage, carried: Sequence[Any]) -> list[dict[str, Any]]:
    """The answer's items in their order; calls as they stand in the history, whose ids are
    ours."""
    input_items: list[dict[str, Any]] = []
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


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": True,
    }


class ResponsesReading:
    """Puts an answer together from the events of a stream, or from one whole response. Nothing is
    taken on trust."""

    def __init__(self, answer: ModelAnswer, first_call: int) -> None:
        self._answer = answer
        self._first_call = first_call
        self._items: list[Mapping[str, Any]] = []
        self._deltas: list[str] = []
        self._whole = False

    def read(self, event: Mapping[str, Any]) -> None:
        """One event, or one whole response."""
        kind = event.get("type")
        if kind == "response.output_text.delta":
            self._deltas.append(text_of(event.get("delta")))
            self._answer.text += self._deltas[-1]
        elif kind == "response.output_item.done":
            self._items.append(mapping(event.get("item")))
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._response(mapping(event.get("response")))
        elif event.get("object") == "response":
            self._response(event)

    def _response(self, response: Mapping[str, Any]) -> None:
        self._whole = True
        self._answer.usage = (
            usage_of(response.get("usage"), "input_tokens", "output_tokens") or self._answer.usage
        )
        mappings = [mapping(item) for item in items(response.get("output"))]
        # The last event may list fewer items than arrived one by one.
        self._items = mappings if len(mappings) >= len(self._items) else self._items
        status, why = (
            response.get("status"),
            mapping(response.get("incomplete_details")).get("reason"),
        )
        if status == "incomplete":
            self._answer.ending = "refused" if why == "content_filter" else "length"
        elif status == "failed":
            self._answer.ending = "lost"

    def finish(self, *, streamed: bool) -> None:
        """The stream ended: what came is the answer; lost, where the server never said that it was
        whole."""
        del streamed
        if not self._whole:
            self._answer.ending = "lost"
        messages = [item for item in self._items if item.get("type") == "message"]
        text = "".join(_text(message) for message in messages)
        self._answer.text = text or self._answer.text
        if any(_parts(message, "refusal") for message in messages):
            self._answer.ending = "refused"
        self._add_calls()
        output_items = [item for item in map(_replay_item, self._items) if item]
        # The history holds text and calls anyway, but neither reasoning nor phases.
        if any(item["type"] == "reasoning" or item.get("phase") for item in output_items):
            self._answer.carried = bounded({"items": output_items})

    def _add_calls(self) -> None:
        calls = []
        for item in self._items:
            name = text_of(item.get("name"))
            if item.get("type") == "function_call" and name:
                calls.append((name[:MAX_TOOL_NAME], text_of(item.get("arguments"))))
        for number, (name, arguments) in enumerate(calls[:MAX_CALLS], start=self._first_call):
            self._answer.calls.append(ToolCall(f"c{number:08d}", name, arguments))


def _parts(message: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """The parts of a message's content that are of this type."""
    parts = [mapping(part) for part in items(message.get("content"))]
    return [part for part in parts if part.get("type") == kind]


def _text(message: Mapping[str, Any]) -> str:
    return "".join(text_of(part.get("text")) for part in _parts(message, "output_text"))


def _replay_item(item: Mapping[str, Any]) -> dict[str, Any] | None:
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
    if kind == "function_call" and text_of(item.get("name")):
        return {"type": kind}
    return None
