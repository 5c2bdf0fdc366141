"""What a model says in its own words: it is labelled as that, never leads an answer, and can
neither notify anybody nor render.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from faultline.analysis.phrasing.phrase import name, say
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Claim, SecondOpinion, Section, Verdict
from faultline.bot.answer.asserted.ground import Ground, Refused
from faultline.bot.answer.writer.plain_text import clipped, neutral, rendered_part

CLAIM_LIMIT = 700
INFERENCE_LIMIT = 300
MOST_REASONS = 6
# A digit behind a letter belongs to a name, but F3 would look like a cited finding.
_FIGURE = re.compile(r"(?<![a-z])\d|\b(?:f|l)\d")
SECOND_OPINION = "It may rather be"


def inference(text: str, because: Sequence[str], ground: Ground) -> Claim:
    """What the model concludes from findings. Raises Refused."""
    ids = _reasons(because, ground)
    return Claim(text=_without_figures(text, ground), findings=ids, section=Section.INFERRED)


def question_to_a_person(text: str, ground: Ground) -> Claim:
    """What the model would ask somebody who knows. Raises Refused."""
    phrase = f"Question: {_without_figures(text, ground)}"
    return Claim(text=phrase, findings=(), section=Section.INFERRED)


def second_opinion(
    subject: str, because: Sequence[str], text: str, ground: Ground
) -> tuple[SecondOpinion, Claim]:
    """Another cause with its reasons. Raises Refused where it is the first one, or unknown."""
    if ground.diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        raise Refused("there is no active incident that could have another cause")
    named, cause = ground.subject(subject), ground.cause
    if cause is not None and named == cause.subject:
        raise Refused("that is the cause that code ranked first")
    ids = _reasons(because, ground)
    rank = next((cause.rank for cause in ground.diagnosis.causes if cause.subject == named), None)
    words = _without_figures(text, ground)
    where = f" (candidate {rank})" if rank else ""
    opening = say("{rather} {who}{where}", rather=SECOND_OPINION, who=name(named), where=where)
    claim = Claim(text=f"{opening}. {words}", findings=ids, section=Section.SECOND_OPINION)
    return SecondOpinion(subject=named, rank=rank, findings=ids, text=words), claim


def stored_inference(claim: Claim, ground: Ground) -> Claim:
    """One that a stored report holds, with the reasons that still exist. Raises Refused."""
    harmless(claim.text)
    ids = tuple(finding for finding in claim.findings if finding in ground.findings)
    if claim.findings and not ids:
        raise Refused("none of its reasons is among the findings any more")
    return claim.model_copy(update={"findings": ids, "asserted": ()})


def harmless(text: str, limit: int = CLAIM_LIMIT, links: Collection[str] = ()) -> str:
    """The text. Raises Refused where it does what none may do, whoever wrote it."""
    if not text.strip() or len(text) > limit:
        raise Refused(f"it is empty, or longer than {limit} characters")
    if rendered := rendered_part(text, links):
        raise Refused(f"it holds {rendered}")
    if masked(text) != text:
        raise Refused("it holds a secret")
    return text


def _without_figures(text: str, ground: Ground) -> str:
    """Raises Refused where it could be taken for evidence: figures are code's alone."""
    rest = harmless(text, INFERENCE_LIMIT).casefold()
    # The longest first: a shorter name may be part of a longer one.
    for word in sorted(ground.named_in_words, key=len, reverse=True):
        rest = rest.replace(word, " ")
    if _FIGURE.search(rest):
        raise Refused("it holds a figure: cite the finding that has it")
    return clipped(neutral(text), INFERENCE_LIMIT)


def _reasons(because: Sequence[str], ground: Ground) -> tuple[str, ...]:
    # Models also write ids as [F3] or (F3).
    ids = tuple(dict.fromkeys(reason.strip("[]() ") for reason in because))[:MOST_REASONS]
    if not ids:
        raise Refused("it gives no finding as its reason")
    for finding_id in ids:
        ground.finding(finding_id)
    return ids
