"""Relations about what brought what about: the first cause, changes, candidates, calls."""

from __future__ import annotations

from datetime import timedelta

from analysis.analyzers import fault_of
from analysis.kinds.finding_details import change_named
from analysis.kinds.finding_kinds import CHANGE_RULED_OUT
from analysis.phrasing.clauses import statement
from analysis.phrasing.phrase import Phrase, clock, listed, name, say
from analysis.vocabulary import Assertion, Cause, Finding
from bot.answer.asserted.ground import Ground, Refused
from bot.answer.asserted.measurements import own_finding
from bot.answer.asserted.times import is_change
from bot.answer.writer.headline import LIKELY, SURE
from bot.answer.writer.plain_text import neutral
from bot.answer.writer.story import change_called

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


def changed(said: Assertion, ground: Ground) -> Phrase:
    """A change, and when it went live."""
    finding = own_finding(said, ground)
    if not is_change(finding):
        raise Refused(f"{finding.id} is not about a change")
    called = change_called(finding, with_service=True, with_time=False)
    if finding.onset is None:
        raise Refused(f"{finding.id} does not say when it went live")
    return say("{change} went live at {time} UTC", change=called, time=clock(finding.onset))


def ruled_out(said: Assertion, ground: Ground) -> Phrase:
    """A change that was checked and is no explanation."""
    finding = own_finding(said, ground)
    if finding.kind != CHANGE_RULED_OUT.name:
        raise Refused(f"{finding.id} rules out no change")
    return statement(finding).clause(ground.tense)


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
            return say(
                "{who} is a less likely cause: {what}",
                who=name(subject),
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
    felt = effect.id in impact.findings or effect.subject in impact.services
    if is_change(behind):
        return felt or effect.subject == cause.subject
    if effect.subject == behind.subject:
        # Within one service only what is no symptom explains a symptom.
        return _is_symptom(effect) and not _is_symptom(behind)
    return felt


def _is_symptom(finding: Finding) -> bool:
    fault = fault_of(finding)
    return fault is not None and fault.is_symptom
