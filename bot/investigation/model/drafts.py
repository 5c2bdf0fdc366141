"""What a model is asked for in its last answer, read leniently: whole claims of a cut answer
count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pydantic_core
from pydantic import BaseModel, Field, ValidationError

from faultline.analysis.vocabulary import (
    Assertion,
    Claim,
    ModelVerdict,
    Report,
    Rival,
    VerdictKind,
)
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.asserted import quotations
from faultline.bot.answer.asserted.ground import Ground, Refused, chosen_steps, offered_steps
from faultline.bot.answer.asserted.relations import JOINTS, RELATIONS, worded
from faultline.bot.answer.asserted.verdicts import CheckedVerdict, checked_verdict
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.payload import Redactor
from faultline.bot.answer.writer.plain_text import neutral

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


class DraftRival(BaseModel):
    """Another explanation, and what speaks most against it."""

    subject: str
    finding: str


class DraftVerdict(BaseModel):
    """What the evidence points to."""

    kind: str = Field(json_schema_extra={"enum": [kind.value for kind in VerdictKind]})
    subject: str | None = Field(default=None, description="Of the cause, as the data writes it.")
    change: str | None = Field(default=None, description="Id of the change to blame, or null.")
    confidence: float = Field(description="From 0 to 1: how likely this is right.")
    grounds: list[DraftPart] = []
    rivals: list[DraftRival] = []
    text: str = Field(default="", description="One sentence why, without figures.")
    would_decide: str | None = None


class Draft(BaseModel):
    """A report."""

    claims: list[DraftClaim]
    inferences: list[DraftInference] = []
    verdict: DraftVerdict | None = None
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
class CheckedDraft:
    """What stands of a draft, and what does not with its reasons, by the words of the draft."""

    claims: list[Claim] = field(default_factory=list)
    verdict: CheckedVerdict | None = None
    refused: list[str] = field(default_factory=list)
    refused_claims: list[tuple[Assertion, ...]] = field(default_factory=list)
    """Those of `refused` that are claims, as data."""


def read_draft(text: str) -> Draft:
    """A report out of the text of an answer. Raises ValueError when it holds none."""
    fields = _object_in(text)
    claims = _read_all(fields.get("claims"), _claim)
    inferences = _read_all(fields.get("inferences"), DraftInference.model_validate)
    verdicts = _read_all([fields.get("verdict")], DraftVerdict.model_validate)
    if not claims and not inferences and not verdicts:
        raise ValueError("makes no claim")
    steps, question = fields.get("next_steps"), fields.get("question")
    return Draft(
        claims=claims,
        inferences=inferences,
        verdict=verdicts[0] if verdicts else None,
        next_steps=[s for s in steps if isinstance(s, str)] if isinstance(steps, list) else [],
        question=question if isinstance(question, str) and question.strip() else None,
    )


def read_answer(text: str) -> AnswerDraft:
    """An answer to a question. Raises ValueError when the text holds none."""
    fields = _object_in(text)
    if not isinstance(fields.get("claims"), list):
        raise ValueError("is not the requested JSON, or was cut off")
    follow_up = fields.get("follow_up")
    services = follow_up if isinstance(follow_up, list) else []
    return AnswerDraft(
        claims=_read_all(fields["claims"], _claim),
        inferences=_read_all(fields.get("inferences"), DraftInference.model_validate),
        follow_up=[s for s in services if isinstance(s, str)],
    )


def check_draft(draft: Draft | AnswerDraft, ground: Ground, redactor: Redactor) -> CheckedDraft:
    """The draft's claims in code's words, then what the model infers, each checked."""
    checked_draft = CheckedDraft()
    for number, claim in enumerate(draft.claims, start=1):
        asserted = tuple(_assertion(part, redactor) for part in claim.parts)
        summary = "; ".join(
            f"{a.relation} {' '.join((*a.subjects, *a.findings))}" for a in asserted
        )
        what = f"claim {number} ({neutral(summary, 80)})"
        if not _try(checked_draft, what, partial(worded, asserted, ground)):
            checked_draft.refused_claims.append(asserted)
    for number, guess in enumerate(draft.inferences[:MOST_INFERENCES], start=1):
        text, ids = _line(guess.text, redactor), guess.because[:MAX_IDS]
        _try(checked_draft, f"inference {number}", partial(quotations.inference, text, ids, ground))
    if isinstance(draft, Draft):
        _verdict(draft.verdict, checked_draft, ground, redactor)
        if draft.question:
            line = _line(draft.question, redactor)
            _try(
                checked_draft,
                "the question",
                partial(quotations.question_to_a_person, line, ground),
            )
    return checked_draft


def report_of(draft: Draft, checked_draft: CheckedDraft, ground: Ground, written_by: str) -> Report:
    """The report: headline and steps by code, the claims that stand, and what was refused."""
    diagnosis, alert = ground.diagnosis, ground.alert
    return Report(
        headline=word(diagnosis, alert, ground.gaps).headline,
        claims=tuple(checked_draft.claims),
        next_steps=chosen_steps(draft.next_steps, offered_steps(diagnosis, alert)),
        written_by=written_by,
        dropped=tuple(checked_draft.refused),
    )


def _verdict(
    draft: DraftVerdict | None, checked_draft: CheckedDraft, ground: Ground, redactor: Redactor
) -> None:
    if draft is None:
        return
    try:
        checked_draft.verdict = checked_verdict(_verdict_of(draft, ground, redactor), ground)
    except Refused as why:
        checked_draft.refused.append(f"the verdict: {why}")
        return
    checked_draft.refused += checked_draft.verdict.refused


def _verdict_of(draft: DraftVerdict, ground: Ground, redactor: Redactor) -> ModelVerdict:
    """Raises Refused."""
    kinds = [kind for kind in VerdictKind if kind.value == draft.kind.strip().casefold()]
    if not kinds:
        raise Refused(f"there is no kind {neutral(draft.kind, 40)}")
    rivals = []
    for rival in draft.rivals[:MAX_IDS]:
        subject = ground.subjects.get(_line(rival.subject, redactor).strip().casefold())
        if subject is not None:
            rivals.append(Rival(subject=subject, finding=rival.finding.strip("[]() ")))
    return ModelVerdict(
        kind=kinds[0],
        subject=_line(draft.subject or "", redactor).strip() or None,
        change=_line(draft.change or "", redactor).strip() or None,
        confidence=min(1.0, max(0.0, draft.confidence)),
        grounds=tuple(_assertion(part, redactor) for part in draft.grounds[:MAX_IDS]),
        rivals=tuple(rivals),
        text=_words(draft.text, ground, redactor),
        would_decide=_words(draft.would_decide or "", ground, redactor),
    )


def _words(text: str, ground: Ground, redactor: Redactor) -> str:
    """The model's words, or nothing: without them the grounds still speak."""
    try:
        return quotations.verdict_words(_line(text, redactor), ground)
    except Refused:
        return ""


def _try(checked_draft: CheckedDraft, what: str, make: Callable[[], Claim]) -> bool:
    """Whether it stands; what stands already is not said twice."""
    try:
        claim = make()
    except Refused as why:
        checked_draft.refused.append(f"{what}: {why}")
        return False
    if all(claim.text != other_claim.text for other_claim in checked_draft.claims):
        checked_draft.claims.append(claim)
    return True


def _assertion(part: DraftPart, redactor: Redactor) -> Assertion:
    return Assertion(
        relation=plain(part.relation, 40),
        subjects=tuple(_line(subject, redactor) for subject in part.subjects[:MAX_IDS]),
        # Models often write an id as they see it, in brackets.
        findings=tuple(plain(finding, 40).strip("[]() ") for finding in part.findings[:MAX_IDS]),
        quote=_line(part.quote or "", redactor),
        joint=plain(part.joint or "", 10),
    )


def _line(text: str, redactor: Redactor) -> str:
    """One line of bounded length with what placeholders stand for."""
    # Bound the text first, so that what a placeholder stands for is never cut.
    return redactor.reveal(plain(text, TEXT_LIMIT))


def _object_in(text: str) -> dict[str, Any]:
    start, end = text.find("{"), text.rfind("}")
    if start < 0:
        raise ValueError("is not the requested JSON, or was cut off")
    # First the whole object with any text around it, then what there is of one that was cut.
    for part, cut in ((text[start : end + 1], False), (text[start:], True)):
        try:
            document = pydantic_core.from_json(part, allow_partial=cut)
        except ValueError:
            continue
        if isinstance(document, dict):
            return document
    raise ValueError("is not the requested JSON, or was cut off")


def _claim(raw_claim: Any) -> DraftClaim:
    """A claim; one part may stand by itself."""
    if isinstance(raw_claim, dict) and "relation" in raw_claim:
        raw_claim = {"parts": [raw_claim]}
    return DraftClaim.model_validate(raw_claim)


def _read_all(raw_list: Any, read: Callable[[Any], M]) -> list[M]:
    parts: list[M] = []
    items: Sequence[Any] = raw_list[:MAX_DRAFTED] if isinstance(raw_list, list) else ()
    for raw_part in items:
        try:
            parts.append(read(raw_part))
        # One malformed claim must not cost the others.
        except ValidationError:
            continue
    return parts
