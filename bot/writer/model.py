"""The model writer: a language model words the diagnosis, the guard takes out what the findings do not support.

The Responses API by default; chat completions for self-hosted servers, with the JSON schema where the server takes
one and plain JSON, checked here, where it does not. Whatever fails, the built-in report is returned and says why.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence

import openai
from openai import AsyncOpenAI, Omit, omit
from openai.types.chat import ChatCompletion
from pydantic import BaseModel, ValidationError

from analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from analysis.vocabulary import Alert, Claim, Diagnosis, Gap, Report
from analysis.wording import plain
from bot.model_settings import ModelSettings
from bot.writer.built_in import word
from bot.writer.guard import keep_supported
from bot.writer.payload import payload
from bot.writer.redaction import Redactor
from prompts import load_prompt

HOSTED = "https://api.openai.com/v1"
MAX_RETRIES = 2
"""Of one request, by the client, for 408, 409, 429, 5xx and lost connections; all within `model.timeout_s`."""
TEXT_LIMIT = 1000
MAX_DRAFTED = 20
"""Sentences of a draft that are looked at."""
_CITATION = re.compile(r"\s*[\[(]F\d{1,5}(?:\s?[,;]\s?F\d{1,5}){0,20}[\])](?=\.?$)")
_THOUGHT = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)


class DraftClaim(BaseModel):
    """A sentence and the ids of the findings it rests on."""

    text: str
    findings: list[str]


class Draft(BaseModel):
    """What the model is asked for."""

    headline: str
    claims: list[DraftClaim]
    next_steps: list[DraftClaim]


class ModelWriter:
    """Words diagnoses through the model that the settings name."""

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings

    async def word(self, diagnosis: Diagnosis, alert: Alert, gaps: Sequence[Gap]) -> Report:
        """The guarded report. Never raises for what the model or its server does: then it is the built-in report."""
        redactor = Redactor()
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                draft = await self._draft(payload(diagnosis, alert, gaps, redactor))
        except TimeoutError:
            return _built_in(diagnosis, alert, gaps, f"gave no answer within {self._settings.timeout_s:g} s")
        except FaultlineError as error:
            return _built_in(diagnosis, alert, gaps, str(error))
        except Exception as error:  # noqa: BLE001  # a server may answer anything; the incident still gets its report
            return _built_in(diagnosis, alert, gaps, f"answered something unexpected ({type(error).__name__})")
        report = Report(
            headline=_line(draft.headline, redactor),
            claims=_claims(draft.claims, redactor),
            next_steps=_claims(draft.next_steps, redactor),
            written_by=self._settings.name or "model",
        )
        return keep_supported(report, diagnosis, alert, gaps=gaps)

    async def _draft(self, data: str) -> Draft:
        settings = self._settings
        if settings.api_key is None and settings.base_url is None:
            raise ConnectorError("openai", "sign in", "model.api_key is not set")
        async with self._client() as client:
            api = settings.api or ("chat" if settings.base_url else "responses")
            try:
                draft = await (self._by_chat(client, data) if api == "chat" else self._by_responses(client, data))
            except openai.OpenAIError as error:
                raise _explained(error, settings) from error
            except ValidationError as error:
                raise ConnectorError("openai", api, "the answer is not the JSON asked for, or was cut off") from error
            if not draft.claims:
                raise ConnectorError("openai", api, "the answer makes no claim")
            return draft

    async def check(self) -> str:
        """Whether the server answers and has the model, in words. Raises ConnectorError."""
        name, where = self._settings.name or "", self._settings.base_url or HOSTED
        async with self._client() as client:
            try:
                await client.models.retrieve(name)
            except openai.OpenAIError as error:
                raise _explained(error, self._settings) from error
        return f"{name} at {where}"

    def _client(self) -> AsyncOpenAI:
        return AsyncOpenAI(
            api_key=self._settings.api_key.get_secret_value() if self._settings.api_key else "unused",
            base_url=self._settings.base_url or HOSTED,
            timeout=self._settings.timeout_s,
            max_retries=MAX_RETRIES,
        )

    async def _by_responses(self, client: AsyncOpenAI, data: str) -> Draft:
        response = await client.responses.parse(
            model=self._settings.name or "",
            instructions=load_prompt("report").text,
            input=data,
            text_format=Draft,
            max_output_tokens=self._settings.max_output_tokens,
            store=False,
        )
        if response.status == "incomplete":
            raise BudgetExceeded("model output", f"{self._settings.max_output_tokens} tokens")
        if response.output_parsed is None:
            refused = any(p.type == "refusal" for o in response.output if o.type == "message" for p in o.content)
            raise ConnectorError("openai", "responses", "the model refused" if refused else "the answer is empty")
        return response.output_parsed

    async def _by_chat(self, client: AsyncOpenAI, data: str) -> Draft:
        try:
            return await self._chat_with_schema(client, data)
        except (openai.BadRequestError, openai.UnprocessableEntityError, ValidationError):
            return await self._chat_with_json(client, data)

    async def _chat_with_schema(self, client: AsyncOpenAI, data: str) -> Draft:
        completion = await client.chat.completions.parse(
            model=self._settings.name or "",
            messages=[
                {"role": "system", "content": load_prompt("report").text},
                {"role": "user", "content": data},
            ],
            response_format=Draft,
            max_tokens=self._limit_for(self_hosted=True),
            max_completion_tokens=self._limit_for(self_hosted=False),
        )
        message = completion.choices[0].message if completion.choices else None
        if message is None or message.parsed is None:
            raise ConnectorError("openai", "chat", _why_empty(message.refusal if message else None))
        return message.parsed

    async def _chat_with_json(self, client: AsyncOpenAI, data: str) -> Draft:
        """For servers that take no schema: the schema goes into the prompt, the answer is checked here."""
        asked = "Answer with one JSON object of this JSON schema and nothing else:\n"
        completion = await client.chat.completions.create(
            model=self._settings.name or "",
            messages=[
                {
                    "role": "system",
                    "content": load_prompt("report").text + asked + json.dumps(Draft.model_json_schema()),
                },
                {"role": "user", "content": data},
            ],
            response_format={"type": "json_object"},
            max_tokens=self._limit_for(self_hosted=True),
            max_completion_tokens=self._limit_for(self_hosted=False),
        )
        return Draft.model_validate_json(_json_of(completion, self._settings.max_output_tokens))

    def _limit_for(self, *, self_hosted: bool) -> int | Omit:
        """Self-hosted servers know the limit by its old name, `max_tokens`, the hosted API by its new one."""
        return self._settings.max_output_tokens if self_hosted == bool(self._settings.base_url) else omit


def _json_of(completion: ChatCompletion, limit: int) -> str:
    choice = completion.choices[0] if completion.choices else None
    if choice is None or not choice.message.content:
        raise ConnectorError("openai", "chat", _why_empty(choice.message.refusal if choice else None))
    if choice.finish_reason == "length":
        raise BudgetExceeded("model output", f"{limit} tokens")
    text = _THOUGHT.sub("", choice.message.content)
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def _why_empty(refusal: str | None) -> str:
    return "the model refused" if refusal else "the answer is empty"


def _explained(error: openai.OpenAIError, settings: ModelSettings) -> FaultlineError:
    """The client's error without the server's text, which may quote what was sent."""
    if isinstance(error, openai.LengthFinishReasonError):
        return BudgetExceeded("model output", f"{settings.max_output_tokens} tokens")
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return ConnectorError("openai", "chat", "the model refused")
    if isinstance(error, openai.APITimeoutError):
        return BudgetExceeded("model time", f"{settings.timeout_s:g} s")
    if isinstance(error, openai.APIStatusError):
        return ConnectorError("openai", "answer", "the server refused the request", status=error.status_code)
    if isinstance(error, openai.APIConnectionError):
        return ConnectorError("openai", "connect", "the server cannot be reached", retryable=True)
    return ConnectorError("openai", "answer", f"not understood ({type(error).__name__})")


def _claims(drafted: Sequence[DraftClaim], redactor: Redactor) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            text=_line(_CITATION.sub("", d.text.strip()), redactor),
            findings=tuple(dict.fromkeys(plain(i, 40).strip("[]() ") for i in d.findings[:MAX_DRAFTED])),
        )
        for d in drafted[:MAX_DRAFTED]
    )


def _line(text: str, redactor: Redactor) -> str:
    return redactor.reveal(plain(text, TEXT_LIMIT))


def _built_in(diagnosis: Diagnosis, alert: Alert, gaps: Sequence[Gap], reason: str) -> Report:
    return word(diagnosis, alert, gaps).model_copy(update={"dropped": (f"the model's report: {reason}",)})
