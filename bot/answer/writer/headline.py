"""The first sentence of an answer: what is wrong, because of what, with the number that matters.

How sure it sounds follows the confidence: a cause that may be another one is "probably" it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from faultline.analysis.analyzers import fault_of, finding_kind
from faultline.analysis.kinds.fault_kinds import CALLERS_FAIL
from faultline.analysis.kinds.finding_details import (
    CallsIntoDetails,
    MetricShiftDetails,
    PartDetails,
    SignatureDetails,
)
from faultline.analysis.kinds.finding_kinds import (
    ALERT_IN_RANGE,
    ALERT_NOT_TRUE,
    ALERT_OFTEN_TRUE,
    ALERT_QUERY_GONE,
    ALERT_TRUE,
    SIGNAL_RECOVERED,
    SIGNAL_STOPPED,
)
from faultline.analysis.phrasing.clauses import brief, place_phrase, statement
from faultline.analysis.phrasing.log_forms import LOGS, OF_CALLED
from faultline.analysis.phrasing.metric_forms import both_levels, is_shift, signal_text
from faultline.analysis.phrasing.state_forms import is_down, took_down
from faultline.analysis.phrasing.statement import (
    Phrase,
    Slot,
    Statement,
    Tense,
    clock,
    joined,
    name,
    possessive,
    say,
)
from faultline.analysis.vocabulary import Alert, Claim, Diagnosis, Finding, Section, Verdict
from faultline.analysis.wording.names import subject_name
from faultline.bot.answer.writer.plain_text import clipped, quotable
from faultline.bot.answer.writer.story import Story, change_by_title, change_called, is_mere_symptom

HEADLINE_LIMIT = 200
GLANCE = 140
"""Characters that a phone's notification shows; what is longer is said shorter where it can be."""
SURE = 0.9
LIKELY = 0.5
"""From here on a cause is "probably" it, below it "may" be."""
CALM_CONFIDENCE = 0.75
"""With less confidence in calm the alerting signal could not be held against its own past."""
NO_INCIDENT = "No active incident"
CANNOT_TELL = "I can't tell yet"
_BEFORE_THE_LEVEL = frozenset({ALERT_NOT_TRUE.name, ALERT_OFTEN_TRUE.name})
"""What the alert's own query says comes before the level of the signal."""


def headline(story: Story, diagnosis: Diagnosis, alert: Alert) -> str:
    """The headline of any verdict, at most 200 characters."""
    match diagnosis.verdict:
        case Verdict.NO_ACTIVE_INCIDENT:
            return clipped(f"{NO_INCIDENT}: {_why_none(diagnosis, alert)}", HEADLINE_LIMIT)
        case Verdict.INSUFFICIENT_EVIDENCE:
            return clipped(_cannot_tell(story, diagnosis, alert), HEADLINE_LIMIT)
        case Verdict.RECOVERED:
            return _shortened(_forms(story, alert, Tense.OVER), f"{_over(diagnosis, alert)}: ")
    return _shortened(_forms(story, alert, Tense.NOW))


def _over(diagnosis: Diagnosis, alert: Alert) -> str:
    """Since when it is over, if that is known. What was back before the alert fired is not what the
    alert is about."""
    for finding in diagnosis.findings:
        if finding.kind != SIGNAL_RECOVERED.name or finding.onset is None:
            continue
        if finding.onset > alert.started_at:
            return str(say("Over since {time} UTC", time=clock(finding.onset)))
    return "Over"


def _shortened(forms: list[Phrase], before: str = "") -> str:
    """The fullest form that one look takes in, else the shortest that says as much as it can."""
    shown = [before + quotable(form.sentence if not before else str(form)) for form in forms]
    shown = [text if text.endswith((".", "!", "?", "…")) else f"{text}." for text in shown]
    for text in shown:
        if len(text) <= GLANCE:
            return text
    return clipped(min(shown, key=len), HEADLINE_LIMIT)


def _forms(story: Story, alert: Alert, tense: Tense) -> list[Phrase]:
    """Forms of the headline, the fullest first."""
    if story.cause is None:
        return [_effect(story, alert, tense)]
    if story.change is not None:
        return _by_change(story, story.change, tense)
    effect = _effect(story, alert, tense)
    if story.part is not None:
        return _by_part(story, story.part, effect)
    if story.mechanism is None:
        return [say("{effect}; why is not known yet", effect=effect), effect]
    wording = statement(story.mechanism, as_pronoun=_names_it(story, story.mechanism))
    why = wording.short(tense)
    shorter = brief(story.mechanism)
    if story.effect is None:
        # What only its finding can say in full stands below; the headline has the short of it.
        if wording.verb is None and wording.shorter is not None:
            return [wording.shorter, shorter]
        return [why, wording.clause(tense), shorter]
    because = _hedged(story, " because", ", probably because", ", possibly because")
    if wording.verb is LOGS:
        # A line is a sign of the cause; nothing is slow because it was logged.
        because = ";"
    if is_mere_symptom(story.mechanism):
        # Slow because slow: then no more than the place is known.
        because = "; the trouble sits in"
        why, shorter = _where(story.mechanism, tense)
    forms = [say("{effect}{because} {why}", effect=effect, because=because, why=why)]
    if story.effect is not None:
        few = statement(story.effect).short(tense)
        forms.append(say("{effect}{because} {why}", effect=few, because=because, why=why))
    if all(len(str(form)) > HEADLINE_LIMIT for form in forms):
        forms.append(say("{effect}{because} {why}", effect=effect, because=because, why=shorter))
    return forms


def _where(symptom: Finding, tense: Tense) -> tuple[Phrase, Phrase]:
    """The place with what it shows, and the place alone."""
    who, wording = name(symptom.subject), statement(symptom)
    short_form = wording.short(tense.of(symptom))
    # Otherwise the name would stand there twice.
    if wording.verb is not None and str(short_form).startswith(f"{who.text} "):
        does = str(short_form)[len(who.text) + 1 :]
        return say("{who}, which {does}", who=who, does=does), say("{who}", who=who)
    return say("{who}: {why}", who=who, why=short_form), say("{who}", who=who)


def _by_part(story: Story, part: Finding, effect: Phrase) -> list[Phrase]:
    """Which part of the culprit is worse, where its others are not."""
    details = PartDetails.of(part) or PartDetails()
    worse, count = name(details.parts[0]), details.parts_known - 1
    rest = f"other {count} are as before" if count > 1 else "other one is as before"
    slots: dict[str, Slot] = {
        "effect": effect, "kind": details.part_kind, "part": worse, "rest": rest,
    }  # fmt: skip
    if story.effect is not None and story.effect.subject == part.subject:
        full = say("{effect}, and only in {kind} {part}: the {rest}", **slots)
        return [full, say("{effect}, and only in {kind} {part}", **slots)]
    slots["who"] = name(part.subject)
    full = say("{effect}; the trouble sits in {kind} {part} of {who}, whose {rest}", **slots)
    return [full, say("{effect}; the trouble sits in {kind} {part} of {who}", **slots)]


def _by_change(story: Story, change: Finding, tense: Tense) -> list[Phrase]:
    felt = story.effect or story.mechanism
    same_subject = felt is not None and change.subject == felt.subject
    change_phrase = change_by_title(change, with_service=not same_subject)
    called = change_phrase or change_called(change, with_service=not same_subject, with_time=False)
    if felt is None:
        return [say("{change} is to blame", change=called)]
    wording = statement(
        felt, as_pronoun=same_subject and subject_name(change.subject) in str(called)
    )
    what = wording.caused
    if is_down(felt):
        what = took_down(felt, as_pronoun=same_subject)
    if what is None:
        since = say("{what} since {change}", what=wording.clause(tense), change=called)
        return [since, wording.clause(tense)]
    adverb = _hedged(story, "", "probably ", "may have ")
    done = say("{change} {adverb}{what}", change=called, adverb=adverb, what=what)
    few = say(
        "{change} {adverb}{what}", change=called, adverb=adverb, what=wording.caused_short or what
    )
    forms = [done, few]
    if story.mechanism is not None and story.mechanism.id != felt.id:
        why = statement(story.mechanism, as_pronoun=_names_it(story, story.mechanism)).short(tense)
        forms = [say("{done}: {why}", done=form, why=why) for form in forms] + forms
    return forms


def _names_it(story: Story, mechanism: Finding) -> bool:
    """Whether the sentence has named the mechanism's subject by then."""
    return story.effect is not None and story.effect.subject == mechanism.subject


def _hedged(story: Story, sure: str, likely: str, possible: str) -> str:
    confidence = story.cause.confidence if story.cause else 0.0
    if confidence >= SURE:
        return sure
    return likely if confidence >= LIKELY else possible


def _effect(story: Story, alert: Alert, tense: Tense) -> Phrase:
    """What somebody notices; where nothing was measured, what the alert says."""
    if story.effect is None:
        return say("{title}", title=quotable(alert.title))
    wording, tense = statement(story.effect), tense.of(story.effect)
    return wording.short(tense) if is_down(story.effect) else wording.clause(tense)


def _cannot_tell(story: Story, diagnosis: Diagnosis, alert: Alert) -> str:
    for finding in diagnosis.findings:
        if finding.kind in (SIGNAL_STOPPED.name, ALERT_QUERY_GONE.name):
            return statement(finding).clause().sentence
    if story.effect is None:
        for finding in diagnosis.findings:
            if finding.kind == ALERT_TRUE.name:
                return f"{statement(finding).clause().sentence} {CANNOT_TELL} why."
        return f"{CANNOT_TELL} what is behind “{quotable(alert.title).rstrip('.')}”."
    wording: Statement = statement(story.effect)
    return joined([say(f"{CANNOT_TELL} why"), wording.clause()], " ").sentence


def explaining(diagnosis: Diagnosis) -> list[Finding]:
    """What says that nothing is wrong: the alerting signal's own level, then why it fired."""
    findings = [
        finding for finding in diagnosis.findings if finding_kind(finding.kind).explains_alert
    ]
    findings.sort(key=lambda finding: -finding.strength)
    first = [finding for finding in diagnosis.findings if finding.kind in _BEFORE_THE_LEVEL]
    level = [finding for finding in diagnosis.findings if finding.kind == ALERT_IN_RANGE.name]
    return first + level + [finding for finding in findings if finding not in first]


def _why_none(diagnosis: Diagnosis, alert: Alert) -> str:
    for finding in explaining(diagnosis):
        clause = statement(finding).clause()
        return f"{continued(str(clause))}." if finding.kind in _BEFORE_THE_LEVEL else f"{clause}."
    for finding in diagnosis.findings:
        details = MetricShiftDetails.of(finding)
        same = finding.subject == alert.service and finding.signal == alert.signal
        if not same or details is None:
            continue
        if details.usual_at_this_hour:
            return f"{statement(finding).clause()}, as usual at this hour."
        if is_shift(finding) and diagnosis.confidence >= CALM_CONFIDENCE:
            # It left its baseline, and by no more than windows in which nothing was wrong.
            usual, now, _ = both_levels(finding)
            whose = possessive(subject_name(finding.subject))
            return (
                f"{whose} {signal_text(finding)} is {now.text} (mostly {usual.text}), which it "
                "also reached at other times when nothing was wrong."
            )
    return f"nothing behind “{quotable(alert.title)}” has left its usual range."


# The service that a known failure in a caller's log is about: "certificate has expired" is said of
# the service that was called, where its lines name one.


def with_called_names(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with the called service beside each known failure whose line names it."""
    calls = _failing_calls(diagnosis)
    if not calls:
        return diagnosis
    findings = []
    for finding in diagnosis.findings:
        findings.append(_with_name(finding, calls))
    return diagnosis.model_copy(update={"findings": tuple(findings)})


def _failing_calls(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Caller and callee of the calls that are found to fail."""
    calls = []
    for finding in diagnosis.findings:
        fault, details = fault_of(finding), CallsIntoDetails.of(finding)
        if fault is not None and fault.name == CALLERS_FAIL.name and details is not None:
            calls += [(caller, finding.subject) for caller in details.callers]
    return calls


def _with_name(finding: Finding, calls: list[tuple[str, str]]) -> Finding:
    details = SignatureDetails.of(finding)
    if details is None or details.names or details.signature not in OF_CALLED:
        return finding
    named = [callee for caller, callee in calls if caller == finding.subject]
    named = [
        callee
        for callee in named
        if re.search(rf"(?<![\w-]){re.escape(callee)}(?![\w-])", details.example)
    ]
    if len(named) != 1:
        return finding
    signature_details = details.model_copy(update={"names": named[0]})
    return finding.model_copy(update={"details": signature_details})


# A claim of the built-in writer: a sentence with the findings that its parts are of.

CITED = 6
"""Findings cited by one sentence at most: more links than that nobody follows at night."""


def claim_of(text: Phrase, section: Section, findings: Sequence[str]) -> Claim:
    """The claim; it cites these findings and those that the phrase names."""
    ids = dict.fromkeys([*findings, *text.findings])
    return Claim(text=quotable(text.sentence), findings=tuple(ids), section=section)


def finding_claim(finding: Finding, section: Section = Section.WHY) -> Claim:
    """A finding by itself, where none is blamed."""
    return claim_of(statement(finding).clause(), section, (finding.id,))


def findings_by_id(ids: Sequence[str], diagnosis: Diagnosis) -> list[Finding]:
    """Those of the diagnosis, in the order of their ids."""
    findings = {finding.id: finding for finding in diagnosis.findings}
    return [findings[finding_id] for finding_id in ids if finding_id in findings]


def closed(text: str) -> str:
    """The text with a full stop, where it has none."""
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."


def continued(text: str) -> str:
    """A sentence that goes on behind a lead: in small letters, unless a name or an abbreviation
    begins it."""
    return f"{text[:1].lower()}{text[1:]}" if text[1:2].islower() else text


# The cluster that every line names goes without saying: "in cluster-a" tells a reader something
# only where an answer also speaks of another one.

_LABELS = "labels"


def without_the_only_place(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis, without the place of its findings where all that it cites are of one."""
    cited = set(diagnosis.impact.findings)
    for cause in diagnosis.causes:
        cited.update(cause.findings)
    places = {place_phrase(finding) for finding in diagnosis.findings if finding.id in cited} - {""}
    if len(places) != 1:
        return diagnosis
    return diagnosis.model_copy(
        update={"findings": tuple(_without_place(finding) for finding in diagnosis.findings)}
    )


def _without_place(finding: Finding) -> Finding:
    if not place_phrase(finding):
        return finding
    series = {key: value for key, value in finding.series.items() if key != _LABELS}
    return finding.model_copy(update={"series": series})
