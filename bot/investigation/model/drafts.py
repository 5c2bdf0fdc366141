"""What a model is asked for in its last answer, read leniently: whole claims of a cut answer
count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pydantic_core
from pydantic import BaseModel, Field, ValidationError

from faultline.analysis.vocabulary import Assertion, Claim, Report, SecondOpinion
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.asserted import inferred
from faultline.bot.answer.asserted.ground import Ground, Refused
from faultline.bot.answer.asserted.relations import JOINTS, RELATIONS, worded
from faultline.bot.answer.asserted.steps import chosen_steps, offered_steps
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.plain_text import neutral
from faultline.bot.answer.writer.redaction import Redactor

TEXT_LIMIT = 600
MAX_DRAFTED = 20
"""Claims of a draft that are looked at."""
MAX_IDS = 12
MOST_INFERENCES = 3

M = TypeVar("M", bound=BaseModel)
_JOINTS = ", ".join(JOINTS)


class DraftPart(BaseModel):
    """One thing that is said."""

    relation: str = Field(json_schema_extra={"enum": list(RELATIONS)})
    findings: list[str] = []
    subjects: list[str] = []
    quote: str | None = None
    joint: str | None = Field(default=None, description=f"Before a further part: {_JOINTS}.")


class DraftClaim(BaseModel):
    """A sentence of one to three parts."""

    parts: list[DraftPart]


class DraftInference(BaseModel):
    """A conclusion in free words."""

    text: str
    because: list[str]


class DraftOpinion(BaseModel):
    """Another cause than the first."""

    subject: str
    text: str
    because: list[str]


class Draft(BaseModel):
    """A report."""

    claims: list[DraftClaim]
    inferences: list[DraftInference] = []
    second_opinion: DraftOpinion | None = None
    next_steps: list[str] = Field(default=[], description="Ids of offered steps, such as N1.")
    question: str | None = Field(default=None, description="For a person who knows the system.")


class AnswerDraft(BaseModel):
    """An answer to a question."""

    claims: list[DraftClaim] = Field(description="The answer, the most useful first.")
    inferences: list[DraftInference] = []
    follow_up: list[str] = Field(
        default=[],
        description="Services to investigate further, where the question asks for that; else none.",
    )


@dataclass
class Said:
    """What stands of a draft, and what does not with its reasons, by the words of the draft."""

    claims: list[Claim] = field(default_factory=list)
    second_opinion: SecondOpinion | None = None
    refused: list[str] = field(default_factory=list)
    refused_claims: list[tuple[Assertion, ...]] = field(default_factory=list)
    """Those of `refused` that are claims, as data."""


def read_draft(text: str) -> Draft:
    """A report out of the text of an answer. Raises ValueError when it holds none."""
    given = _object_in(text)
    claims = _read_all(given.get("claims"), _claim)
    inferences = _read_all(given.get("inferences"), DraftInference.model_validate)
    opinions = _read_all([given.get("second_opinion")], DraftOpinion.model_validate)
    if not claims and not inferences and not opinions:
        raise ValueError("makes no claim")
    steps, question = given.get("next_steps"), given.get("question")
    return Draft(
        claims=claims,
        inferences=inferences,
        second_opinion=opinions[0] if opinions else None,
        next_steps=[s for s in steps if isinstance(s, str)] if isinstance(steps, list) else [],
        question=question if isinstance(question, str) and question.strip() else None,
    )


def read_answer(text: str) -> AnswerDraft:
    """An answer to a question. Raises ValueError when the text holds none."""
    given = _object_in(text)
    if not isinstance(given.get("claims"), list):
        raise ValueError("is not the requested JSON, or was cut off")
    asked = given.get("follow_up")
    services = asked if isinstance(asked, list) else []
    return AnswerDraft(
        claims=_read_all(given["claims"], _claim),
        inferences=_read_all(given.get("inferences"), DraftInference.model_validate),
        follow_up=[s for s in services if isinstance(s, str)],
    )


def said_in(draft: Draft | AnswerDraft, ground: Ground, redactor: Redactor) -> Said:
    """The draft's claims in code's words, then what the model infers, each checked."""
    said = Said()
    for number, claim in enumerate(draft.claims, start=1):
        asserted = tuple(_assertion(part, redactor) for part in claim.parts)
        told = "; ".join(f"{a.relation} {' '.join((*a.subjects, *a.findings))}" for a in asserted)
        what = f"claim {number} ({neutral(told, 80)})"
        if not _try(said, what, partial(worded, asserted, ground)):
            said.refused_claims.append(asserted)
    for number, guess in enumerate(draft.inferences[:MOST_INFERENCES], start=1):
        text, ids = _line(guess.text, redactor), guess.because[:MAX_IDS]
        _try(said, f"inference {number}", partial(inferred.inference, text, ids, ground))
    if isinstance(draft, Draft):
        _opinion(draft.second_opinion, said, ground, redactor)
        if draft.question:
            line = _line(draft.question, redactor)
            _try(said, "the question", partial(inferred.question_to_a_person, line, ground))
    return said


def report_of(draft: Draft, said: Said, ground: Ground, written_by: str) -> Report:
    """The report: headline and steps by code, the claims that stand, and what was refused."""
    diagnosis, alert = ground.diagnosis, ground.alert
    return Report(
        headline=word(diagnosis, alert, ground.gaps).headline,
        claims=tuple(said.claims),
        next_steps=chosen_steps(draft.next_steps, offered_steps(diagnosis, alert)),
        written_by=written_by,
        dropped=tuple(said.refused),
        second_opinion=said.second_opinion,
    )


def _opinion(opinion: DraftOpinion | None, said: Said, ground: Ground, redactor: Redactor) -> None:
    if opinion is None:
        return
    try:
        said.second_opinion, claim = inferred.second_opinion(
            _line(opinion.subject, redactor),
            opinion.because[:MAX_IDS],
            _line(opinion.text, redactor),
            ground,
        )
        said.claims.append(claim)
    except Refused as why:
        said.refused.append(f"the second opinion: {why}")


def _try(said: Said, what: str, make: Callable[[], Claim]) -> bool:
    """Whether it stands; what stands already is not said twice."""
    try:
        claim = make()
    except Refused as why:
        said.refused.append(f"{what}: {why}")
        return False
    if all(claim.text != known.text for known in said.claims):
        said.claims.append(claim)
    return True


def _assertion(part: DraftPart, redactor: Redactor) -> Assertion:
    return Assertion(
        relation=plain(part.relation, 40),
        subjects=tuple(_line(subject, redactor) for subject in part.subjects[:MAX_IDS]),
        findings=tuple(plain(finding, 40).strip("[]() ") for finding in part.findings[:MAX_IDS]),
        quote=_line(part.quote or "", redactor),
        joint=plain(part.joint or "", 10),
    )


def _line(text: str, redactor: Redactor) -> str:
    """One line of bounded length with what placeholders stand for."""
    return redactor.reveal(plain(text, TEXT_LIMIT))


def _object_in(text: str) -> dict[str, Any]:
    start, end = text.find("{"), text.rfind("}")
    if start < 0:
        raise ValueError("is not the requested JSON, or was cut off")
    for part, cut in ((text[start : end + 1], False), (text[start:], True)):
        try:
            given = pydantic_core.from_json(part, allow_partial=cut)
        except ValueError:
            continue
        if isinstance(given, dict):
            return given
    raise ValueError("is not the requested JSON, or was cut off")


def _claim(given: Any) -> DraftClaim:
    """A claim; one part may stand by itself."""
    if isinstance(given, dict) and "relation" in given:
        given = {"parts": [given]}
    return DraftClaim.model_validate(given)


def _read_all(given: Any, read: Callable[[Any], M]) -> list[M]:
    found: list[M] = []
    items: Sequence[Any] = given[:MAX_DRAFTED] if isinstance(given, list) else ()
    for one in items:
        try:
            found.append(read(one))
        except ValidationError:
            continue
    return found
