"""Relations about what brought what about: the first cause, changes, candidates, calls."""

from __future__ import annotations

from datetime import timedelta

from analysis.analyzers import fault_of
from analysis.kinds.finding_details import ChangeDetails, change_named
from analysis.kinds.finding_kinds import CHANGE_RULED_OUT
from analysis.phrasing.clauses import statement
from analysis.phrasing.phrase import Phrase, clock, listed, name, quote, say
from analysis.vocabulary import Assertion, Cause, Finding
from analysis.wording.amounts import SECONDS, amount
from bot.answer.asserted.ground import Ground, Refused
from bot.answer.asserted.measurements import own_finding
from bot.answer.asserted.times import is_change
from bot.answer.writer.headline import LIKELY, SURE
from bot.answer.writer.plain_text import neutral
from bot.answer.writer.story import began, change_called, story_of

AS_LIKELY = 0.05
"""Confidences so near to each other are shown as equal."""
SLACK = timedelta(minutes=1)
"""A cause may seem to begin so long after its effect: collection intervals differ."""


def explained_by(said: Assertion, ground: Ground) -> Phrase:
    """An effect because of the first cause, as sure as code is."""
    effect, behind = (ground.finding(one) for one in said.findings)
    cause = ground.cause
    if cause is None or not ground.blames:
        raise Refused("code has established no cause")
    if not _is_of(behind, cause, ground):
        raise Refused(
            f"{behind.id} is not of the cause that code ranked first "
            f"({neutral(cause.subject, 60)}): that is an inference or a second opinion"
        )
    if not _is_an_effect(effect, behind, ground):
        raise Refused(f"{effect.id} is no effect of {behind.id}")
    if effect.onset is not None and behind.onset is not None:
        slack = SLACK + timedelta(seconds=behind.onset_uncertainty_s or 0.0)
        if behind.onset - slack > effect.onset:
            raise Refused(f"{behind.id} began after {effect.id}")
    what = statement(effect).clause(ground.tense)
    if is_change(behind):
        why = say("of {it}", it=change_called(behind, with_service=True))
    else:
        known = behind.subject == effect.subject
        why = statement(behind, known=known).clause(ground.tense)
    return say("{what}{because} {why}", what=what, because=_because(cause), why=why)


def passed_on(said: Assertion, ground: Ground) -> Phrase:
    """A caller's fault and that of a service that it calls, which need not be the first cause."""
    felt, behind = (ground.finding(one) for one in said.findings)
    for one in (felt, behind):
        if fault_of(one) is None:
            raise Refused(f"{one.id} is no fault")
    caller, callee = neutral(felt.subject, 60), neutral(behind.subject, 60)
    if behind.subject not in ground.calls.callees(felt.subject):
        raise Refused(f"no call from {caller} to {callee} is known")
    return say(
        "{felt}, and it calls {callee}, where {behind}",
        felt=statement(felt).clause(ground.tense),
        callee=name(behind.subject),
        behind=statement(behind, known=True).clause(ground.tense),
    )


def changed(said: Assertion, ground: Ground) -> Phrase:
    """A change with its title, when it went live, and how far that is from the onset."""
    finding = own_finding(said, ground)
    details = ChangeDetails.of(finding)
    if details is None or not is_change(finding):
        raise Refused(f"{finding.id} is not about a change")
    if finding.onset is None:
        raise Refused(f"{finding.id} does not say when it went live")
    called = change_called(finding, with_service=True, with_time=False)
    if details.title and details.title not in details.change:
        called = say("{change}, {title},", change=called, title=quote(details.title, finding))
    live = say("{change} went live at {time} UTC", change=called, time=clock(finding.onset))
    onset = began(ground.diagnosis)
    if onset is None:
        return live
    apart = round((onset - finding.onset).total_seconds())
    if not apart:
        return say("{live}, at the onset", live=live)
    side = "before" if apart > 0 else "after"
    size = amount(abs(apart), SECONDS)
    return say("{live}, {size} {side} the onset", live=live, size=size, side=side)


def ruled_out(said: Assertion, ground: Ground) -> Phrase:
    """A change that was checked and is no explanation."""
    finding = own_finding(said, ground)
    if finding.kind != CHANGE_RULED_OUT.name:
        raise Refused(f"{finding.id} rules out no change")
    called = change_called(finding, with_service=True, with_time=False)
    details = ChangeDetails.of(finding)
    if details is None or not details.reason:
        return say("{change} was ruled out", change=called)
    return say("{change} was ruled out: {why}", change=called, why=neutral(details.reason))


def against(said: Assertion, ground: Ground) -> Phrase:
    """What contradicts the first cause."""
    finding, cause = own_finding(said, ground), ground.cause
    if cause is None or finding.id not in cause.contradicting:
        raise Refused(f"{finding.id} is not held against the first cause")
    what = statement(finding).clause(ground.tense)
    return say("against {who} as the cause: {what}", who=name(cause.subject), what=what)


def candidate(said: Assertion, ground: Ground) -> Phrase:
    """A cause that code ranked below the first."""
    subject, first = ground.subject(said.subjects[0]), ground.cause
    for cause in sorted(ground.diagnosis.causes, key=lambda one: one.rank):
        if cause is first or cause.subject != subject:
            continue
        lead = next(
            (ground.findings[one] for one in cause.findings if one in ground.findings), None
        )
        if lead is not None:
            near = first is not None and first.confidence - cause.confidence < AS_LIKELY
            return say(
                "{who} is {likely} cause: {what}",
                who=name(subject),
                likely="as likely a" if near else "a less likely",
                what=statement(lead, known=lead.subject == subject).clause(ground.tense),
            )
    raise Refused(f"{neutral(subject, 60)} is not among the causes below the first")


def calls(said: Assertion, ground: Ground) -> Phrase:
    """A call that the case knows."""
    caller, callee = (ground.subject(one) for one in said.subjects)
    if callee not in ground.calls.callees(caller):
        raise Refused(f"no call from {neutral(caller, 60)} to {neutral(callee, 60)} is known")
    return say("{caller} calls {callee}", caller=name(caller), callee=name(callee))


def unchanged(said: Assertion, ground: Ground) -> Phrase:
    """Services of which no change is known, where changes were looked for."""
    if not ground.sees_changes:
        raise Refused("no source of changes was asked")
    names = [ground.subject(one) for one in said.subjects]
    blamed = {one.subject for one in ground.findings.values() if change_named(one)}
    for one in names:
        if one in ground.changed or one in blamed:
            raise Refused(f"{neutral(one, 60)} was changed")
    return say("no change to {names} is known", names=listed([name(one) for one in names], 6))


def _because(cause: Cause) -> str:
    if cause.confidence >= SURE:
        return " because"
    return ", probably because" if cause.confidence >= LIKELY else ", possibly because"


def _is_of(finding: Finding, cause: Cause, ground: Ground) -> bool:
    """Whether the finding shows what the first cause is, and is no mere symptom of another."""
    if ground.is_blamed_change(finding):
        return True
    return finding.id in cause.findings and finding.subject == cause.subject


def _is_an_effect(effect: Finding, behind: Finding, ground: Ground) -> bool:
    """Whether it is a fault that the first cause brings about, as code has it."""
    impact, cause = ground.diagnosis.impact, ground.cause
    if effect.id == behind.id or cause is None or fault_of(effect) is None:
        return False
    affected = (*impact.services, ground.alert.service)
    felt = effect.id in impact.findings or effect.subject in affected
    if is_change(behind):
        return felt or effect.subject == cause.subject
    if effect.subject != behind.subject:
        return felt
    # Within one service the finding that leads the cause explains the others.
    leads = (cause.findings[0], _mechanism(ground))
    if behind.id in leads:
        return effect.id not in leads
    return _is_symptom(effect) and not _is_symptom(behind)


def _mechanism(ground: Ground) -> str:
    found = story_of(ground.diagnosis, ground.alert).mechanism
    return found.id if found is not None else ""


def _is_symptom(finding: Finding) -> bool:
    fault = fault_of(finding)
    return fault is not None and fault.is_symptom
