"""Whole investigations through the real client, against servers on loopback that answer as the
provider documents it, and refuse as it does where something is missing.

Sources of the wire forms:
- OpenAI: https://developers.openai.com/api/reference/resources/chat.
- Azure: https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle (v1, tokens),
  .../openai/concepts/content-filter (the filter's results).
- vLLM: https://docs.vllm.ai/en/stable/features/reasoning_outputs/ and .../features/tool_calling/.
- Ollama: https://docs.ollama.com/api/openai-compatibility.
- llama.cpp: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md.
- Gemini: https://ai.google.dev/gemini-api/docs/thought-signatures (with the OpenAI form), recorded
  streams and refusals in https://github.com/open-webui/computer/issues/224 and
  https://github.com/manthanabc/paws/issues/103.
- DeepSeek: https://api-docs.deepseek.com/guides/thinking_mode, refusals in
  https://github.com/anomalyco/opencode/issues/24083 and
  https://github.com/llm-exe/llm-exe/issues/662.
- OpenRouter: https://openrouter.ai/docs/use-cases/reasoning-tokens#preserving-reasoning-blocks.
- Bedrock: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from tests.bot.investigation.model.cases import added, good_report
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
    chunks,
    refusal,
    wire_server,
)


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
    assert added(done.report)[0].asserted, "worded from the model's claim"
    assert use.input_tokens == 2700
    last = server.posts("/chat/completions")[-1]
    assert last["tools"], "the server refused nothing that came back"
    assert last.get("reasoning_effort") == settings.get("reasoning_effort")


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
