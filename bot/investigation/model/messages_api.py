"""Anthropic's Messages API: what is sent, and how the answer is read.

https://platform.claude.com/docs/en/api/messages. Thinking blocks go back as they came, with their
signatures, in the place where they stood
(https://platform.claude.com/docs/en/build-with-claude/extended-thinking#preserving-thinking-blocks).
The end of the instructions and the end of the history are marked for the cache
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from faultline.bot.investigation.model.abilities import Abilities
from faultline.bot.investigation.model.openai_dialects import SCHEMA_IN_WORDS
from faultline.bot.investigation.model.turns import (
    AssistantMessage,
    Ending,
    Entry,
    ModelAnswer,
    ToolCall,
    ToolResult,
    ToolSpec,
    Turn,
    Usage,
    bounded,
    count,
    items,
    mapping,
    text_of,
)

CACHED = {"type": "ephemeral"}
THINKING = ("thinking", "redacted_thinking")
SMALLEST_BUDGET = 1024
"""Tokens of thinking; the API takes no less."""
BUDGETS = {"low": 2048, "medium": 8192}
"""Tokens of thinking for an effort, where a model takes only numbers; else as many as fit."""
EFFORTS = {"minimal": "low"}
"""What OpenAI calls an effort and Anthropic does not."""
_ENDINGS: dict[str, Ending] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
"""https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"""


def messages_request(turn: Turn, able: Abilities) -> dict[str, Any]:
    """The body of a request, without what the server does not take."""
    system: dict[str, Any] = {"type": "text", "text": turn.system}
    request: dict[str, Any] = {"max_tokens": turn.max_output_tokens, "system": [system]}
    messages = _messages(turn.history, in_words=not able.tools)
    _ask_to_think(request, turn, able)
    if able.offers_tools(turn):
        request["tools"] = [_tool(tool) for tool in turn.tools]
        request["tool_choice"] = {"type": "none" if turn.schema else "auto"}
    if turn.schema is not None:
        _ask_for_schema(request, messages, turn.schema, able)
    if able.cache_marks:
        system["cache_control"] = CACHED
        messages[-1]["content"][-1]["cache_control"] = CACHED
    request["messages"] = messages
    if able.streaming:
        request["stream"] = True
    return request


def _ask_to_think(request: dict[str, Any], turn: Turn, able: Abilities) -> None:
    if not turn.effort or turn.effort == "none" or able.effort == "off":
        return
    if able.effort == "asked":
        request["thinking"] = {"type": "adaptive"}
        request["output_config"] = {"effort": EFFORTS.get(turn.effort, turn.effort)}
        return
    # The limit of an answer includes its thinking, and must be larger.
    budget = min(
        BUDGETS.get(EFFORTS.get(turn.effort, turn.effort), 10**6), turn.max_output_tokens // 2
    )
    if budget >= SMALLEST_BUDGET:
        request["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _ask_for_schema(
    request: dict[str, Any],
    messages: list[dict[str, Any]],
    requested_schema: tuple[str, Mapping[str, Any]],
    able: Abilities,
) -> None:
    name, schema = requested_schema
    if able.schema == "schema":
        form = {"type": "json_schema", "schema": schema}
        request["output_config"] = {**request.get("output_config", {}), "format": form}
    elif able.schema == "json" and able.tools:
        # Models before structured outputs keep to a schema as the arguments of a tool. They do not
        # think before a tool that they are made to call.
        tool = {"name": name, "description": "Give the answer.", "input_schema": schema}
        request["tools"] = [*request.get("tools", ()), tool]
        request["tool_choice"] = {"type": "tool", "name": name}
        request.pop("thinking", None)
        request.pop("output_config", None)
    else:
        instruction = {"type": "text", "text": SCHEMA_IN_WORDS + json.dumps(schema)}
        if messages[-1]["role"] == "user":
            messages[-1]["content"].append(instruction)
        else:
            messages.append({"role": "user", "content": [instruction]})


def _messages(history: Sequence[Entry], *, in_words: bool) -> list[dict[str, Any]]:
    """The history as messages in turns: results of tools and what we say after them are one."""
    messages: list[dict[str, Any]] = []
    for entry in history:
        if isinstance(entry, AssistantMessage):
            messages.append({"role": "assistant", "content": _blocks(entry, in_words=in_words)})
            continue
        if not messages or messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": []})
        if isinstance(entry, ToolResult) and not in_words:
            block = {"type": "tool_result", "tool_use_id": entry.call_id, "content": entry.text}
        else:
            block = {"type": "text", "text": entry.text}
        messages[-1]["content"].append(block)
    return messages


def _blocks(entry: AssistantMessage, *, in_words: bool) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": entry.text}] if entry.text.strip() else []
    # The API refuses a message without content.
    nothing = [{"type": "text", "text": "-"}]
    if in_words:
        return text or nothing
    calls = [_call(call) for call in entry.calls]
    carried = items(entry.carried.fields.get("blocks")) if entry.carried else ()
    if not carried:
        return [*text, *calls] or nothing
    replayed: list[dict[str, Any]] = []
    for block in carried:
        if block["type"] == "tool_use":
            replayed += calls[:1]
            calls = calls[1:]
        else:
            replayed.append(dict(block))
    # The API refuses a message that ends in a thought, as where an answer ran out of tokens.
    ends_in_thought = not replayed or replayed[-1]["type"] in THINKING
    return [*replayed, *nothing] if ends_in_thought else replayed


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.loads(call.arguments or "{}")
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }


class MessagesReading:
    """Puts an answer together from the events of a stream, or from one whole message. Nothing is
    taken on trust."""

    def __init__(self, answer: ModelAnswer, first_call: int, form: str | None = None) -> None:
        """`form` names the tool whose arguments hold an answer of a schema."""
        self._answer = answer
        self._first_call = first_call
        self._form = form
        self._blocks: list[dict[str, Any]] = []
        self._usage: dict[str, Any] = {}
        self._reason: str | None = None
        self._before: tuple[int, int] = 0, 0
        self.failure: str | None = None
        """The kind of an error that ended the stream."""

    @property
    def paused(self) -> list[dict[str, Any]] | None:
        """The content so far, where the server wants it back before it goes on."""
        if self._reason != "pause_turn" or not self._blocks:
            return None
        self._reason = None
        self._before = self._spent()
        self._usage = {}
        return [_sent_again(block) for block in self._blocks]

    def read(self, event: Mapping[str, Any]) -> None:
        """One event, or one whole message."""
        kind = event.get("type")
        if kind == "message":
            self._blocks += [dict(mapping(block)) for block in items(event.get("content"))]
            self._answer.text = self._text()
            self._ended(event, event)
        elif kind == "message_start":
            self._usage |= mapping(mapping(event.get("message")).get("usage"))
        elif kind == "content_block_start":
            self._blocks.append(dict(mapping(event.get("content_block"))))
            self._answer.text += text_of(self._blocks[-1].get("text"))
        elif kind == "content_block_delta" and self._blocks:
            self._grow(self._blocks[-1], mapping(event.get("delta")))
        elif kind == "message_delta":
            self._ended(mapping(event.get("delta")), event)
        elif kind == "error":
            self.failure = text_of(mapping(event.get("error")).get("type")) or "error"

    def _grow(self, block: dict[str, Any], delta: Mapping[str, Any]) -> None:
        text, thinking = text_of(delta.get("text")), text_of(delta.get("thinking"))
        if text:
            block["text"] = text_of(block.get("text")) + text
            self._answer.text += text
        if thinking:
            block["thinking"] = text_of(block.get("thinking")) + thinking
            self._answer.thought += len(thinking)
        if delta.get("type") == "signature_delta":
            block["signature"] = text_of(block.get("signature")) + text_of(delta.get("signature"))
        if delta.get("type") == "input_json_delta":
            piece = text_of(delta.get("partial_json"))
            block["arguments"] = text_of(block.get("arguments")) + piece

    def _ended(self, delta: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        self._reason = text_of(delta.get("stop_reason")) or self._reason
        usage = mapping(event.get("usage"))
        self._usage |= {k: v for k, v in usage.items() if v is not None}

    def finish(self, *, streamed: bool) -> None:
        """The stream ended: what came is the answer; lost, where the server never said that it was
        whole."""
        del streamed
        answer = self._answer
        answer.usage = self._counted()
        answer.ending = _ENDINGS.get(self._reason, "stop") if self._reason else "lost"
        calls = [b for b in self._blocks if b.get("type") == "tool_use" and text_of(b.get("name"))]
        forms = [b for b in calls if b.get("name") == self._form]
        answer.text = _arguments(forms[0]) if forms else self._text()
        named = [(text_of(b.get("name")), _arguments(b)) for b in calls if b not in forms]
        answer.add_calls(named, self._first_call)
        if any(block.get("type") in THINKING for block in self._blocks):
            answer.carried = bounded({"blocks": [k for k in map(_replay_block, self._blocks) if k]})

    def _text(self) -> str:
        return "".join(text_of(b.get("text")) for b in self._blocks if b.get("type") == "text")

    def _counted(self) -> Usage | None:
        fresh, output = (count(self._usage.get(n)) for n in ("input_tokens", "output_tokens"))
        if fresh is None or output is None:
            return None
        cached = count(self._usage.get("cache_read_input_tokens")) or 0
        written = count(self._usage.get("cache_creation_input_tokens")) or 0
        sent, earlier_output = self._before
        # Tokens of the cache are not in the API's own number.
        return Usage(sent + fresh + cached + written, earlier_output + output, cached, written)

    def _spent(self) -> tuple[int, int]:
        usage = self._counted()
        return (usage.input, usage.output) if usage else (0, 0)


def _arguments(block: Mapping[str, Any]) -> str:
    """Of a call: the pieces of a stream, or the object of a whole message."""
    pieces = text_of(block.get("arguments"))
    return pieces or json.dumps(block.get("input") or {})


def _replay_block(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """A block as it is sent back: thoughts as they came, calls in their place."""
    kind = block.get("type")
    if kind in THINKING:
        return dict(block)
    if kind == "text":
        text = text_of(block.get("text"))
        return {"type": "text", "text": text} if text.strip() else None
    return {"type": "tool_use"} if kind == "tool_use" and text_of(block.get("name")) else None


def _sent_again(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block of an answer that was paused, word for word."""
    again = {k: v for k, v in block.items() if k != "arguments"}
    if block.get("arguments"):
        again["input"] = json.loads(str(block["arguments"]))
    return again
