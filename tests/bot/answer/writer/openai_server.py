"""A local server that speaks the OpenAI Responses and chat-completions shapes with scripted
answers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Answer = Callable[[dict[str, Any]], Response]


@dataclass
class OpenAIServer:
    """`script` answers the requests one after the other, its last entry all that follow. `requests`
    are the bodies."""

    script: list[Answer]
    models: list[str] = field(default_factory=lambda: ["local-model"])
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        answer = self.script[min(len(self.requests), len(self.script)) - 1]
        return await run_in_threadpool(answer, body)

    async def listed(self, request: Request) -> Response:
        """The models, as vLLM lists them; a single one has no address there."""
        return JSONResponse(
            {"object": "list", "data": [{"id": m, "object": "model"} for m in self.models]}
        )

    @property
    def sent(self) -> str:
        """All that was sent to the server, as text."""
        return json.dumps(self.requests, ensure_ascii=False)


@contextmanager
def serving(*script: Answer) -> Iterator[OpenAIServer]:
    server = OpenAIServer(list(script))
    routes = [
        Route(p, server.answer, methods=["POST"]) for p in ("/v1/responses", "/v1/chat/completions")
    ]
    routes.append(Route("/v1/models", server.listed))
    config = uvicorn.Config(
        Starlette(routes=routes), host="127.0.0.1", port=0, log_level="error", lifespan="off"
    )
    process = uvicorn.Server(config)
    thread = threading.Thread(target=process.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not process.started:
        assert time.monotonic() < deadline, "the local server did not start"
        time.sleep(0.005)
    port = process.servers[0].sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}/v1"
    try:
        yield server
    finally:
        process.should_exit = True
        thread.join(timeout=10)


def says(draft: dict[str, Any]) -> Answer:
    """The model answers with this report."""
    return says_text(json.dumps(draft))


def says_text(text: str, *, cut: bool = False) -> Answer:
    """The model answers with this text; `cut` when it ran out of tokens."""

    def answer(body: dict[str, Any]) -> Response:
        if "messages" in body:
            message = {"role": "assistant", "content": text, "refusal": None}
            return _completion(body, message, "length" if cut else "stop")
        return _response(
            body, [_message([{"type": "output_text", "text": text, "annotations": []}])], cut=cut
        )

    return answer


def calls(*wanted: tuple[str, Any], text: str = "") -> Answer:
    """The model calls tools: names and arguments, as JSON values or as the text that a careless
    model writes."""
    given = [
        (name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for name, arguments in wanted
    ]

    def answer(body: dict[str, Any]) -> Response:
        if "messages" in body:
            tool_calls = [
                {
                    "id": f"call_{n}",
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
                for n, (name, arguments) in enumerate(given)
            ]
            return _completion(
                body, {"role": "assistant", "content": text, "tool_calls": tool_calls}, "tool_calls"
            )
        said = (
            [_message([{"type": "output_text", "text": text, "annotations": []}])] if text else []
        )
        items = [
            {
                "type": "function_call",
                "id": f"fc_{n}",
                "call_id": f"call_{n}",
                "name": name,
                "arguments": arguments,
            }
            for n, (name, arguments) in enumerate(given)
        ]
        return _response(body, [*said, *items])

    return answer


def breaks_off(then: Answer, after: int) -> Answer:
    """The connection is lost after this many bytes of the stream."""

    def answer(body: dict[str, Any]) -> Response:
        whole = bytes(then({**body, "stream": True}).body)

        async def pieces() -> AsyncIterator[bytes]:
            yield whole[:after]
            raise ConnectionResetError

        return StreamingResponse(pieces(), media_type="text/event-stream")

    return answer


def falls_silent(then: Answer, after: int, seconds: float) -> Answer:
    """The stream stalls after this many bytes."""

    def answer(body: dict[str, Any]) -> Response:
        whole = bytes(then({**body, "stream": True}).body)

        async def pieces() -> AsyncIterator[bytes]:
            yield whole[:after]
            await asyncio.sleep(seconds)
            yield whole[after:]

        return StreamingResponse(pieces(), media_type="text/event-stream")

    return answer


def never_streams(then: Answer) -> Answer:
    """Answers in one piece although a stream was asked for, as some proxies do."""
    return lambda body: then({**body, "stream": False})


def counts_nothing(then: Answer) -> Answer:
    """A server that gives no token counts."""

    def answer(body: dict[str, Any]) -> Response:
        return then({**body, "no_usage": True})

    return answer


def lacks(word: str, then: Answer, *, status: int = 400) -> Answer:
    """Refuses a request that holds this top-level parameter, and names it."""

    def answer(body: dict[str, Any]) -> Response:
        return (
            fails(status, f"{word} is not supported by this server")(body)
            if body.get(word)
            else then(body)
        )

    return answer


def refuses(body: dict[str, Any]) -> Response:
    """The model declines."""
    if "messages" in body:
        return _completion(
            body,
            {"role": "assistant", "content": None, "refusal": "I cannot help with that."},
            "stop",
        )
    return _response(body, [_message([{"type": "refusal", "refusal": "I cannot help with that."}])])


def runs_out(body: dict[str, Any]) -> Response:
    """The model used all its tokens before it said anything."""
    if "messages" in body:
        return _completion(body, {"role": "assistant", "content": "", "refusal": None}, "length")
    return _response(body, [], cut=True)


def fails(status: int, message: str = "failed", *, retry_after: str | None = None) -> Answer:
    """The server answers an error; the client may retry at once, or after this many seconds."""
    body = {"error": {"message": message, "type": "server_error", "param": None, "code": None}}
    headers = {"retry-after-ms": "1"} if retry_after is None else {"retry-after": retry_after}
    return lambda _: JSONResponse(body, status_code=status, headers=headers)


def sleeps(seconds: float) -> Answer:
    """The server is slow."""

    def answer(_: dict[str, Any]) -> Response:
        time.sleep(seconds)
        return JSONResponse({})

    return answer


def answers_raw(content: str) -> Answer:
    """The server answers 200 with something that is not of the API."""
    return lambda _: Response(content, media_type="application/json")


def takes_no_schema(then: Answer) -> Answer:
    """Refuses `json_schema` as some self-hosted servers do; plain JSON is answered."""

    def answer(body: dict[str, Any]) -> Response:
        if body.get("response_format", {}).get("type") == "json_schema":
            return fails(400, "response_format json_schema is not supported")(body)
        return then(body)

    return answer


_CUT = {"reason": "max_output_tokens"}


USAGE = {"input": 900, "cached": 600, "output": 80}
"""Of each answer."""


def _message(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def _response(body: dict[str, Any], output: list[dict[str, Any]], *, cut: bool = False) -> Response:
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1750000000,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": _CUT if cut else None,
        "instructions": None,
        "metadata": {},
        "model": "local-model",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None
        if body.get("no_usage")
        else {
            "input_tokens": USAGE["input"],
            "input_tokens_details": {"cached_tokens": USAGE["cached"], "cache_write_tokens": 0},
            "output_tokens": USAGE["output"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": USAGE["input"] + USAGE["output"],
        },
    }
    if not body.get("stream"):
        return JSONResponse(whole)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "output": [], "usage": None}}
    ]
    for index, item in enumerate(output):
        for part in item.get("content", ()):
            events += [
                {
                    "type": "response.output_text.delta",
                    "item_id": "msg_1",
                    "output_index": index,
                    "delta": piece,
                }
                for piece in _pieces(part.get("text", ""))
            ]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    numbered = ({**event, "sequence_number": n} for n, event in enumerate(events))
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered)
    return Response("".join(lines), media_type="text/event-stream")


def _completion(body: dict[str, Any], message: dict[str, Any], finish: str) -> Response:
    head = {"id": "chatcmpl-1", "created": 1750000000, "model": "local-model"}
    usage = {
        "prompt_tokens": USAGE["input"],
        "completion_tokens": USAGE["output"],
        "total_tokens": USAGE["input"] + USAGE["output"],
        "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
    }
    usage_given = {} if body.get("no_usage") else {"usage": usage}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        return JSONResponse(
            {**head, "object": "chat.completion", "choices": [choice], **usage_given}
        )
    deltas: list[dict[str, Any]] = [
        {"content": piece} for piece in _pieces(message.get("content") or "")
    ]
    deltas += [{"refusal": message["refusal"]}] if message.get("refusal") else []
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        first = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        deltas.append({"tool_calls": [first]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in _pieces(function["arguments"])
        ]
    chunks = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if body.get("stream_options", {}).get("include_usage"):
        chunks.append({"choices": [], **usage_given})
    lines = (
        f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', **chunk})}\n\n"
        for chunk in chunks
    )
    return Response("".join(lines) + "data: [DONE]\n\n", media_type="text/event-stream")


def _pieces(text: str) -> list[str]:
    return [text[i : i + 40] for i in range(0, len(text), 40)]
