"""A local server that speaks the OpenAI Responses and chat-completions shapes with scripted answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Answer = Callable[[dict[str, Any]], Response]


@dataclass
class OpenAIServer:
    """`script` answers the requests one after the other, its last entry all that follow. `requests` are the bodies."""

    script: list[Answer]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        answer = self.script[min(len(self.requests), len(self.script)) - 1]
        return await run_in_threadpool(answer, body)

    @property
    def sent(self) -> str:
        """All that was sent to the server, as text."""
        return json.dumps(self.requests, ensure_ascii=False)


@contextmanager
def serving(*script: Answer) -> Iterator[OpenAIServer]:
    server = OpenAIServer(list(script))
    routes = [Route(p, server.answer, methods=["POST"]) for p in ("/v1/responses", "/v1/chat/completions")]
    config = uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=0, log_level="error", lifespan="off")
    process = uvicorn.Server(config)
    thread = threading.Thread(target=process.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
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
            return _completion(message, "length" if cut else "stop")
        return _response([{"type": "output_text", "text": text, "annotations": [], "logprobs": []}], cut=cut)

    return answer


def refuses(body: dict[str, Any]) -> Response:
    """The model declines."""
    if "messages" in body:
        return _completion({"role": "assistant", "content": None, "refusal": "I cannot help with that."}, "stop")
    return _response([{"type": "refusal", "refusal": "I cannot help with that."}])


def runs_out(body: dict[str, Any]) -> Response:
    """The model used all its tokens before it said anything."""
    if "messages" in body:
        return _completion({"role": "assistant", "content": "", "refusal": None}, "length")
    return JSONResponse({**_response_body([]), "output": [], "status": "incomplete", "incomplete_details": _CUT})


def fails(status: int, message: str = "failed") -> Answer:
    """The server answers an error; the client may retry at once."""
    body = {"error": {"message": message, "type": "server_error", "param": None, "code": None}}
    return lambda _: JSONResponse(body, status_code=status, headers={"retry-after-ms": "1"})


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


def _response(content: list[dict[str, Any]], *, cut: bool = False) -> Response:
    body = _response_body(content)
    return JSONResponse({**body, "status": "incomplete", "incomplete_details": _CUT} if cut else body)


def _response_body(content: list[dict[str, Any]]) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1750000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "local-model",
        "output": [message],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 900,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 80,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 980,
        },
    }


def _completion(message: dict[str, Any], finish: str) -> Response:
    return JSONResponse(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1750000000,
            "model": "local-model",
            "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
            "usage": {"prompt_tokens": 900, "completion_tokens": 80, "total_tokens": 980},
        }
    )
