"""The client: one turn in, one answer out, over any of the APIs, streamed where that works.

A passing failure is tried again when the server says, what a server does not take is left out and
remembered, a stream that falls silent or breaks off ends with what it brought. Errors are explained
without the server's text, which may quote what was sent.
"""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import replace
from types import TracebackType

from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from faultline.bot.investigation.model.abilities import (
    Abilities,
    api_of,
    remember,
    remembered_abilities,
    to_leave_out,
)
from faultline.bot.investigation.model.model_api import ModelApi, NotOfThisApi, ServerFailure
from faultline.bot.investigation.model.turns import ModelAnswer, Turn, read_as
from faultline.bot.runtime.instrumentation import watched_round
from faultline.bot.settings.investigation import ModelSettings

MAX_RETRIES = 2
"""Of one request, for 408, 409, 429, 5xx and lost connections."""
RETRIED = frozenset({408, 409, 429})
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0
"""Between tries, where the server does not say how long: doubled each time, with jitter."""
MAX_LEFT_OUT = 8
"""How often a request is sent again with less in it."""
SMALL_ANSWER_TOKENS = 1000
"""Asked for where the limit of an answer does not fit into the server's context beside the
prompt."""
TOO_LONG = (
    "context length",
    "context_length",
    "context size",
    "context window",
    "context limit",
    "maximum context",
    "too many tokens",
    "prompt is too long",
    "input is too long",
    "input token count",
    "request_too_large",
)
"""OpenAI and vLLM, llama.cpp, Anthropic, Bedrock and Gemini, each in its own words."""
_CONTEXT = (
    re.compile(r"maximum context length (?:is|of) (\d{3,8})"),
    re.compile(r'"n_ctx": ?(\d{3,8})'),
    re.compile(r"context size \((\d{3,8})"),
    re.compile(r"> (\d{3,8})(?: maximum|,)"),
    re.compile(r"tokens allowed \(?(\d{3,8})"),
    re.compile(r"context window of (\d{3,8})"),
)
"""The size of the context in a server's refusal."""


class ModelClient:
    """Speaks to the model that the settings name. Use as `async with ModelClient(settings) as
    client`."""

    def __init__(self, settings: ModelSettings) -> None:
        anthropic = settings.api == "anthropic"
        vendor = "anthropic" if anthropic else "openai"
        # A self-hosted server may need no key, and a cloud issues tokens.
        keyless = settings.base_url is not None or settings.cloud is not None
        if settings.api_key is None and not keyless:
            raise ConnectorError(vendor, "sign in", "model.api_key is not set")
        self._settings = settings
        self._calls = 0
        self._api: ModelApi
        # Loading the openai package takes longer than most programs that use no model run.
        if anthropic:
            from faultline.bot.investigation.model.anthropic_api import AnthropicApi

            self._api = AnthropicApi(settings)
        else:
            from faultline.bot.investigation.model.openai_api import OpenAIApi

            self._api = OpenAIApi(settings)

    async def __aenter__(self) -> ModelClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._api.close()

    @property
    def abilities(self) -> Abilities:
        """What is known of the endpoint."""
        return remembered_abilities(self._settings)

    @property
    def reader(self) -> str:
        """Who can read what an answer of this endpoint carries (`turns.Carried.of`)."""
        settings = self._settings
        return f"{api_of(settings)} {settings.name or ''} {settings.base_url or ''}".strip()

    @property
    def context(self) -> int | None:
        """Tokens that prompt and answer may have together, as the settings or the server say."""
        return self._settings.context_tokens or self.abilities.context

    async def answer(self, turn: Turn, *, within_s: float) -> ModelAnswer:
        """The model's answer, whole or cut. Raises ConnectorError or BudgetExceeded when nothing
        usable came."""
        turn = replace(turn, effort=self._settings.reasoning_effort)
        with watched_round() as round_:
            partial = ModelAnswer()
            try:
                async with asyncio.timeout(within_s):
                    ends = asyncio.get_running_loop().time() + within_s
                    answer = await self._with_abilities(turn, partial, ends)
            except TimeoutError:
                if partial.empty:
                    raise BudgetExceeded("model time", f"{within_s:.3g} s") from None
                # What came before the time was up counts as an answer that was cut.
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
        """Whether the endpoint lists the model; None where it does not say. Remembers the size of
        its context where that is listed. Raises ConnectorError."""
        try:
            listed = await self._api.listed(self._settings.name or "")
        except ServerFailure as failure:
            raise self._explained(failure) from failure
        if listed.context is not None:
            remember(self._settings, replace(self.abilities, context=listed.context))
        return listed.is_listed

    async def _with_abilities(self, turn: Turn, partial: ModelAnswer, ends: float) -> ModelAnswer:
        able, shorter = self.abilities, False
        for _ in range(MAX_LEFT_OUT + 1):
            try:
                answer = await self._with_retries(turn, able, partial, ends)
            except NotOfThisApi as error:
                problem = "the response is not from this API"
                raise ConnectorError(self._api.vendor, api_of(self._settings), problem) from error
            except ServerFailure as failure:
                if any(words in failure.words for words in TOO_LONG):
                    self._learn_context(failure.words)
                    if shorter or turn.max_output_tokens <= SMALL_ANSWER_TOKENS:
                        context = self.context
                        size = f"{context:,} tokens" if context else "the server"
                        raise BudgetExceeded("model context", size) from failure
                    turn, shorter = replace(turn, max_output_tokens=SMALL_ANSWER_TOKENS), True
                    continue
                leave = to_leave_out(turn, able, failure.status or 0, failure.words)
                if leave is None:
                    raise self._explained(failure) from failure
                able = able.without(leave)
            else:
                # The server may not stream at all, so ask for a whole answer.
                if answer.empty and able.streaming and answer.ending == "lost":
                    able = able.without("streaming")
                    continue
                if answer.ending != "lost":
                    abilities = replace(able, usage=answer.usage is not None)
                    # `able` is from before the request. The context may have been learned since.
                    remember(self._settings, replace(abilities, context=self.abilities.context))
                self._calls += len(answer.calls)
                return answer
        problem = "the server rejected every form of the request"
        raise ConnectorError(self._api.vendor, api_of(self._settings), problem)

    def _learn_context(self, words: str) -> None:
        context_sizes = [int(m[1]) for pattern in _CONTEXT for m in [pattern.search(words)] if m]
        if context_sizes:
            remember(self._settings, replace(self.abilities, context=context_sizes[0]))

    async def _with_retries(
        self, turn: Turn, able: Abilities, partial: ModelAnswer, ends: float
    ) -> ModelAnswer:
        turn = read_as(turn, self.reader if able.carries else None)
        for attempt in range(MAX_RETRIES + 1):
            partial.start_over()
            try:
                await self._api.once(turn, able, partial, self._calls)
            except ServerFailure as failure:
                # What came is paid for, so use it instead of asking again.
                if not partial.empty:
                    return partial
                wait = _wait_before(failure, attempt)
                if wait is None or asyncio.get_running_loop().time() + wait >= ends:
                    raise
                await asyncio.sleep(wait)
            else:
                return partial
        raise AssertionError

    def _explained(self, failure: ServerFailure) -> FaultlineError:
        if failure.timed_out:
            return BudgetExceeded("model time", f"{self._settings.timeout_s:g} s")
        status, vendor = failure.status, self._api.vendor
        if status is not None:
            passing = status in RETRIED or status >= 500
            return ConnectorError(
                vendor, "answer", failure.problem, status=status, retryable=passing
            )
        return ConnectorError(vendor, "connect", failure.problem, retryable=True)


def _wait_before(failure: ServerFailure, attempt: int) -> float | None:
    """Seconds to wait before the next try; None when there is to be none."""
    if attempt >= MAX_RETRIES or failure.timed_out:
        return None  # a server that was silent for so long already has the request
    if failure.status is not None:
        if failure.status not in RETRIED and failure.status < 500:
            return None
        if failure.retry_after_s is not None:
            return failure.retry_after_s
    doubled = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**attempt)
    return doubled * random.uniform(0.75, 1.0)  # noqa: S311  jitter, not a secret
