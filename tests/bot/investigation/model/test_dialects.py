"""Whole investigations through the real client, against servers that answer as the providers
document it, and refuse as they do where something is missing.

Sources of the wire forms:
- OpenAI: https://developers.openai.com/api/reference/resources/chat and .../resources/responses,
  https://developers.openai.com/api/docs/guides/reasoning (encrypted reasoning).
- Azure: https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle (v1, tokens),
  .../openai/concepts/content-filter (the filter's results).
- vLLM: https://docs.vllm.ai/en/stable/features/reasoning_outputs/ and .../features/tool_calling/.
- Ollama: https://docs.ollama.com/api/openai-compatibility.
- llama.cpp: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md and pull
  request 15780 (the error of a context that is too small).
- Gemini: https://ai.google.dev/gemini-api/docs/thought-signatures (with the OpenAI form), recorded
  streams and refusals in https://github.com/open-webui/computer/issues/224 and
  https://github.com/manthanabc/paws/issues/103.
- DeepSeek: https://api-docs.deepseek.com/guides/thinking_mode, refusals in
  https://github.com/anomalyco/opencode/issues/24083 and https://github.com/llm-exe/llm-exe/issues/662.
- OpenRouter: https://openrouter.ai/docs/use-cases/reasoning-tokens#preserving-reasoning-blocks.
- Bedrock: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html.
- Anthropic: https://platform.claude.com/docs/en/build-with-claude/streaming and
  .../extended-thinking, refusals in
  https://github.com/deepset-ai/haystack-core-integrations/issues/2146.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from analysis.vocabulary import ModelUse
from bot.investigation.model.investigating import Investigated, investigate
from bot.settings import Settings
from tests.bot.investigation.model.cases import good_report, keeper
from tests.bot.investigation.model.wire import (
    Asked,
    WireServer,
    chunks,
    named,
    refusal,
    wire_server,
)

SERIES = ("series", '{"service": "cart", "signal": null}')
TOPOLOGY = ("topology", '{"service": "checkout"}')
ENOUGH = "That is enough."
SIGNATURE = "EjQKMgEMOdbHJChLX75QUCJjyYlm"
THOUGHT = "The payments deploy came first. Compare cart."


def run(case: Path, server: WireServer, path: str, **model: Any) -> Investigated:
    base = {"name": "the-model", "base_url": f"{server.origin}{path}", "api_key": "key"}
    settings = Settings.model_validate({"model": {**base, "timeout_s": 20, **model}})
    return asyncio.run(investigate(case, settings, keep=keeper(case)))


def used(done: Investigated) -> ModelUse:
    """What it took; fails where the report is not the model's."""
    assert done.report.model_use is not None
    assert done.report.written_by == "the-model", (done.report.dropped, done.report.model_use)
    return done.report.model_use


class ChatDialect:
    """What providers of chat completions have in common: two calls, a stop, a report."""

    finish_of_calls = "tool_calls"
    indexed = True

    def __init__(self, case: Path) -> None:
        self.report = json.dumps(good_report(case))

    def __call__(self, asked: Asked) -> Response:
        if asked.method == "GET":
            return self.models(asked)
        assert asked.path.endswith("/chat/completions")
        refused = self.refused(asked)
        if refused is not None:
            return refused
        answers = [m for m in asked.body["messages"] if m["role"] == "assistant"]
        in_words = "JSON schema" in str(asked.body["messages"][-1]["content"])
        if asked.body.get("response_format") or in_words:
            return self.stream(self.said(self.report), "stop")
        if not answers:
            return self.stream(self.called(SERIES, TOPOLOGY), self.finish_of_calls)
        return self.stream(self.said(ENOUGH), "stop")

    def models(self, asked: Asked) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "the-model", "object": "model"}]})

    def refused(self, asked: Asked) -> Response | None:
        return None

    def said(self, text: str) -> list[dict[str, Any]]:
        half = len(text) // 2
        return [{"role": "assistant", "content": text[:half]}, {"content": text[half:]}]

    def called(self, *calls: tuple[str, str]) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        for n, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": ""}
            head = {"index": n, "id": f"call_{n}", "type": "function", "function": function}
            deltas.append({"tool_calls": [head]})
            pieces = (arguments[:9], arguments[9:])
            deltas += [
                {"tool_calls": [{"index": n, "function": {"arguments": piece}}]} for piece in pieces
            ]
        return deltas

    def usage(self) -> dict[str, Any]:
        return {"prompt_tokens": 900, "completion_tokens": 80, "total_tokens": 980}

    def stream(self, deltas: list[dict[str, Any]], finish: str) -> Response:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        events = [
            {**head, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas
        ]
        last = {"index": 0, "delta": {}, "finish_reason": finish}
        events.append({**head, "choices": [last]})
        events.append({**head, "choices": [], "usage": self.usage()})
        return chunks(*events)


class OpenAIChat(ChatDialect):
    def refused(self, asked: Asked) -> Response | None:
        if "max_tokens" in asked.body:
            message = (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead."
            )
            return refusal(400, {"error": {"message": message, "code": "unsupported_parameter"}})
        for message in asked.body["messages"]:
            unknown = set(message) - {"role", "content", "tool_calls", "tool_call_id", "refusal"}
            assert not unknown, "the API takes no other fields"
        return None

    def said(self, text: str) -> list[dict[str, Any]]:
        return [
            {"role": "assistant", "content": "", "refusal": None, "annotations": []},
            {"content": text},
        ]


class Azure(OpenAIChat):
    def stream(self, deltas: list[dict[str, Any]], finish: str) -> Response:
        filtered = {"hate": {"filtered": False, "severity": "safe"}}
        prompt = [{"prompt_index": 0, "content_filter_results": filtered}]
        first = {"id": "", "object": "", "created": 0, "model": "", "choices": []}
        events = [{**first, "prompt_filter_results": prompt}]
        for delta in deltas:
            choice = {"index": 0, "delta": delta, "content_filter_results": filtered}
            events.append({**first, "choices": [{**choice, "finish_reason": None}]})
        events.append({**first, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        return chunks(*events, {**first, "choices": [], "usage": self.usage()})


class Vllm(ChatDialect):
    """`--reasoning-parser`: thoughts come as `reasoning`, and the template takes them back."""

    thoughts = "reasoning"

    def called(self, *calls: tuple[str, str]) -> list[dict[str, Any]]:
        thinking = [{self.thoughts: THOUGHT[:10]}, {self.thoughts: THOUGHT[10:]}]
        return [*thinking, *super().called(*calls)]

    def refused(self, asked: Asked) -> Response | None:
        for message in asked.body["messages"]:
            if message.get("tool_calls"):
                assert message[self.thoughts] == THOUGHT
                assert message["content"] is None
        return None

    def models(self, asked: Asked) -> Response:
        if asked.path.endswith("/the-model"):
            return refusal(404, {"detail": "Not Found"})
        model = {"id": "the-model", "object": "model", "max_model_len": 40_960}
        return JSONResponse({"object": "list", "data": [model]})


class Ollama(Vllm):
    """All calls in one delta, each with the index 0."""

    def called(self, *calls: tuple[str, str]) -> list[dict[str, Any]]:
        given = [
            {
                "id": f"call_{name}",
                "index": 0,
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for name, arguments in calls
        ]
        return [{"role": "assistant", "content": "", "reasoning": THOUGHT}, {"tool_calls": given}]


class LlamaCpp(Vllm):
    """`--jinja`: thoughts as `reasoning_content`; counts beside `timings`."""

    thoughts = "reasoning_content"

    def usage(self) -> dict[str, Any]:
        return super().usage() | {"prompt_tokens_details": {"cached_tokens": 512}}


class InnerThoughts(ChatDialect):
    """A server without a parser of thoughts: they are in the text."""

    opens, closes = "<think>", "</think>"

    def said(self, text: str) -> list[dict[str, Any]]:
        thought = f'{self.opens}I could say {{"headline": "wrong"}}.{self.closes}'
        return [{"role": "assistant", "content": thought + "\n\n"}, {"content": text}]


class OpenedInThePrompt(InnerThoughts):
    opens = ""


class Bedrock(InnerThoughts):
    opens, closes = "<reasoning>", "</reasoning>"

    def refused(self, asked: Asked) -> Response | None:
        assert asked.path == "/openai/v1/chat/completions"
        assert asked.headers["authorization"] == "Bearer bedrock-api-key-abc"
        return None


class Gemini(ChatDialect):
    """No index, whole calls, `stop` as the end of calls, a signature at the first call alone."""

    finish_of_calls = "stop"
    signature = SIGNATURE

    def called(self, *calls: tuple[str, str]) -> list[dict[str, Any]]:
        given = [
            {
                "id": f"function-call-{n}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for n, (name, arguments) in enumerate(calls)
        ]
        given[0]["extra_content"] = {"google": {"thought_signature": SIGNATURE}}
        return [{"role": "assistant", "tool_calls": [call]} for call in given]

    def refused(self, asked: Asked) -> Response | None:
        assert asked.path == "/v1beta/openai/chat/completions"
        for n, message in enumerate(asked.body["messages"]):
            for call in message.get("tool_calls", [])[:1]:
                given = call.get("extra_content", {}).get("google", {}).get("thought_signature")
                if given != self.signature:
                    said = (
                        "Function call is missing a thought_signature in functionCall parts. This "
                        "is required for tools to work correctly, and missing thought_signature "
                        "may lead to degraded model performance. Additional data, function call "
                        f"`default_api:{call['function']['name']}` , position {n}."
                    )
                    error = {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}
                    return refusal(400, [{"error": error}])
        return None


class DeepSeek(ChatDialect):
    """Thinking mode; no JSON schema."""

    thought = THOUGHT

    def called(self, *calls: tuple[str, str]) -> list[dict[str, Any]]:
        first = {"role": "assistant", "content": None, "reasoning_content": ""}
        return [first, {"reasoning_content": self.thought}, *super().called(*calls)[1:]]

    def refused(self, asked: Asked) -> Response | None:
        said = None
        form = asked.body.get("response_format", {}).get("type")
        if form == "json_schema":
            said = "This response_format type is unavailable now"
        elif form == "json_object" and "json" not in json.dumps(asked.body["messages"]).lower():
            said = "Prompt must contain the word 'json' in some form to use 'response_format'."
        for message in asked.body["messages"]:
            if message.get("tool_calls") and message.get("reasoning_content") != self.thought:
                said = (
                    "The `reasoning_content` in the thinking mode must be passed back to the API."
                )
        if said is None:
            return None
        code = "invalid_request_error"
        return refusal(400, {"error": {"message": said, "type": code, "param": None, "code": code}})

    def usage(self) -> dict[str, Any]:
        hit = {"prompt_cache_hit_tokens": 640, "prompt_cache_miss_tokens": 260}
        return super().usage() | hit


class DeepSeekWithoutThought(DeepSeek):
    thought = ""


class OpenRouter(ChatDialect):
    """Parts of `reasoning_details` come in pieces and go back whole."""

    def called(self, *calls: tuple[str, str]) -> list[dict[str, Any]]:
        part = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
        pieces = [{**part, "text": THOUGHT[:7]}, {**part, "text": THOUGHT[7:]}]
        signed = {**part, "text": "", "signature": SIGNATURE}
        thinking = [{"reasoning_details": [p], "reasoning": p["text"]} for p in (*pieces, signed)]
        return [*thinking, *super().called(*calls)]

    def refused(self, asked: Asked) -> Response | None:
        for message in asked.body["messages"]:
            if message.get("tool_calls"):
                assert message["reasoning_details"] == [
                    {
                        "type": "reasoning.text",
                        "format": "anthropic-claude-v1",
                        "index": 0,
                        "text": THOUGHT,
                        "signature": SIGNATURE,
                    }
                ]
        return None


@pytest.mark.parametrize(
    ("dialect", "path", "settings"),
    [
        (OpenAIChat, "/v1", {"api": "chat"}),
        (Azure, "/openai/v1", {}),
        (Vllm, "/v1", {}),
        (Ollama, "/v1", {}),
        (LlamaCpp, "/v1", {}),
        (InnerThoughts, "/v1", {}),
        (OpenedInThePrompt, "/v1", {}),
        (Bedrock, "/openai/v1", {"api_key": "bedrock-api-key-abc"}),
        (Gemini, "/v1beta/openai", {"reasoning_effort": "low"}),
        (DeepSeek, "", {}),
        (DeepSeekWithoutThought, "", {}),
        (OpenRouter, "/api/v1", {}),
    ],
)
def test_an_investigation_over_chat_completions(
    case: Path, dialect: Callable[[Path], Any], path: str, settings: dict[str, Any]
) -> None:
    with wire_server(dialect(case)) as server:
        done = run(case, server, path, **settings)
    use = used(done)
    assert (use.rounds, use.tool_calls, use.ended) == (3, 2, "answered")
    assert done.report.headline == good_report(case)["headline"]
    assert use.input_tokens == 2700
    last = server.posts("/chat/completions")[-1]
    assert last["tools"], "the server refused nothing that came back"
    assert last.get("reasoning_effort") == settings.get("reasoning_effort")


def worker_ends_after(requests: int, dialect: Callable[[Asked], Response]) -> Any:
    """The server is gone after that many requests, until `back` is set."""

    def answer(asked: Asked) -> Response:
        answer.count += asked.method == "POST"  # type: ignore[attr-defined]
        if answer.count > requests and not answer.back:  # type: ignore[attr-defined]
            return refusal(401, {"error": {"message": "gone"}})
        return dialect(asked)

    answer.count, answer.back = 0, False  # type: ignore[attr-defined]
    return answer


def take_up(case: Path) -> None:
    """The case as a worker left it that ended during a round."""
    transcript = case / "model" / "transcript.jsonl"
    lines = transcript.read_text().splitlines()
    whole = [line for line in lines if json.loads(line)["kind"] != "ended"]
    told = max(n for n, line in enumerate(whole) if json.loads(line)["kind"] == "result")
    transcript.write_text("\n".join(whole[: told + 1]) + "\n")


@pytest.mark.parametrize("dialect", [Gemini, DeepSeek, OpenRouter])
def test_what_must_come_back_survives_the_end_of_a_worker(
    case: Path, dialect: Callable[[Path], Any]
) -> None:
    answer = worker_ends_after(1, dialect(case))
    with wire_server(answer) as server:
        cut = run(case, server, "/v1beta/openai")
        assert cut.report.written_by == "built-in"
        take_up(case)
        answer.back = True
        done = run(case, server, "/v1beta/openai")
    use = used(done)
    assert (use.rounds, use.tool_calls) == (3, 2)
    assert use.input_tokens == 2700, "the first round was paid for once"
    assert server.posts("/chat/completions")[-1]["tools"], "and refused nothing that came back"


def test_what_one_server_sent_is_not_sent_to_another(case: Path) -> None:
    answer = worker_ends_after(1, Gemini(case))
    with wire_server(answer) as server:
        run(case, server, "/v1beta/openai")
        take_up(case)
    with wire_server(OpenAIChat(case)) as other:
        assert used(run(case, other, "/v1")).rounds == 3
    assert SIGNATURE not in json.dumps(other.posts("/chat/completions"))


class Strict(DeepSeek):
    """Sends a field that it does not take back, as Groq does."""

    def refused(self, asked: Asked) -> Response | None:
        for n, message in enumerate(asked.body["messages"]):
            if "reasoning_content" in message:
                said = (
                    f"'messages.{n}' : for 'role:assistant' the following must be satisfied"
                    f"[('messages.{n}' : property 'reasoning_content' is unsupported)]"
                )
                return refusal(400, {"error": {"message": said, "type": "invalid_request_error"}})
        return None


def test_a_server_that_does_not_take_its_own_field_back_is_asked_without_it(case: Path) -> None:
    with wire_server(Strict(case)) as server:
        assert used(run(case, server, "/v1")).tool_calls == 2
    bodies = server.posts("/chat/completions")
    refused = [b for b in bodies if "reasoning_content" in json.dumps(b)]
    assert len(refused) == 1, "it is remembered"


class OfAnotherModel(Gemini):
    """What comes back is of no use to it."""

    signature = "another"


def test_a_server_that_does_not_know_what_comes_back_gets_the_history_in_words(case: Path) -> None:
    with wire_server(OfAnotherModel(case)) as server:
        use = used(run(case, server, "/v1beta/openai"))
    assert use.tool_calls == 2
    last = server.posts("/chat/completions")[-1]
    assert "tools" not in last
    assert {m["role"] for m in last["messages"]} == {"system", "user", "assistant"}


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
def test_other_models_of_anthropic(case: Path, dialect: Callable[[Path], Any]) -> None:
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


class AzureWithEntra(Azure):
    """Microsoft Entra gives tokens that last for less than five more minutes: each request buys
    one."""

    bought = 0

    def __call__(self, asked: Asked) -> Response:
        if asked.path == "/tenant-1/oauth2/v2.0/token":
            assert "client_id=app-1" in asked.body
            assert "client_secret=s3cret" in asked.body
            assert "scope=https%3A%2F%2Fai.azure.com%2F.default" in asked.body
            return self.token()
        if asked.path == "/metadata/identity/oauth2/token":
            assert asked.headers["metadata"] == "true"
            return self.token()
        assert asked.headers["authorization"] == f"Bearer token-{self.bought}"
        return super().__call__(asked)

    def token(self) -> Response:
        self.bought += 1
        given = {"token_type": "Bearer", "expires_in": 60, "access_token": f"token-{self.bought}"}
        return JSONResponse(given)


@pytest.mark.parametrize(
    "secret",
    [
        {
            "azure_tenant_id": "tenant-1",
            "azure_client_id": "app-1",
            "azure_client_secret": "s3cret",
        },
        {},
    ],
)
def test_azure_by_tokens_of_entra_that_are_renewed(case: Path, secret: dict[str, Any]) -> None:
    dialect = AzureWithEntra(case)
    with wire_server(dialect) as server:
        where = {"azure_login_url": server.origin, "azure_identity_url": server.origin}
        use = used(run(case, server, "/openai/v1", cloud="azure", api_key=None, **where, **secret))
    assert use.rounds == 3
    assert dialect.bought >= 3


def test_a_refused_token_is_one_line(case: Path) -> None:
    error = {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret"}
    with wire_server(lambda _: refusal(401, error)) as server:
        where = {"azure_login_url": server.origin, "azure_identity_url": server.origin}
        done = run(case, server, "/openai/v1", cloud="azure", api_key=None, **where)
    assert done.report.model_use is not None
    assert done.report.model_use.ended == (
        "azure token: no token was given: invalid_client, AADSTS7000215 (HTTP 401)"
    )
