"""Whole investigations through the real client, against servers on loopback that answer as the
provider documents it, and refuse as it does where something is missing.

Sources of the wire form: https://platform.claude.com/docs/en/build-with-claude/streaming,
.../extended-thinking, .../prompt-caching and .../handling-stop-reasons; refusals in
https://github.com/deepset-ai/haystack-core-integrations/issues/2146. The bodies that are sent were
checked against the types of Anthropic's own package (2.12), which reads these streams too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from faultline.bot.investigation.model.investigating import Investigated
from tests.bot.investigation.model.cases import good_report
from tests.bot.investigation.model.dialects import (
    ENOUGH,
    SERIES,
    SIGNATURE,
    THOUGHT,
    TOPOLOGY,
    run,
    take_up,
    used,
    worker_ends_after,
)
from tests.bot.investigation.model.wire import (
    Asked,
    WireServer,
    named,
    refusal,
    wire_server,
)


class Anthropic:
    """Thinking with tools: the thinking block must stand before the calls, as it came."""

    thinking: Mapping[str, Any] = {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE}

    def __init__(self, case: Path) -> None:
        self.report = good_report(case)

    def __call__(self, asked: Asked) -> Response:
        if asked.method == "GET":
            return JSONResponse({"type": "model", "id": "the-model", "max_input_tokens": 200_000})
        assert asked.path == "/v1/messages"
        assert asked.headers["anthropic-version"] == "2023-06-01"
        if not self.signed_in(asked.headers):
            error = {"type": "authentication_error", "message": "invalid x-api-key"}
            return refusal(401, {"type": "error", "error": error})
        refused = self.refused(asked.body)
        if refused is not None:
            return refused
        body = asked.body
        if "format" in body.get("output_config", {}):
            return self.stream([{"type": "text", "text": json.dumps(self.report)}], "end_turn")
        if body.get("tool_choice", {}).get("type") == "tool":
            forced = {"id": "toolu_9", "name": body["tool_choice"]["name"], "input": self.report}
            return self.stream([{"type": "tool_use", **forced}], "tool_use")
        if any(m["role"] == "assistant" for m in body["messages"]):
            return self.stream([{"type": "text", "text": ENOUGH}], "end_turn")
        calls = [
            {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": json.loads(arguments)}
            for n, (name, arguments) in enumerate((SERIES, TOPOLOGY))
        ]
        said = {"type": "text", "text": "I look at cart."}
        thinking = [dict(self.thinking)] if body.get("thinking") else []
        return self.stream([*thinking, said, *calls], "tool_use")

    def signed_in(self, headers: Mapping[str, str]) -> bool:
        return headers.get("x-api-key") == "key" and "authorization" not in headers

    def refused(self, body: dict[str, Any]) -> Response | None:
        roles = [m["role"] for m in body["messages"]]
        assert all(a != b for a, b in pairwise(roles)), "in turns"
        for n, message in enumerate(body["messages"]):
            blocks = message["content"]
            called = [b for b in blocks if b["type"] == "tool_use"]
            if called and body.get("thinking"):
                first = blocks[0]
                if first["type"] != "thinking":
                    return invalid(
                        f"messages.{n}.content.0.type: Expected `thinking` or `redacted_thinking`, "
                        f"but found `{first['type']}`. When `thinking` is enabled, a final "
                        "`assistant` message must start with a thinking block."
                    )
                if first != self.thinking:
                    return invalid(
                        f"messages.{n}.content.0: Invalid `signature` in `thinking` block"
                    )
            if called:
                results = body["messages"][n + 1]["content"][: len(called)]
                given = [b.get("tool_use_id") for b in results]
                if given != [b["id"] for b in called]:
                    return invalid(
                        f"messages.{n}: `tool_use` ids were found without `tool_result` blocks "
                        f"immediately after: {', '.join(b['id'] for b in called)}."
                    )
            for m, block in enumerate(blocks):
                if block["type"] == "text" and not block["text"].strip():
                    return invalid(f"messages.{n}: text content blocks must be non-empty ({m})")
        marks = json.dumps(body).count('"cache_control"')
        if marks > 4:
            return invalid("A maximum of 4 blocks with cache_control may be provided.")
        return None

    def stream(self, blocks: list[dict[str, Any]], reason: str) -> Response:
        usage = {
            "input_tokens": 100,
            "cache_creation_input_tokens": 200,
            "cache_read_input_tokens": 600,
            "output_tokens": 3,
        }
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "usage": usage}},
            {"type": "ping"},
        ]
        for n, block in enumerate(blocks):
            events += block_events(n, block)
        ended = {"stop_reason": reason, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 80}})
        return named(*events, {"type": "message_stop"})


def block_events(n: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    """A block in its pieces."""
    kind = block["type"]
    if kind == "thinking":
        start = {**block, "thinking": "", "signature": ""}
        half = len(block["thinking"]) // 2
        pieces = [block["thinking"][:half], block["thinking"][half:]]
        deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": p} for p in pieces]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind == "tool_use":
        start, text = {**block, "input": {}}, json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": p} for p in ("", text[:7], text[7:])]
    elif kind == "text":
        start, text = {**block, "text": ""}, block["text"]
        deltas = [{"type": "text_delta", "text": p} for p in (text[:9], text[9:])]
    else:
        start, deltas = block, []
    return [
        {"type": "content_block_start", "index": n, "content_block": start},
        *({"type": "content_block_delta", "index": n, "delta": d} for d in deltas),
        {"type": "content_block_stop", "index": n},
    ]


def invalid(said: str) -> Response:
    error = {"type": "invalid_request_error", "message": said}
    return refusal(400, {"type": "error", "error": error})


def anthropic(case: Path, server: WireServer, **settings: Any) -> Investigated:
    return run(case, server, "/v1", api="anthropic", **settings)


@pytest.mark.parametrize("effort", [None, "low"])
def test_an_investigation_over_anthropics_own_api(case: Path, effort: str | None) -> None:
    prices = {
        "price_per_million_input": 10,
        "price_per_million_cached": 1,
        "price_per_million_cache_write": 12.5,
        "price_per_million_output": 50,
    }
    with wire_server(Anthropic(case)) as server:
        use = used(anthropic(case, server, reasoning_effort=effort, **prices))
    assert (use.rounds, use.tool_calls, use.ended) == (3, 2, "answered")
    assert (use.input_tokens, use.cached_tokens, use.output_tokens) == (2700, 1800, 240)
    assert use.cost_usd == pytest.approx(3 * (100 * 10 + 600 + 200 * 12.5 + 80 * 50) / 1e6)
    bodies = server.posts("/messages")
    assert all(b["system"][-1]["cache_control"] == {"type": "ephemeral"} for b in bodies)
    assert all("cache_control" in b["messages"][-1]["content"][-1] for b in bodies)
    assert [b["tool_choice"]["type"] for b in bodies] == ["auto", "auto", "none"]
    assert all(b["tools"] == bodies[0]["tools"] for b in bodies), "the cache of the prompt holds"
    assert bodies[-1]["output_config"]["format"]["type"] == "json_schema"
    if effort:
        assert bodies[0]["thinking"] == {"type": "adaptive"}
        assert [b["output_config"]["effort"] for b in bodies] == ["low"] * 3


class AnthropicThoughtTooLong(Anthropic):
    """The second answer ran out of tokens while it was thought of."""

    def stream(self, blocks: list[dict[str, Any]], reason: str) -> Response:
        if blocks[0].get("text") == ENOUGH:
            return super().stream([dict(self.thinking)], "max_tokens")
        return super().stream(blocks, reason)

    def refused(self, body: dict[str, Any]) -> Response | None:
        for n, message in enumerate(body["messages"]):
            if message["content"][-1]["type"] == "thinking":
                return invalid(f"messages.{n}: The final block cannot be `thinking`.")
        return super().refused(body)


def test_a_thought_that_nothing_follows_is_sent_back_with_something(case: Path) -> None:
    with wire_server(AnthropicThoughtTooLong(case)) as server:
        use = used(anthropic(case, server, reasoning_effort="low"))
    assert use.ended == "an answer was cut at its limit of tokens"
    assert len(server.posts("/messages")) == 3, "nothing was refused"


class OllamaCloud(Anthropic):
    """Speaks the API, and wants the key as a bearer token.
    https://github.com/Wei-Shaw/sub2api/pull/3627"""

    def signed_in(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == "Bearer key" and "x-api-key" not in headers


def test_a_server_that_wants_the_key_as_a_token_gets_it(case: Path) -> None:
    with wire_server(OllamaCloud(case)) as server:
        assert used(anthropic(case, server)).rounds == 3
    assert len(server.posts("/messages")) == 4, "it is remembered"


class RedactedThinking(Anthropic):
    thinking: Mapping[str, Any] = {
        "type": "redacted_thinking",
        "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIw",
    }

    def refused(self, body: dict[str, Any]) -> Response | None:
        for message in body["messages"]:
            if any(b["type"] == "tool_use" for b in message["content"]):
                assert message["content"][0] == self.thinking
        return None


class OlderAnthropic(Anthropic):
    """Before adaptive thinking and structured outputs."""

    def refused(self, body: dict[str, Any]) -> Response | None:
        if body.get("thinking", {}).get("type") == "adaptive":
            return invalid("adaptive thinking is not supported on this model")
        if "output_config" in body:
            return invalid("output_config: Extra inputs are not permitted")
        if body.get("thinking"):
            assert 1024 <= body["thinking"]["budget_tokens"] < body["max_tokens"]
            if body.get("tool_choice", {}).get("type") == "tool":
                return invalid("Thinking may not be enabled when tool_choice forces tool use.")
        return super().refused(body)


@pytest.mark.parametrize("dialect", [RedactedThinking, OlderAnthropic])
def test_other_models_of_anthropic(case: Path, dialect: type[Anthropic]) -> None:
    with wire_server(dialect(case)) as server:
        assert used(anthropic(case, server, reasoning_effort="medium")).tool_calls == 2
    last = server.posts("/messages")[-1]
    assert last["messages"][1]["content"][0] == dialect.thinking, "nothing else was left out"
    assert last["messages"][-1]["content"][-1]["cache_control"]


def test_thinking_comes_back_after_the_end_of_a_worker(case: Path) -> None:
    answer = worker_ends_after(1, Anthropic(case))
    with wire_server(answer) as server:
        anthropic(case, server, reasoning_effort="low")
        take_up(case)
        answer.back = True
        use = used(anthropic(case, server, reasoning_effort="low"))
    assert (use.rounds, use.tool_calls) == (3, 2)


class Overloaded(Anthropic):
    """529 at first, then an overload within a stream."""

    tries = 0

    def refused(self, body: dict[str, Any]) -> Response | None:
        self.tries += 1
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        if self.tries == 1:
            return refusal(529, error, retry_after="0")
        return named(error) if self.tries == 2 else super().refused(body)


class Pauses(Anthropic):
    """A long answer in two parts."""

    def stream(self, blocks: list[dict[str, Any]], reason: str) -> Response:
        if blocks[0].get("text") != ENOUGH:
            return super().stream(blocks, reason)
        return super().stream([{"type": "text", "text": "That is "}], "pause_turn")

    def __call__(self, asked: Asked) -> Response:
        messages = asked.body["messages"]
        if messages[-1]["role"] == "assistant":
            assert messages[-1]["content"] == [{"type": "text", "text": "That is "}]
            return super().stream([{"type": "text", "text": "enough."}], "end_turn")
        return super().__call__(asked)


@pytest.mark.parametrize("dialect", [Overloaded, Pauses])
def test_what_ends_otherwise_goes_on(case: Path, dialect: Callable[[Path], Any]) -> None:
    with wire_server(dialect(case)) as server:
        assert used(anthropic(case, server)).rounds == 3
    if dialect is Pauses:
        last = server.posts("/messages")[-1]["messages"][-2]
        assert last["content"] == [{"type": "text", "text": ENOUGH}]


@pytest.mark.parametrize(
    ("reason", "ended"),
    [
        ("refusal", "the model refused"),
        ("max_tokens", "model output limit of 4000 tokens reached"),
        ("model_context_window_exceeded", "model output limit of 4000 tokens reached"),
    ],
)
def test_a_report_that_does_not_come_is_explained(case: Path, reason: str, ended: str) -> None:
    class Ends(Anthropic):
        def stream(self, blocks: list[dict[str, Any]], _: str) -> Response:
            whole = blocks[0].get("text") != json.dumps(self.report)
            return super().stream(blocks, _) if whole else super().stream([], reason)

    with wire_server(Ends(case)) as server:
        done = anthropic(case, server)
    assert done.report.written_by == "built-in"
    assert done.report.model_use is not None
    assert ended in done.report.model_use.ended


def test_a_key_that_anthropic_does_not_take_is_one_line(case: Path) -> None:
    error = {"type": "authentication_error", "message": "invalid x-api-key"}
    with wire_server(lambda _: refusal(401, {"type": "error", "error": error})) as server:
        done = anthropic(case, server)
    assert done.report.model_use is not None
    assert (
        done.report.model_use.ended == "anthropic answer: the server refused the request (HTTP 401)"
    )
