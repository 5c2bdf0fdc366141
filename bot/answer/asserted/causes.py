"""Relations about what brought what about: the first cause, changes, candidates, calls."""

from __future__ import annotations

from datetime import timedelta

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.finding_details import ChangeDetails, LogLineDetails
from faultline.analysis.kinds.finding_kinds import CHANGE_RULED_OUT
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.statement import Phrase, name, quote, say
from faultline.analysis.vocabulary import Assertion, Cause, Finding
from faultline.analysis.wording.amounts import SECONDS, amount
from faultline.bot.answer.asserted import measurements
from faultline.bot.answer.asserted.ground import Ground, Refused
from faultline.bot.answer.asserted.measurements import cited_finding, is_change, when
from faultline.bot.answer.writer.headline import LIKELY, SURE
from faultline.bot.answer.writer.plain_text import neutral
from faultline.bot.answer.writer.story import began, change_called, story_of, tells_nothing

AS_LIKELY = 0.05
"""Confidences so near to each other are shown as equal."""
LATE = timedelta(minutes=30)
"""What begins this long after a fault has another cause. A change may lie in wait."""
LEAST_CONFIDENCE = 0.05
"""A less likely cause is none that a reader should think about."""


def shows(assertion: Assertion, ground: Ground) -> Phrase:
    """What a finding says; of a change with what code thinks of it."""
    finding = cited_finding(assertion, ground)
    if is_change(finding) and finding.onset is not None:
        return changed(assertion, ground)
    return measurements.shows(assertion, ground)


def explained_by(assertion: Assertion, ground: Ground) -> Phrase:
    """An effect because of the first cause, as sure as code is."""
    effect, behind = (ground.finding(finding) for finding in assertion.findings)
    cause, story = ground.cause, story_of(ground.diagnosis, ground.alert)
    if cause is None or not ground.blames:
        raise Refused("code has established no cause")
    # Only what code blames may stand behind a "because", or a model could blame anything.
    if not ground.is_blamed_change(behind) and behind != (
        story.mechanism or _leading_finding(cause, ground)
    ):
        raise Refused(f"{behind.id} is not what code blames: infer it, or say so in the verdict")
    if not _is_an_effect(effect, behind, ground) and effect != story.effect:
        raise Refused(f"{effect.id} is no effect of {behind.id} that code has found")
    _in_order(effect, behind, headline=effect == story.effect)
    what = statement(effect).clause(ground.tense_of(effect))
    if is_change(behind):
        why = say("of {it}", it=change_called(behind, with_service=True))
    else:
        same_subject = behind.subject == effect.subject
        why = statement(behind, as_pronoun=same_subject).clause(ground.tense_of(behind))
    return say("{what}{because} {why}", what=what, because=_because(cause), why=why)


def changed(assertion: Assertion, ground: Ground) -> Phrase:
    """A change with its title, when it went live, and how far that is from the onset."""
    finding = cited_finding(assertion, ground)
    details = ChangeDetails.of(finding)
    if details is None or not is_change(finding):
        raise Refused(f"{finding.id} is not about a change")
    if finding.kind == CHANGE_RULED_OUT.name:
        return ruled_out(assertion, ground)
    if finding.onset is None:
        raise Refused(f"{finding.id} does not say when it went live")
    called = change_called(finding, with_service=True, with_time=False)
    if details.title and details.title not in details.change:
        called = say("{change}, {title}", change=called, title=quote(details.title, finding))
    # Code blames something else, so nobody may read this as the culprit.
    if ground.blames and not ground.is_blamed_change(finding):
        called = say("another change, {change}", change=called)
    # A title is set off by a comma, which needs another at its end.
    comma = "," if "," in str(called) else ""
    time = when(finding.onset, ground)
    live = say("{change}{comma} went live at {time}", change=called, comma=comma, time=time)
    onset = began(ground.diagnosis)
    if onset is None:
        return live
    apart = round((onset - finding.onset).total_seconds())
    if not apart:
        return say("{live}, at the onset", live=live)
    side = "before" if apart > 0 else "after"
    size = amount(abs(apart), SECONDS)
    return say("{live}, {size} {side} the onset", live=live, size=size, side=side)


def ruled_out(assertion: Assertion, ground: Ground) -> Phrase:
    """A change that was checked and is no explanation."""
    finding = cited_finding(assertion, ground)
    if finding.kind != CHANGE_RULED_OUT.name:
        raise Refused(f"{finding.id} rules out no change")
    called = change_called(finding, with_service=True, with_time=False)
    if finding.onset is not None:
        called = say("{change} ({time})", change=called, time=when(finding.onset, ground))
    details = ChangeDetails.of(finding)
    if details is None or not details.reason:
        return say("{change} was ruled out", change=called)
    return say("{change} was ruled out: {why}", change=called, why=neutral(details.reason))


def against(assertion: Assertion, ground: Ground) -> Phrase:
    """What contradicts the first cause."""
    finding, cause = cited_finding(assertion, ground), ground.cause
    if cause is None or finding.id not in cause.contradicting:
        raise Refused(f"{finding.id} is not held against the first cause")
    what = statement(finding).clause(ground.tense_of(finding))
    return say("against {who} as the cause: {what}", who=name(cause.subject), what=what)


def candidate(assertion: Assertion, ground: Ground) -> Phrase:
    """A cause that code ranked below the first."""
    subject, first = ground.subject(assertion.subjects[0]), ground.cause
    for cause in sorted(ground.diagnosis.causes, key=lambda cause: cause.rank):
        finding = ground.findings.get(cause.findings[0]) if cause.findings else None
        if cause is first or cause.subject != subject or finding is None or tells_nothing(finding):
            continue
        if first is None or not ground.blames:
            break
        if cause.confidence < LEAST_CONFIDENCE:
            raise Refused(f"code gives {neutral(subject, 60)} less than {LEAST_CONFIDENCE:.0%}")
        near = first.confidence - cause.confidence < AS_LIKELY
        likely = "as likely a" if near else "a less likely"
        what = statement(finding, as_pronoun=finding.subject == subject).clause(
            ground.tense_of(finding)
        )
        return say("{who} is {how} cause: {what}", who=name(subject), how=likely, what=what)
    raise Refused(f"{neutral(subject, 60)} is not among the causes below the first")


def calls(assertion: Assertion, ground: Ground) -> Phrase:
    """A call that the case knows."""
    caller, callee = (ground.subject(subject) for subject in assertion.subjects)
    if callee not in ground.calls.callees(caller):
        raise Refused(f"no call from {neutral(caller, 60)} to {neutral(callee, 60)} is known")
    return say("{caller} calls {callee}", caller=name(caller), callee=name(callee))


def _because(cause: Cause) -> str:
    if cause.confidence >= SURE:
        return " because"
    return ", probably because" if cause.confidence >= LIKELY else ", possibly because"


def _leading_finding(cause: Cause, ground: Ground) -> Finding | None:
    """The finding that leads the first cause, where it says more than that something fails."""
    finding = ground.findings.get(cause.findings[0]) if cause.findings else None
    return None if finding is None or is_symptom(finding) or tells_nothing(finding) else finding


def _is_an_effect(effect: Finding, behind: Finding, ground: Ground) -> bool:
    """Whether somebody affected feels it: a symptom, or in one service whatever the cause leads
    to."""
    impact, cause = ground.diagnosis.impact, ground.cause
    if effect.id == behind.id or cause is None or fault_of(effect) is None:
        return False
    if effect.subject == cause.subject == behind.subject:
        return not is_change(effect) and not tells_nothing(effect)
    affected = (*impact.services, ground.alert.service, cause.subject)
    felt = is_symptom(effect) or LogLineDetails.of(effect) is not None
    return felt and not tells_nothing(effect) and effect.subject in affected


def _in_order(effect: Finding, behind: Finding, *, headline: bool = False) -> None:
    """Raises Refused where the cause began after its effect, was over while that went on, or where
    that cannot be known; what the headline says needs no onsets."""
    if behind.details.recovered and not effect.details.recovered:
        raise Refused(f"{behind.id} was over while {effect.id} went on")
    if effect.onset is None or behind.onset is None:
        if headline:
            return
        raise Refused(f"{effect.id} or {behind.id} has no onset, so their order is not known")
    # An onset may lie that much earlier, so refuse only an order that is certainly wrong.
    earliest = behind.onset - timedelta(seconds=behind.onset_uncertainty_s or 0.0)
    if earliest > effect.onset:
        raise Refused(f"{behind.id} began after {effect.id}")
    if effect.onset - behind.onset > LATE and not is_change(behind):
        raise Refused(f"{behind.id} began long before {effect.id}")


def is_symptom(finding: Finding) -> bool:
    """Whether it says that requests are slow or fail."""
    fault = fault_of(finding)
    return fault is not None and fault.is_symptom
