"""What a model is asked for in its last answer, read leniently: whole sentences of a cut answer
count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pydantic_core
from pydantic import BaseModel, Field, ValidationError

from analysis.vocabulary import Claim
from analysis.wording.phrases import plain
from bot.answer.writer.redaction import Redactor

TEXT_LIMIT = 1000
MAX_DRAFTED = 20
"""Sentences of a draft that are looked at."""
_CITATION = re.compile(r"\s*[\[(][FL]\d{1,5}(?:\s?[,;]\s?[FL]\d{1,5}){0,20}[\])](?=\.?$)")


class DraftClaim(BaseModel):
    """A sentence and the ids of the findings it rests on."""

    text: str
    findings: list[str]


class Draft(BaseModel):
    """A report."""

    headline: str
    claims: list[DraftClaim]
    next_steps: list[DraftClaim]


class AnswerDraft(BaseModel):
    """An answer to a question."""

    claims: list[DraftClaim] = Field(
        description="The answer, one sentence each, the most useful first."
    )


def read_draft(text: str) -> Draft:
    """A report out of the text of an answer. Raises ValueError when it holds none."""
    given = _object_in(text)
    headline = given.get("headline")
    claims = _drafted(given.get("claims"))
    if not isinstance(headline, str) or not claims:
        raise ValueError(
            "makes no claim"
            if isinstance(headline, str)
            else "is not the requested JSON, or was cut off"
        )
    return Draft(headline=headline, claims=claims, next_steps=_drafted(given.get("next_steps")))


def read_answer(text: str) -> AnswerDraft:
    """An answer to a question. Raises ValueError when the text holds none."""
    given = _object_in(text)
    if not isinstance(given.get("claims"), list):
        raise ValueError("is not the requested JSON, or was cut off")
    return AnswerDraft(claims=_drafted(given["claims"]))


def claims_of(drafted: Sequence[DraftClaim], redactor: Redactor) -> tuple[Claim, ...]:
    """The sentences with what placeholders stand for, and clean ids; nothing is checked yet."""
    return tuple(
        Claim(
            text=line_of(_CITATION.sub("", d.text.strip()), redactor),
            findings=tuple(
                dict.fromkeys(plain(i, 40).strip("[]() ") for i in d.findings[:MAX_DRAFTED])
            ),
        )
        for d in drafted[:MAX_DRAFTED]
    )


def line_of(text: str, redactor: Redactor) -> str:
    """One line of bounded length with what placeholders stand for."""
    return redactor.reveal(plain(text, TEXT_LIMIT))


def _object_in(text: str) -> dict[str, Any]:
    start, end = text.find("{"), text.rfind("}")
    if start < 0:
        raise ValueError("is not the requested JSON, or was cut off")
    for part, partial in ((text[start : end + 1], False), (text[start:], True)):
        try:
            given = pydantic_core.from_json(part, allow_partial=partial)
        except ValueError:
            continue
        if isinstance(given, dict):
            return given
    raise ValueError("is not the requested JSON, or was cut off")


def _drafted(given: Any) -> list[DraftClaim]:
    found = []
    for one in given[:MAX_DRAFTED] if isinstance(given, list) else ():
        try:
            found.append(DraftClaim.model_validate(one))
        except ValidationError:
            continue
    return found
