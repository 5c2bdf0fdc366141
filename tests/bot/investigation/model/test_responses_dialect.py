"""Whole investigations through the real client, against servers on loopback that answer as the
provider documents it, and refuse as it does where something is missing.

Sources of the wire form: https://developers.openai.com/api/reference/resources/responses and
https://developers.openai.com/api/docs/guides/reasoning (encrypted reasoning); refusals in
https://github.com/anomalyco/opencode/pull/2480 and
https://github.com/OpenHands/software-agent-sdk/pull/1208.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse, Response

from tests.bot.investigation.model.cases import good_report
from tests.bot.investigation.model.dialects import (
    ENOUGH,
    SERIES,
    TOPOLOGY,
    run,
    used,
)
from tests.bot.investigation.model.wire import (
    Asked,
    named,
    refusal,
    wire_server,
)


class Responses:
    """The Responses API with nothing stored: reasoning comes encrypted, and is unknown by its id
    alone."""

    reasoning: Mapping[str, Any] = {
        "id": "rs_68be1138d72081a18f",
        "type": "reasoning",
        "summary": [],
        "encrypted_content": "gAAAAABqX1a78BDqk_J4uGoxtDucvs8h",
        "status": "completed",
    }

    def __init__(self, case: Path) -> None:
        self.report = json.dumps(good_report(case))

    def __call__(self, asked: Asked) -> Response:
        if asked.method == "GET":
            return JSONResponse({"id": "the-model", "object": "model"})
        refused = self.refused(asked.body)
        if refused is not None:
            return refused
        if "format" in asked.body.get("text", {}):
            return self.stream([self.message(self.report, "final_answer")])
        if any(item.get("type") == "function_call" for item in asked.body["input"]):
            return self.stream([self.reasoning, self.message(ENOUGH, "commentary")])
        calls = [
            {
                "type": "function_call",
                "id": f"fc_{n}",
                "call_id": f"call_{n}",
                "name": name,
                "arguments": arguments,
                "status": "completed",
            }
            for n, (name, arguments) in enumerate((SERIES, TOPOLOGY))
        ]
        given = self.reasoning if asked.body.get("include") else without(self.reasoning)
        return self.stream([given, self.message("I look at cart.", "commentary"), *calls])

    def refused(self, body: dict[str, Any]) -> Response | None:
        assert body["store"] is False
        for item in body["input"]:
            if item.get("type") == "reasoning" and not item.get("encrypted_content"):
                said = (
                    f"Item with id '{item['id']}' not found. Items are not persisted when `store` "
                    "is set to false. Try again with `store` set to true, or remove this item from "
                    "your input."
                )
                error = {"message": said, "type": "invalid_request_error", "param": "input"}
                return refusal(404, {"error": error})
        return None

    def message(self, text: str, phase: str) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "phase": phase,
            "content": [part],
        }

    def stream(self, output: list[Mapping[str, Any]]) -> Response:
        whole = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": "the-model",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 900,
                "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 0},
                "output_tokens": 80,
                "output_tokens_details": {"reasoning_tokens": 64},
                "total_tokens": 980,
            },
        }
        started = {**whole, "status": "in_progress", "output": []}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": started}]
        for index, item in enumerate(output):
            events.append(
                {"type": "response.output_item.done", "output_index": index, "item": item}
            )
        events.append({"type": "response.completed", "response": whole})
        return named(*({**event, "sequence_number": n} for n, event in enumerate(events)))


def without(reasoning: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in reasoning.items() if k != "encrypted_content"}


class NoReasoning(Responses):
    """A model that does not reason refuses the form that reasoning would have."""

    def refused(self, body: dict[str, Any]) -> Response | None:
        if "include" in body or "reasoning" in body:
            said = "Encrypted content is not supported with this model."
            if "reasoning" in body:
                said = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
            return refusal(400, {"error": {"message": said, "type": "invalid_request_error"}})
        return super().refused(body)


def test_reasoning_is_replayed_where_it_stood(case: Path) -> None:
    with wire_server(Responses(case)) as server:
        use = used(run(case, server, "/openai/v1", api="responses", reasoning_effort="high"))
    assert (use.rounds, use.tool_calls, use.cached_tokens) == (3, 2, 1800)
    second, last = server.posts("/responses")[1:]
    assert second["include"] == ["reasoning.encrypted_content"]
    assert second["reasoning"] == {"effort": "high"}
    kinds = [item.get("type") or item["role"] for item in second["input"]]
    assert kinds == [
        "user",
        "reasoning",
        "assistant",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert second["input"][1] == {k: v for k, v in Responses.reasoning.items() if k != "status"}
    assert second["input"][2]["phase"] == "commentary"
    called = [i["call_id"] for i in second["input"] if i.get("type") == "function_call"]
    assert called == [i["call_id"] for i in second["input"][-2:]]
    assert sum(item.get("type") == "reasoning" for item in last["input"]) == 2


class ThoughtTooLong(Responses):
    """The second answer ran out of tokens while it was thought of."""

    def refused(self, body: dict[str, Any]) -> Response | None:
        kinds = [item.get("type") or item["role"] for item in body["input"]]
        if any(pair == ("reasoning", "user") for pair in pairwise([*kinds, "user"])):
            return self.unfollowed()
        if "format" in body.get("text", {}) or "function_call" not in kinds:
            return None
        return self.stream([self.reasoning])

    def unfollowed(self) -> Response:
        said = (
            f"Item '{self.reasoning['id']}' of type 'reasoning' was provided without its required "
            "following item."
        )
        return refusal(400, {"error": {"message": said, "type": "invalid_request_error"}})


def test_reasoning_that_nothing_follows_is_not_sent_back(case: Path) -> None:
    with wire_server(ThoughtTooLong(case)) as server:
        assert used(run(case, server, "/v1", api="responses")).rounds == 3
    assert len(server.posts("/responses")) == 3, "nothing was refused"


def test_a_model_without_reasoning_is_asked_without_it(case: Path) -> None:
    with wire_server(NoReasoning(case)) as server:
        used(run(case, server, "/v1", api="responses", reasoning_effort="low"))
    bodies = server.posts("/responses")
    assert sum("include" in body for body in bodies) <= 2
    assert "include" not in bodies[-1]
    assert "reasoning" not in bodies[-1]


def test_reasoning_without_its_content_is_not_sent_back(case: Path) -> None:
    class Silent(Responses):
        reasoning: Mapping[str, Any] = without(Responses.reasoning)

    with wire_server(Silent(case)) as server:
        assert used(run(case, server, "/v1", api="responses")).tool_calls == 2
