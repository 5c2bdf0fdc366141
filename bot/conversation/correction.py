"""What somebody says of the answer: right or wrong, and what the cause was. It is recorded as
feedback, and weighed against what was measured."""

from __future__ import annotations

import re
from dataclasses import dataclass

from faultline.analysis.changes.nearby import NEAR, RULED_OUT
from faultline.analysis.kinds.finding_details import change_named
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.names import subject_name
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.lines import percent
from faultline.bot.conversation import about_subject
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.request_kind import understand
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.subjects import METRIC_WORDS, Subject, subject_of
from faultline.bot.policy.people import without_mentions

MAX_CAUSE = 200
MOST = 4
_WRONG = re.compile(
    r"\b(?:wrong|incorrect|false|not (?:it|right|true|correct)|isn'?t it|nope|no)\b", re.IGNORECASE
)
_RIGHT = re.compile(
    r"\b(?:right|correct|exactly|confirmed|spot on|nailed it|agree)\b", re.IGNORECASE
)
_CAUSE = re.compile(
    # "It was wrong" names no cause.
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
    text = without_mentions(text)
    # The plainest wording first: "it was ..." before whatever follows "wrong".
    match = _CAUSE.search(text) or _BROKE.search(text) or _THEN.search(text)
    cause, named = "", False
    if match is not None:
        cause = plain(_FILLER.sub("", match["cause"]), MAX_CAUSE).rstrip(" .!")
        named = "cause" in match.groupdict().get("said", "")
    wrong = _WRONG.search(text) is not None
    right = _RIGHT.search(text) is not None
    # A text that also says "wrong", or names a cause, does not simply agree.
    agrees = right and not wrong and not cause
    return Correction(right=agrees, cause=cause, explicit=wrong or right or named)


def weighed(answered: AnsweredCase, correction: Correction) -> tuple[Correction | None, AnswerText]:
    """The judgement as it is recorded, and what was measured for and against its cause. None where
    a text may judge nothing: then it is asked."""
    if not correction.explicit and not _names_a_cause(answered, correction.cause):
        sentence = "I recorded nothing: I'm not sure that you mean the cause."
        phrase = (
            f"To record it as the cause, write: the cause was {correction.cause or 'a full disk'}"
        )
        return None, AnswerText(lead=sentence, more=(phrase,))
    if correction.right:
        return correction, AnswerText(
            lead="Recorded: the answer is right. It's shown under the answer."
        )
    if not correction.cause:
        sentence = "Recorded: the answer is wrong. It's shown under the answer."
        phrase = "To tell me the cause, write: it was the payments deploy"
        return correction, AnswerText(lead=sentence, more=(phrase,))
    weighing = _Weighing(answered, correction.cause)
    recorded = Correction(right=weighing.agrees, cause=correction.cause)
    return recorded, AnswerText(lead=weighing.opening(), lines=weighing.lines())


class _Weighing:
    """A cause in somebody's words beside what was measured."""

    def __init__(self, answered: AnsweredCase, cause: str) -> None:
        self._answered = answered
        self._cause = cause
        self._names_a_change = _CHANGE.search(cause) is not None
        self._subject = _subject(answered, cause)
        self._thing = subject_of(cause, ())
        self.agrees = self._agrees()

    def opening(self) -> str:
        """What is recorded, and what is blamed."""
        recorded = f"Recorded as the cause: {self._cause}."
        first = self._answered.first
        if first is None:
            return recorded
        sure = percent(first.confidence)
        if self.agrees:
            return f"{recorded} That is what I blame, too ({sure})."
        return f"{recorded} I blame {plain(subject_name(first.subject), 60)} ({sure})."

    def lines(self) -> tuple[AnswerLine, ...]:
        """The evidence for it, then the evidence against it."""
        answer_lines: list[AnswerLine] = []
        against: list[AnswerLine] = []
        for finding in self._about():
            if finding.kind == RULED_OUT:
                against.append(self._answered.line(finding, "Against"))
            else:
                answer_lines.append(self._answered.line(finding, "For"))
        unseen = self._unseen(nothing=not answer_lines and not against)
        if unseen:
            answer_lines.insert(0, AnswerLine(text=unseen, bold="Measured"))
        first = self._answered.first
        if first is not None and not self.agrees:
            headline = self._answered.view.headline.rstrip(".")
            text = f"{headline}, which it would have to explain"
            against.append(self._answered.statement(text, first.findings[:3], "Against"))
        return (*answer_lines[:MOST], *against[:MOST])

    def _unseen(self, *, nothing: bool) -> str:
        """What of it was not collected; empty where it was."""
        thing, subject = self._thing, self._subject
        if thing is not None and thing.thing and not about_subject.knows(self._answered, thing):
            return f"I collected nothing about {thing.label}"
        if not nothing:
            return ""
        named = plain(subject.label, 60) if subject is not None else "that"
        return f"I collected nothing that speaks for or against {named}"

    def _about(self) -> list[Finding]:
        """The findings about it, the strongest first; of a deploy those about changes."""
        subject = self._subject
        if subject is None:
            return []
        about: list[Finding] = []
        changes: list[Finding] = []
        for finding in self._answered.findings.values():
            named = change_named(finding) in subject.names
            if named or about_subject.concerns(finding, subject):
                about.append(finding)
                if finding.kind in (NEAR, RULED_OUT):
                    changes.append(finding)
        if self._names_a_change and changes:
            about = changes
        return sorted(about, key=lambda finding: -finding.strength)

    def _agrees(self) -> bool:
        """Whether the same service is meant, and the same trouble of it: a deploy is the same
        cause only where the first one blames a change, a full disk only where it blames the
        disk."""
        first, subject, thing = self._answered.first, self._subject, self._thing
        if first is None or subject is None:
            return False
        if self._names_a_change and first.change is None:
            return False
        if thing is not None and thing.thing not in (None, "deploy"):
            same_trouble = about_subject.is_cause(first, thing, self._answered)
            return same_trouble and about_subject.is_cause(first, subject, self._answered)
        return about_subject.is_cause(first, subject, self._answered)


def _names_a_cause(answered: AnsweredCase, cause: str) -> bool:
    """Whether it names something that can be one: a service, a change, a kind of thing."""
    if _CHANGE.search(cause):
        return True
    subject = subject_of(cause, _names(answered))
    return subject is not None and subject.is_identified


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
