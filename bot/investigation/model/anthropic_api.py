"""Anthropic's Messages API over HTTP.

By httpx, which the connectors need anyway: one address with server-sent events is less code than
another vendor's package is weight.
https://platform.claude.com/docs/en/api/errors, .../docs/en/build-with-claude/streaming
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from faultline.bot.investigation.model.abilities import Abilities
from faultline.bot.investigation.model.messages_api import MessagesReading, messages_request
from faultline.bot.investigation.model.model_api import (
    Listed,
    NotOfThisApi,
    ServerFailure,
    address_of,
    retry_after,
)
from faultline.bot.investigation.model.turns import ModelAnswer, Turn, count, mapping
from faultline.bot.settings.investigation import ModelSettings

VERSION = "2023-06-01"
"""https://platform.claude.com/docs/en/api/versioning. The next one, 2026-10-21, changes nothing
that is sent or read here, and older models on Bedrock and other servers do not know it."""
MOST_PAUSES = 3
LONGEST_ERROR = 16_384
LONGEST_WHOLE = 4_000_000
"""Bytes of an answer that is not streamed."""
LONGEST_EVENT = 1_000_000
"""Characters of one line of a stream."""
OVERLOADED = 529


class AnthropicApi:
    """Anthropic, or a server that speaks its API."""

    vendor = "anthropic"

    def __init__(self, settings: ModelSettings) -> None:
        self._name = settings.name or ""
        key = settings.api_key.get_secret_value() if settings.api_key else "unused"
        self._base = address_of(settings)
        self._key = key
        self._bearer = False
        self._client = httpx.AsyncClient(
            headers={"anthropic-version": VERSION}, timeout=settings.timeout_s
        )

    async def once(self, turn: Turn, able: Abilities, answer: ModelAnswer, first_call: int) -> None:
        body = {"model": self._name, **messages_request(turn, able)}
        forced = turn.schema is not None and able.schema == "json"
        reading = MessagesReading(
            answer, first_call, turn.schema[0] if forced and turn.schema else None
        )
        try:
            for _ in range(MOST_PAUSES):
                await self._sent(body, reading, answer)
                paused = reading.paused
                if paused is None:
                    break
                # A paused turn continues when its content is sent back.
                body["messages"] = [*body["messages"], {"role": "assistant", "content": paused}]
        except httpx.TimeoutException as error:
            raise ServerFailure(timed_out=True) from error
        except httpx.HTTPError as error:
            raise ServerFailure from error
        # What came before the unreadable part is used.
        except (ValueError, RecursionError) as error:
            if answer.empty:
                raise NotOfThisApi from error
        finally:
            reading.finish(streamed=able.streaming)
        if reading.failure is not None and answer.empty:
            raise ServerFailure(
                OVERLOADED if reading.failure == "overloaded_error" else 500,
                reading.failure,
                problem="the server broke off",
            )

    async def _sent(
        self, body: Mapping[str, Any], reading: MessagesReading, answer: ModelAnswer
    ) -> None:
        address = f"{self._base}/messages"
        stream = self._client.stream("POST", address, json=body, headers=self._signed())
        async with stream as response:
            if self._signs_otherwise(response):
                return await self._sent(body, reading, answer)
            if response.status_code != 200:
                raise await _refused(response)
            if "text/event-stream" not in response.headers.get("content-type", ""):
                whole = json.loads(await _start_of(response, LONGEST_WHOLE))
                if mapping(whole).get("type") != "message":
                    raise ValueError("not a message")
                reading.read(mapping(whole))
                return None
            async for event in _events(response):
                reading.read(event)
                if answer.full or reading.failure is not None:
                    break
        return None

    def _signed(self) -> dict[str, str]:
        return (
            {"authorization": f"Bearer {self._key}"} if self._bearer else {"x-api-key": self._key}
        )

    def _signs_otherwise(self, response: httpx.Response) -> bool:
        """Whether to ask again with the key as a bearer token. The documentation names `x-api-key`;
        servers that only speak the API want a token, and so does Anthropic's own package (2.12)."""
        if response.status_code != 401 or self._bearer:
            return False
        self._bearer = True
        return True

    async def listed(self, name: str) -> Listed:
        try:
            address = f"{self._base}/models/{name}"
            response = await self._client.get(address, headers=self._signed())
            if self._signs_otherwise(response):
                response = await self._client.get(address, headers=self._signed())
        except httpx.HTTPError as error:
            raise ServerFailure from error
        if response.status_code in (404, 405):
            # A server that only speaks the API has no list; Anthropic says `not_found_error`.
            return Listed(False if b"not_found_error" in response.content else None)
        if response.status_code != 200:
            raise await _refused(response)
        try:
            model = mapping(response.json())
        except ValueError:
            return Listed(None)
        return Listed(True, count(model.get("max_input_tokens")))

    async def close(self) -> None:
        await self._client.aclose()


async def _events(response: httpx.Response) -> AsyncIterator[Mapping[str, Any]]:
    """The stream's events; each has its kind in its data too."""
    async for line in response.aiter_lines():
        if line.startswith("data:") and len(line) <= LONGEST_EVENT:
            yield mapping(json.loads(line.removeprefix("data:")))


async def _start_of(response: httpx.Response, most: int) -> bytes:
    """The body up to a size."""
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) >= most:
            break
    return body[:most]


async def _refused(response: httpx.Response) -> ServerFailure:
    body = response.content if response.is_closed else await _start_of(response, LONGEST_ERROR)
    words = body[:LONGEST_ERROR].decode("utf-8", "replace").lower()
    return ServerFailure(
        response.status_code,
        words,
        retry_after_s=retry_after(response.headers),
        problem="the server refused the request",
    )
