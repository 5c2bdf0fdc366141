"""The client: one turn in, one answer out, over the Responses API or chat completions, streamed
where that works.

A passing failure is tried again when the server says, what a server does not take is left out and
remembered, a stream that falls silent or breaks off ends with what it brought. Errors are explained
without the server's text, which may quote what was sent.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

import openai
from openai import AsyncOpenAI, AsyncStream

from analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from bot.investigation.model.abilities import Abilities, known_abilities, remember, to_leave_out
from bot.investigation.model.chat_api import ChatReading, chat_request
from bot.investigation.model.responses_api import ResponsesReading, responses_request
from bot.investigation.model.turns import ModelAnswer, Turn
from bot.runtime.model_watch import watched_round
from bot.settings.model import ModelSettings

HOSTED = "https://api.openai.com/v1"
MAX_RETRIES = 2
"""Of one request, for 408, 409, 429, 5xx and lost connections."""
RETRIED = frozenset({408, 409, 429})
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0
"""Between tries, where the server does not say how long: doubled each time, with jitter."""
MAX_LEFT_OUT = 5
"""How often a request is sent again with less in it."""
SMALL_ANSWER_TOKENS = 1000
"""Asked for where the limit of an answer does not fit into the server's context beside the
prompt."""
TOO_LONG = (
    "context length",
    "context_length",
    "context size",
    "context window",
    "maximum context",
    "too many tokens",
)
NO_RETRY_AFTER_S = 3600.0


class ModelClient:
    """Speaks to the model that the settings name. Use as `async with ModelClient(settings) as
    client`."""

    def __init__(self, settings: ModelSettings) -> None:
        if settings.api_key is None and settings.base_url is None:
            raise ConnectorError("openai", "sign in", "model.api_key is not set")
        self._settings = settings
        self._api = settings.api or ("chat" if settings.base_url else "responses")
        self._calls = 0
        self._openai = AsyncOpenAI(
            api_key=settings.api_key.get_secret_value() if settings.api_key else "unused",
            base_url=settings.base_url or HOSTED,
            timeout=settings.timeout_s,
            max_retries=0,
        )

    async def __aenter__(self) -> ModelClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._openai.close()

    @property
    def abilities(self) -> Abilities:
        """What is known of the endpoint."""
        return known_abilities(self._settings)

    async def answer(self, turn: Turn, *, within_s: float) -> ModelAnswer:
        """The model's answer, whole or cut. Raises ConnectorError or BudgetExceeded when nothing
        usable came."""
        with watched_round() as round_:
            partial = ModelAnswer()
            try:
                async with asyncio.timeout(within_s):
                    ends = asyncio.get_running_loop().time() + within_s
                    answer = await self._with_abilities(turn, partial, ends)
            except TimeoutError:
                if partial.empty:
                    raise BudgetExceeded("model time", f"{within_s:.3g} s") from None
                partial.ending, answer = "lost", partial
            round_.ending = answer.ending
            return answer

    def disbelieve_schema(self) -> None:
        """The server accepted a schema and ignored it: from now on the schema is also given in
        words."""
        able = self.abilities
        if able.schema == "schema":
            remember(self._settings, able.without("schema"))

    async def has_model(self) -> bool | None:
        """Whether the endpoint lists the model; None where it does not say. Raises
        ConnectorError."""
        name = self._settings.name or ""
        try:
            await self._openai.models.retrieve(name)
        except (openai.NotFoundError, openai.APIResponseValidationError):
            return await self._listed(name)
        except openai.APIStatusError as error:
            if error.status_code == 405:
                return await self._listed(name)
            raise self._explained(error) from error
        except openai.OpenAIError as error:
            raise self._explained(error) from error
        return True

    async def _listed(self, name: str) -> bool | None:
        """vLLM and llama.cpp have no address for a single model."""
        try:
            page = await self._openai.models.list()
            names = {model.id for model in page.data[:10_000]}
        except (openai.OpenAIError, AttributeError, TypeError):
            return None
        return name in names or f"{name}:latest" in names if names else None

    async def _with_abilities(self, turn: Turn, partial: ModelAnswer, ends: float) -> ModelAnswer:
        able, shorter = self.abilities, False
        for _ in range(MAX_LEFT_OUT + 1):
            try:
                answer = await self._with_retries(turn, able, partial, ends)
            except openai.APIStatusError as error:
                said = _words_of(error)
                if any(words in said for words in TOO_LONG):
                    if shorter or turn.max_output_tokens <= SMALL_ANSWER_TOKENS:
                        raise BudgetExceeded("model context", "the server's context") from error
                    turn, shorter = replace(turn, max_output_tokens=SMALL_ANSWER_TOKENS), True
                    continue
                given_up = to_leave_out(turn, able, error.status_code, said)
                if given_up is None:
                    raise self._explained(error) from error
                able = able.without(given_up)
            except openai.OpenAIError as error:
                raise self._explained(error) from error
            else:
                if answer.empty and able.streaming and answer.ending == "lost":
                    able = able.without("streaming")
                    continue
                if answer.ending != "lost":
                    remember(self._settings, replace(able, usage=answer.usage is not None))
                self._calls += len(answer.calls)
                return answer
        raise ConnectorError("openai", self._api, "the server rejected every form of the request")

    async def _with_retries(
        self, turn: Turn, able: Abilities, partial: ModelAnswer, ends: float
    ) -> ModelAnswer:
        for attempt in range(MAX_RETRIES + 1):
            try:
                return await self._once(turn, able, partial)
            except openai.APIError as error:
                if not partial.empty:
                    return partial
                wait = _wait_before(error, attempt)
                if wait is None or asyncio.get_running_loop().time() + wait >= ends:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError

    async def _once(self, turn: Turn, able: Abilities, partial: ModelAnswer) -> ModelAnswer:
        partial.text, partial.calls, partial.usage, partial.ending = "", [], None, "stop"
        reading: ChatReading | ResponsesReading
        if self._api == "chat":
            request, reading = chat_request(turn, able), ChatReading(partial, self._calls)
            given: Any = await self._openai.chat.completions.create(
                model=self._settings.name or "", **request
            )
        else:
            request, reading = responses_request(turn, able), ResponsesReading(partial, self._calls)
            given = await self._openai.responses.create(model=self._settings.name or "", **request)
        broken: Exception | None = None
        try:
            await self._read(given, reading, partial)
        except (ValueError, RecursionError) as error:
            broken = error
        finally:
            reading.finish(streamed=isinstance(given, AsyncStream))
        if broken is not None and partial.empty:
            raise ConnectorError(
                "openai", self._api, "the response is not from this API"
            ) from broken
        return partial

    @staticmethod
    async def _read(
        given: Any, reading: ChatReading | ResponsesReading, partial: ModelAnswer
    ) -> None:
        if not isinstance(given, AsyncStream):
            reading.read(_plain(given))
            return
        async with given:
            async for event in given:
                reading.read(_plain(event))
                if partial.full:
                    return

    def _explained(self, error: openai.OpenAIError) -> FaultlineError:
        if isinstance(error, openai.APITimeoutError):
            return BudgetExceeded("model time", f"{self._settings.timeout_s:g} s")
        if isinstance(error, openai.APIStatusError):
            passing = error.status_code in RETRIED or error.status_code >= 500
            problem = "the server refused the request"
            return ConnectorError(
                "openai", "answer", problem, status=error.status_code, retryable=passing
            )
        if isinstance(error, openai.APIConnectionError):
            return ConnectorError(
                "openai", "connect", "the server cannot be reached", retryable=True
            )
        return ConnectorError("openai", "answer", f"not understood ({type(error).__name__})")


def _plain(event: Any) -> Mapping[str, Any]:
    """An event as plain JSON values, whatever the server sent."""
    if isinstance(event, openai.BaseModel):
        return event.to_dict(mode="python", warnings=False)
    return event if isinstance(event, Mapping) else {}


def _words_of(error: openai.APIStatusError) -> str:
    """What the server said, for finding out what it refuses; it is shown nowhere."""
    try:
        body = error.body if isinstance(error.body, str) else json.dumps(error.body)
    except (TypeError, ValueError):
        body = ""
    return f"{error.message[:2000]} {body[:4000]}".lower()


def _wait_before(error: openai.APIError, attempt: int) -> float | None:
    """Seconds to wait before the next try; None when there is to be none."""
    if attempt >= MAX_RETRIES or isinstance(error, openai.APITimeoutError):
        return None  # a server that was silent for so long already has the request
    if isinstance(error, openai.APIStatusError):
        if error.status_code not in RETRIED and error.status_code < 500:
            return None
        asked = _retry_after(error.response.headers)
        if asked is not None:
            return asked
    doubled = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**attempt)
    return doubled * random.uniform(0.75, 1.0)  # noqa: S311  jitter, not a secret


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """`retry-after-ms`, or `retry-after` in seconds. RFC 9110 also has a date; no provider of
    models sends one."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds <= NO_RETRY_AFTER_S:
            return seconds
    return None
