"""The Responses API and chat completions, through the openai package."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import openai
from openai import AsyncOpenAI, AsyncStream

from faultline.bot.investigation.model.abilities import Abilities, api_of
from faultline.bot.investigation.model.entra import entra_tokens
from faultline.bot.investigation.model.model_api import (
    Listed,
    NotOfThisApi,
    ServerFailure,
    address_of,
    retry_after,
)
from faultline.bot.investigation.model.openai_dialects import (
    ChatReading,
    ResponsesReading,
    openai_request,
)
from faultline.bot.investigation.model.turns import ModelAnswer, Turn, count, mapping
from faultline.bot.settings.investigation import ModelSettings

MOST_LISTED = 10_000
CONTEXT_NAMES = ("max_model_len", "context_length", "context_window", "max_context_length")
"""What vLLM, OpenRouter, Groq and Mistral call the size of a model's context in the list of
models; llama.cpp has `n_ctx` in `meta`."""


class OpenAIApi:
    """One server that speaks one of both APIs."""

    vendor = "openai"

    def __init__(self, settings: ModelSettings) -> None:
        self._chat = api_of(settings) == "chat"
        self._name = settings.name or ""
        # A key, or what the package asks for a token before each request.
        key: str | Callable[[], Awaitable[str]]
        if settings.cloud == "azure":
            key = entra_tokens(settings)
        else:
            key = settings.api_key.get_secret_value() if settings.api_key else "unused"
        self._openai = AsyncOpenAI(
            api_key=key,
            base_url=address_of(settings),
            timeout=settings.timeout_s,
            # `ModelClient` retries by itself, within its budget.
            max_retries=0,
        )
        client = self._openai
        self._create: Callable[..., Awaitable[Any]] = (
            client.chat.completions.create if self._chat else client.responses.create
        )

    async def once(self, turn: Turn, able: Abilities, answer: ModelAnswer, first_call: int) -> None:
        reading = (ChatReading if self._chat else ResponsesReading)(answer, first_call)
        try:
            response: Any = await self._create(model=self._name, **openai_request(turn, able))
            broken: Exception | None = None
            try:
                await _read(response, reading, answer)
            # What came before the unreadable event is used.
            except (ValueError, RecursionError) as error:
                broken = error
            finally:
                reading.finish(streamed=isinstance(response, AsyncStream))
        except openai.OpenAIError as error:
            raise _failure(error) from error
        if broken is not None and answer.empty:
            raise NotOfThisApi from broken

    async def listed(self, name: str) -> Listed:
        try:
            model = await self._openai.models.retrieve(name)
        except (openai.NotFoundError, openai.APIResponseValidationError):
            return await self._in_list(name)
        except openai.OpenAIError as error:
            failure = _failure(error)
            if failure.status == 405:
                return await self._in_list(name)
            raise failure from error
        context = _context_of(_plain(model))
        return (
            Listed(True, context) if context else Listed(True, (await self._in_list(name)).context)
        )

    async def _in_list(self, name: str) -> Listed:
        """vLLM and llama.cpp have no address for a single model."""
        try:
            page = await self._openai.models.list()
            models = {model.id: model for model in page.data[:MOST_LISTED]}
        except (openai.OpenAIError, AttributeError, TypeError):
            return Listed(None)
        # Ollama lists a model without a tag as `name:latest`.
        model = models.get(name) or models.get(f"{name}:latest")
        if model is None:
            return Listed(False if models else None)
        return Listed(True, _context_of(_plain(model)))

    async def close(self) -> None:
        await self._openai.close()


async def _read(
    response: Any, reading: ChatReading | ResponsesReading, answer: ModelAnswer
) -> None:
    if not isinstance(response, AsyncStream):
        reading.read(_plain(response))
        return
    async with response:
        async for event in response:
            reading.read(_plain(event))
            if answer.full:
                return


def _plain(event: Any) -> Mapping[str, Any]:
    """An event as plain JSON values, whatever the server sent."""
    if isinstance(event, openai.BaseModel):
        return event.to_dict(mode="python", warnings=False)
    return event if isinstance(event, Mapping) else {}


def _context_of(model: Mapping[str, Any]) -> int | None:
    sizes = [count(model.get(name)) for name in CONTEXT_NAMES]
    sizes.append(count(mapping(model.get("meta")).get("n_ctx")))
    return next((size for size in sizes if size), None)


def _failure(error: openai.OpenAIError) -> ServerFailure:
    if isinstance(error, openai.APITimeoutError):
        return ServerFailure(timed_out=True)
    if isinstance(error, openai.APIStatusError):
        problem = "the server refused the request"
        return ServerFailure(
            error.status_code,
            _words_of(error),
            retry_after_s=retry_after(error.response.headers),
            problem=problem,
        )
    if isinstance(error, openai.APIConnectionError):
        return ServerFailure()
    # An error within a stream has no status, but says what went wrong.
    words = _words_of(error) if isinstance(error, openai.APIError) else ""
    problem = f"unexpected response ({type(error).__name__})"
    return ServerFailure(words=words, problem=problem)


def _words_of(error: openai.APIError) -> str:
    try:
        body = error.body if isinstance(error.body, str) else json.dumps(error.body)
    except (TypeError, ValueError):
        body = ""
    return f"{error.message[:2000]} {body[:4000]}".lower()
