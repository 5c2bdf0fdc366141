"""What somebody says of the answer: right or wrong, and what the cause was. It is recorded as
feedback, and weighed against what was measured."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analysis.changes.nearby import NEAR, RULED_OUT
from analysis.kinds.finding_details import change_named
from analysis.vocabulary import Cause, Finding
from analysis.wording.names import subject_name
from analysis.wording.phrases import plain
from bot.answer.lines import percent
from bot.conversation import about_subject
from bot.conversation.answered_case import AnsweredCase
from bot.intake.questions.request_kind import understand
from bot.intake.questions.slack_question import AnswerLine, AnswerText
from bot.intake.questions.subjects import METRIC_WORDS, Subject, subject_of

MAX_CAUSE = 200
MOST = 4
_WRONG = re.compile(
    r"\b(?:wrong|incorrect|false|not (?:it|right|true|correct)|isn'?t it|nope|no)\b", re.IGNORECASE
)
_RIGHT = re.compile(
    r"\b(?:right|correct|exactly|confirmed|spot on|nailed it|agree)\b", re.IGNORECASE
)
_CAUSE = re.compile(
    r"\b(?P<said>it was|it turned out to be|cause (?:was|is)|it is|it'?s)\s+"
    r"(?!all\b|clearly|totally|wrong|right|correct|not\b)(?P<cause>[^\n]{2,400})",
    re.IGNORECASE,
)
_BROKE = re.compile(r"(?P<cause>[\w./-]+) (?:broke|caused|did) (?:it|this|that)\b", re.IGNORECASE)
_THEN = re.compile(r"(?:wrong|incorrect|not it|not right)\W+(?P<cause>[^\n]{3,400})", re.IGNORECASE)
_FILLER = re.compile(
    r"^(?:(?:definitely|probably|clearly|actually|just|really|because of|due to)\s+)+",
    re.IGNORECASE,
)
_CHANGE = re.compile(r"\b(?:deploy\w*|release|rollout|change|config\w*|flag|commit|merge)\b", re.I)


@dataclass(frozen=True)
class Correction:
    """A judgement of an answer. `cause` is in the person's words, or empty."""

    right: bool
    cause: str
    explicit: bool = True
    """Whether it says that the answer is right or wrong, or what the cause is. "It was urgent"
    does not."""


def correction_in(text: str) -> Correction:
    """What a text that judges the answer says."""
    found = _CAUSE.search(text) or _BROKE.search(text) or _THEN.search(text)
    cause = plain(_FILLER.sub("", found["cause"]), MAX_CAUSE).rstrip(" .!") if found else ""
    wrong, right = _WRONG.search(text) is not None, _RIGHT.search(text) is not None
    named = found is not None and "cause" in found.groupdict().get("said", "")
    explicit = wrong or right or named
    return Correction(right=right and not wrong and not cause, cause=cause, explicit=explicit)


def weighed(answered: AnsweredCase, given: Correction) -> tuple[Correction | None, AnswerText]:
    """The judgement as it is recorded, and what was measured for and against its cause. None where
    a text may judge nothing: then it is asked."""
    first = answered.first
    if not given.explicit and not _names_a_cause(answered, given.cause):
        said = f"To record it as the cause, write: the cause was {given.cause or 'a full disk'}"
        return None, AnswerText(
            lead="I recorded nothing: I'm not sure that you mean the cause.", more=(said,)
        )
    if given.right or not given.cause:
        said = "right" if given.right else "wrong"
        more = () if given.right else ("To tell me the cause, write: it was the payments deploy",)
        lead = f"Recorded: the answer is {said}. It's shown under the answer."
        return given, AnswerText(lead=lead, more=more)
    subject = _subject(answered, given.cause)
    agrees = first is not None and subject is not None and _agrees(answered, first, subject, given)
    recorded = Correction(right=agrees, cause=given.cause)
    lead = f"Recorded as the cause: {given.cause}."
    if agrees and first is not None:
        lead += f" That is what I blame, too ({percent(first.confidence)})."
    elif first is not None:
        blamed = plain(subject_name(first.subject), 60)
        lead += f" I blame {blamed} ({percent(first.confidence)})."
    return recorded, AnswerText(lead=lead, lines=_evidence(answered, subject, given, agrees=agrees))


def _evidence(
    answered: AnsweredCase, subject: Subject | None, given: Correction, *, agrees: bool
) -> tuple[AnswerLine, ...]:
    first = answered.first
    about = _about(answered, subject, given)
    lines = [answered.line(f, "For") for f in about if f.kind != RULED_OUT]
    thing = subject_of(given.cause, ())
    if thing is not None and thing.thing and not about_subject.knows(answered, thing):
        text = f"I collected nothing about {thing.said}"
        lines.insert(0, AnswerLine(text=text, bold="Measured"))
    against = [answered.line(f, "Against") for f in about if f.kind == RULED_OUT]
    if not lines and not against:
        named = plain(subject.said, 60) if subject else "that"
        text = f"I collected nothing that speaks for or against {named}"
        lines = [AnswerLine(text=text, bold="Measured")]
    if first is not None and not agrees:
        text = f"{answered.view.headline.rstrip('.')}, which it would have to explain"
        against.append(answered.said(text, first.findings[:3], "Against"))
    return (*lines[:MOST], *against[:MOST])


def _about(answered: AnsweredCase, subject: Subject | None, given: Correction) -> list[Finding]:
    if subject is None:
        return []
    about = []
    for finding in answered.findings.values():
        is_change = change_named(finding) in subject.names
        if is_change or about_subject.concerns(finding, subject):
            about.append(finding)
    if _CHANGE.search(given.cause):
        changes = [f for f in about if f.kind in (NEAR, RULED_OUT)]
        about = changes or about
    return sorted(about, key=lambda f: -f.strength)


def _agrees(answered: AnsweredCase, first: Cause, subject: Subject, given: Correction) -> bool:
    """Whether the same service is meant, and the same trouble of it: a deploy is the same cause
    only where the first one blames a change, a full disk only where it blames the disk."""
    if _CHANGE.search(given.cause) and first.change is None:
        return False
    thing = subject_of(given.cause, ())
    other = thing is not None and thing.thing not in (None, "deploy")
    if thing is not None and other and not about_subject.is_cause(first, thing, answered):
        return False
    return about_subject.is_cause(first, subject, answered)


def _names_a_cause(answered: AnsweredCase, cause: str) -> bool:
    """Whether it names something that can be one: a service, a change, a kind of thing."""
    subject = subject_of(cause, _names(answered))
    return bool(_CHANGE.search(cause)) or (subject is not None and subject.known)


def _subject(answered: AnsweredCase, cause: str) -> Subject | None:
    """What the cause names: a service or a change that the case knows; else a word that nobody
    knows rather than just "a deploy"."""
    subject = subject_of(cause, _names(answered))
    strange = understand(cause).strange(METRIC_WORDS)
    if strange and (subject is None or subject.thing == "deploy"):
        return Subject(" ".join(strange[:2]))
    return subject


def _names(answered: AnsweredCase) -> tuple[str, ...]:
    changes = answered.case.changes["id"].drop_nulls().to_list()
    return (*changes[:MAX_CAUSE], *answered.services)
