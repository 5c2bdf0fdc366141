"""What stands below the headline: who is affected since when, what shows the cause, what to do, and
what is not sure. Nothing is said twice.

Victims are named as affected and are no evidence. What shows the cause is two to four lines about
the culprit, the decisive one first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from analysis.analyzers import cause_kinds, fault_of, finding_kind
from analysis.changes.nearby import NEAR
from analysis.kinds.fault_kinds import DEMAND, RESTARTS
from analysis.kinds.finding_details import ChangeDetails
from analysis.kinds.finding_kinds import (
    CHANGE_RULED_OUT,
    METRIC_SHIFT,
    PART_CONTRAST,
    PLACE_CONTRAST,
)
from analysis.kinds.signals import SignalClass
from analysis.phrasing.clauses import statement
from analysis.phrasing.metric_forms import signal_said
from analysis.phrasing.phrase import Phrase, clock, listed, name, quote, say
from analysis.phrasing.statement import FAIL, Tense, possessive
from analysis.vocabulary import (
    Alert,
    Cause,
    Claim,
    Diagnosis,
    Finding,
    Section,
    Verdict,
)
from analysis.wording.amounts import PERCENT, SECONDS, amount
from analysis.wording.names import is_plural, subject_name
from analysis.wording.phrases import counted
from bot.answer.writer.headline import SURE, explaining
from bot.answer.writer.story import Story, began, change_called, is_small_rise, tells_nothing
from bot.answer.writer.support import quotable

MOST_EVIDENCE = 4
_ABOUT_OTHERS = frozenset({PART_CONTRAST.name, PLACE_CONTRAST.name, *cause_kinds()})
"""Kinds of findings that are evidence for a culprit although another subject is theirs."""
MOST_AGAINST = 2
NAMED = 4
MOST_RULED_OUT = 3
CITED = 6
"""Findings cited by one sentence at most: more links than that nobody follows at night."""
TOGETHER_S = 2.0
"""Two times so near to each other are one."""
AT_ONCE_S = 45
"""An onset so near to the alert is not told apart from it."""


def happening(story: Story, diagnosis: Diagnosis, alert: Alert) -> list[Claim]:
    """Since when, how much fails, and who else is affected."""
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return [seen(one, Section.HAPPENING) for one in explaining(diagnosis)[1:]]
    claims = []
    cited = diagnosis.impact.findings[:CITED]
    since = _since(diagnosis, alert)
    if since and cited:
        claims.append(_claim(since, Section.HAPPENING, cited[:1]))
    failed = _failed(diagnosis)
    if failed and cited:
        claims.append(_claim(failed, Section.HAPPENING, cited[:1]))
    affected = _affected(story, diagnosis)
    if affected is not None:
        claims.append(affected)
    return claims


def why(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    """Evidence about the culprit, each line with its figures."""
    if story.cause is None or diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return []
    evidence = _evidence(story, diagnosis)[:MOST_EVIDENCE]
    onset = began(diagnosis)
    tense = Tense.OVER if diagnosis.verdict is Verdict.RECOVERED else Tense.NOW
    return [_shown(finding, story, onset, tense) for finding in evidence]


def seen(finding: Finding, section: Section = Section.WHY) -> Claim:
    """A finding by itself, where none is blamed."""
    return _claim(statement(finding).clause(), section, (finding.id,))


def unsure(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    """What speaks against the cause, and which other one is possible."""
    cause = story.cause
    if cause is None or diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return []
    known = {finding.id: finding for finding in diagnosis.findings}
    claims = []
    checked = [one for one in diagnosis.findings if one.kind == CHANGE_RULED_OUT.name]
    candidate = list(_other_candidate(cause, diagnosis, known))
    offered = {one for claim in candidate for one in claim.findings}
    for one in cause.contradicting:
        finding = known.get(one)
        if finding is None or finding in checked or finding.id in offered:
            continue
        if finding.id in diagnosis.impact.findings:
            # That others are affected does not speak against the cause.
            continue
        elsewhere = finding.subject != cause.subject and fault_of(finding) is not None
        lead = "Not explained by this" if elsewhere else "Against it"
        against = say("{lead}: {what}", lead=lead, what=statement(finding).clause())
        claims.append(_claim(against, Section.UNSURE, (finding.id,)))
    # Where no cause is named there is nothing to be against.
    named = diagnosis.verdict is not Verdict.INSUFFICIENT_EVIDENCE
    claims = claims[:MOST_AGAINST] if named else []
    claims += candidate
    if checked:
        claims.append(_checked(checked))
    return claims


def next_steps(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    """What to do, and how to see that it worked."""
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return _fixes_of_the_alert(diagnosis)[:2]
    established = diagnosis.verdict in (Verdict.CAUSE_FOUND, Verdict.RECOVERED)
    if not established or story.cause is None or not story.cause.next_step:
        return []
    step = _closed(quotable(story.cause.next_step))
    if diagnosis.verdict is Verdict.RECOVERED:
        later = f"To prevent a repeat: {step[:1].lower()}{step[1:]}"
        return [Claim(text=later, findings=_cited(story.cause, diagnosis))]
    done = _when_it_worked(story)
    text = f"{step} {done}" if done else step
    claims = [Claim(text=text, findings=_cited(story.cause, diagnosis))]
    if diagnosis.confidence < SURE:
        claims += _step_of_the_second(story.cause, diagnosis, step)
    return claims


def _since(diagnosis: Diagnosis, alert: Alert) -> Phrase | None:
    onset = began(diagnosis)
    if onset is None:
        return None
    seconds = (alert.started_at - onset).total_seconds()
    if abs(seconds) < AT_ONCE_S:
        return say("It began at {time} UTC, when the alert fired", time=clock(onset))
    day = "" if onset.date() == alert.started_at.date() else f" on {onset.day} {onset:%b}"
    side = "before" if seconds > 0 else "after"
    return say(
        "It began at {time} UTC{day}, {apart} {side} the alert",
        time=clock(onset),
        day=day,
        apart=amount(abs(seconds), SECONDS),
        side=side,
    )


def _failed(diagnosis: Diagnosis) -> Phrase | None:
    numbers = diagnosis.impact.numbers
    failed, percent = numbers.get("failed_requests"), numbers.get("failed_percent")
    if failed is None or percent is None:
        return None
    requests = "request has" if round(failed) == 1 else "requests have"
    text = f"About {amount(failed)} {requests} failed since ({amount(percent, PERCENT)})"
    users = numbers.get("users")
    if users is not None:
        text += f", of {counted(int(users), 'user')} by name"
    return say("{text}", text=text)


def _affected(story: Story, diagnosis: Diagnosis) -> Claim | None:
    """The services beside the effect's and the culprit's, in one sentence, with one figure."""
    told = {one.subject for one in (story.effect, story.mechanism) if one is not None}
    if story.cause is not None:
        told.add(story.cause.subject)
    known = {finding.id: finding for finding in diagnosis.findings}
    others: dict[str, Finding] = {}
    for one in diagnosis.impact.findings:
        finding = known.get(one)
        if finding is not None and finding.subject not in told and fault_of(finding) is not None:
            others.setdefault(finding.subject, finding)
    if not others:
        return None
    ids = tuple(finding.id for finding in others.values())[:CITED]
    first, *rest = others.values()
    said = statement(first).clause()
    if not rest:
        return _claim(say("Also affected: {what}", what=said), Section.HAPPENING, ids)
    names = listed([name(finding.subject) for finding in rest], most=NAMED)
    text = say("Also affected: {names}; {what}", names=names, what=said)
    return _claim(text, Section.HAPPENING, ids)


def _evidence(story: Story, diagnosis: Diagnosis) -> list[Finding]:
    """The findings about the culprit: what is wrong with it, the change, then others that say
    something new."""
    cause = story.cause
    if cause is None:
        return []
    known = {finding.id: finding for finding in diagnosis.findings}
    cited = [known[one] for one in cause.findings if one in known]
    first = [one for one in (story.mechanism, story.change) if one is not None]
    seen = {_topic(one) for one in first}
    if story.effect is not None:
        seen.add(_topic(story.effect))
    rest = [one for one in cited if _is_evidence(one, story)]
    rest.sort(key=lambda one: -one.strength)
    for finding in rest:
        if _topic(finding) not in seen:
            seen.add(_topic(finding))
            first.append(finding)
    return first


def _is_evidence(finding: Finding, story: Story) -> bool:
    if tells_nothing(finding) or is_small_rise(finding):
        return False
    if finding_kind(finding.kind).is_memory:
        return False
    if finding.kind in (CHANGE_RULED_OUT.name, NEAR) or story.cause is None:
        return False
    own = finding.subject == story.cause.subject
    return own or finding_kind(finding.kind).name in _ABOUT_OTHERS


def _topic(finding: Finding) -> tuple[str, str]:
    """Findings of one topic say the same in other numbers: the p90 and the p99 of one latency."""
    if finding.kind == DEMAND.name:
        return finding.subject, f"{METRIC_SHIFT.name} {SignalClass.TRAFFIC.value}"
    if finding.details.signal_class not in (None, SignalClass.OTHER.value):
        return finding.subject, f"{finding.kind} {finding.details.signal_class}"
    return finding.subject, f"{finding.kind} {finding.signal}"


def _shown(finding: Finding, story: Story, onset: datetime | None, tense: Tense) -> Claim:
    if story.change is not None and finding.id == story.change.id:
        return _claim(_change(finding, onset), Section.WHY, (finding.id,))
    return _claim(statement(finding).clause(tense), Section.WHY, (finding.id,))


def _change(change: Finding, onset: datetime | None) -> Phrase:
    """The change with its title, and how long before the onset it came."""
    details = ChangeDetails.of(change)
    title = (details.title or "").strip() if details else ""
    called = change_called(change, with_service=True)
    if title:
        called = say("{change} is {title}", change=called, title=quote(title, change))
    if change.onset is None or onset is None:
        return called
    # Measured from the onset that the answer shows: the change's own finding may stand beside
    # another signal's.
    before_s = (onset - change.onset).total_seconds()
    if abs(before_s) < TOGETHER_S:
        return say("{change}; it went live as the trouble began", change=called)
    size = amount(abs(before_s), SECONDS)
    side = "before" if before_s > 0 else "after"
    return say(
        "{change}; it went live {size} {side} the onset", change=called, size=size, side=side
    )


def _other_candidate(
    cause: Cause, diagnosis: Diagnosis, known: dict[str, Finding]
) -> Iterable[Claim]:
    """The second cause, where the first is not sure."""
    others = sorted((one for one in diagnosis.causes if one is not cause), key=lambda one: one.rank)
    if cause.confidence >= SURE or not others:
        return
    second = others[0]
    lead = next((known[one] for one in second.findings if one in known), None)
    if lead is not None:
        text = say(
            "It may be {who}: {what}", who=name(second.subject), what=statement(lead).clause()
        )
        yield _claim(text, Section.UNSURE, second.findings[:CITED])


def _checked(changes: Sequence[Finding]) -> Claim:
    """Changes that were looked at and are no explanation."""
    named = []
    for one in changes:
        named.append(change_called(one, with_service=True, with_time=False))
    text = say("Changes ruled out: {named}", named=listed(named, most=MOST_RULED_OUT))
    return _claim(text, Section.UNSURE, tuple(one.id for one in changes[:CITED]))


def _fixes_of_the_alert(diagnosis: Diagnosis) -> list[Claim]:
    claims = []
    for finding in diagnosis.findings:
        fix = finding.details.fix
        if fix and finding_kind(finding.kind).explains_alert:
            claims.append(Claim(text=_closed(quotable(fix)), findings=(finding.id,)))
    return claims


def _when_it_worked(story: Story) -> str:
    """How to see that the step helped: the effect's figure goes back to what it was."""
    effect = story.effect
    if effect is None:
        return ""
    said = statement(effect)
    if said.verb is not None and said.verb.present == FAIL.present:
        return f"It worked if {possessive(subject_name(effect.subject))} requests succeed again."
    if "baseline" not in effect.numbers:
        return ""
    usual = next((part for part in said.clause(Tense.NOW).parts if part.number == "baseline"), None)
    if usual is None:
        return ""
    who = subject_name(effect.subject)
    fault = fault_of(effect)
    if fault is not None and fault.name == RESTARTS.name:
        return f"It worked if {who} stops restarting."
    signal = signal_said(effect)
    verb = "go" if is_plural(signal) else "goes"
    return f"It worked if {possessive(who)} {signal} {verb} back to about {usual.text}."


def _step_of_the_second(cause: Cause, diagnosis: Diagnosis, first: str) -> list[Claim]:
    others = sorted((one for one in diagnosis.causes if one is not cause), key=lambda one: one.rank)
    for second in others[:1]:
        text = _closed(quotable(second.next_step or ""))
        if second.next_step and text != first:
            cited = _cited(second, diagnosis)
            return [Claim(text=f"If that is not it: {text}", findings=cited)] if cited else []
    return []


def _cited(cause: Cause, diagnosis: Diagnosis) -> tuple[str, ...]:
    known = {finding.id for finding in diagnosis.findings}
    return tuple(one for one in cause.findings if one in known)[:CITED]


def _claim(text: Phrase, section: Section, findings: Sequence[str]) -> Claim:
    ids = dict.fromkeys([*findings, *text.findings])
    return Claim(text=quotable(text.sentence), findings=tuple(ids), section=section)


def _closed(text: str) -> str:
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."
