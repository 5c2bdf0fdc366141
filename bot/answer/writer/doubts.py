"""What is not sure about an answer, and what was looked at and is no explanation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.analyzers import fault_of
from analysis.kinds.fault_kinds import FAN_OUT
from analysis.kinds.finding_details import (
    LogLineDetails,
    PlaceDetails,
    SignatureDetails,
    StateFactDetails,
)
from analysis.kinds.finding_kinds import CHANGE_RULED_OUT, METRIC_SHIFT, SIGNAL_STOPPED
from analysis.kinds.state_faults import OF_NODES
from analysis.phrasing.clauses import statement
from analysis.phrasing.metric_forms import counts_few
from analysis.phrasing.phrase import listed, name, say
from analysis.vocabulary import Cause, Claim, Diagnosis, Finding, Section, Verdict
from bot.answer.writer.claims import CITED, claim_of
from bot.answer.writer.headline import SURE
from bot.answer.writer.story import Story, change_called, is_small_rise

MOST_AGAINST = 1
NAMED = 2
WORTH_NAMING = 0.05
"""A less likely second cause is none that a reader should think about."""


def unsure(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    """What speaks against the cause or is left over, and which other one is possible."""
    cause = story.cause
    if cause is None or diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return []
    known = {finding.id: finding for finding in diagnosis.findings}
    candidate = list(_candidate(story, diagnosis, known))
    if diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE:
        # Where no cause is named there is nothing to be against.
        return candidate
    offered = {one for claim in candidate for one in claim.findings}
    claims = []
    for one in cause.contradicting:
        finding = known.get(one)
        if finding is not None and one not in offered and _matters(finding, cause, diagnosis):
            claims.append(_against(finding, cause))
    return claims[:MOST_AGAINST] + candidate


def checked(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    """Changes that were looked at and do not explain it."""
    changes = [one for one in diagnosis.findings if one.kind == CHANGE_RULED_OUT.name]
    if not changes or diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return []
    named = []
    for one in changes:
        named.append(change_called(one, with_service=True, with_time=False))
    if len(changes) > NAMED:
        other = " other" if story.change is not None else ""
        count = str(len(changes))
        text = say("{count}{other} recent changes were ruled out", count=count, other=other)
    else:
        verb = "was" if len(changes) == 1 else "were"
        text = say("{named} {verb} ruled out", named=listed(named), verb=verb)
    return [claim_of(text, Section.CHECKED, tuple(one.id for one in changes[:CITED]))]


def _matters(finding: Finding, cause: Cause, diagnosis: Diagnosis) -> bool:
    """Whether it could change the decision: that others are affected, or name the culprit in their
    errors, could not."""
    if finding.kind == CHANGE_RULED_OUT.name or finding.id in diagnosis.impact.findings:
        return False
    if _is_elsewhere(finding, cause):
        measured = finding.kind == METRIC_SHIFT.name and not is_small_rise(finding)
        measured = measured and not counts_few(finding)
        return measured and finding.subject not in diagnosis.impact.services
    return True


def _is_elsewhere(finding: Finding, cause: Cause) -> bool:
    return finding.subject != cause.subject and fault_of(finding) is not None


def _against(finding: Finding, cause: Cause) -> Claim:
    lead = "Still unexplained" if _is_elsewhere(finding, cause) else "Against it"
    text = say("{lead}: {what}", lead=lead, what=statement(finding).clause())
    return claim_of(text, Section.UNSURE, (finding.id,))


def other_candidate(story: Story, diagnosis: Diagnosis) -> Cause | None:
    """The second cause, where the first is not sure and the second is another one."""
    cause = story.cause
    if cause is None or cause.confidence >= SURE:
        return None
    known = {finding.id: finding for finding in diagnosis.findings}
    others = sorted((one for one in diagnosis.causes if one is not cause), key=lambda one: one.rank)
    for second in others[:1]:
        lead = next((known[one] for one in second.findings if one in known), None)
        if lead is not None and _is_a_rival(second, lead, story, diagnosis):
            return second
    return None


def tells_apart(story: Story, diagnosis: Diagnosis) -> bool:
    """Whether a question that separates the first two causes is worth its line: both are named,
    and neither is a place, of which the next step says what to check."""
    second = other_candidate(story, diagnosis)
    if second is None or story.cause is None:
        return False
    known = {finding.id: finding for finding in diagnosis.findings}
    leads = [known[one] for cause in (story.cause, second) for one in cause.findings[:1]]
    return not any(_is_of_a_place(lead) for lead in leads)


def _is_of_a_place(finding: Finding) -> bool:
    state = StateFactDetails.of(finding)
    return PlaceDetails.of(finding) is not None or (state is not None and state.fact in OF_NODES)


def said_already(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What is missing, without what the answer says anyway: of a signal that stopped the headline
    and the step say all."""
    stopped = [one for one in diagnosis.findings if one.kind == SIGNAL_STOPPED.name]
    if stopped and diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE:
        return ()
    return tuple(diagnosis.missing)


def _is_a_rival(second: Cause, lead: Finding, story: Story, diagnosis: Diagnosis) -> bool:
    """Whether it is worth a thought: neither the changed service itself, nor one that the first
    cause affects, nor one whose lines accuse another service, nor one that the first cause's own
    evidence speaks of."""
    changed = story.change.subject if story.change is not None else ""
    if second.confidence < WORTH_NAMING or second.subject == changed or is_small_rise(lead):
        return False
    fault = fault_of(lead)
    affected = second.subject in diagnosis.impact.services
    if story.cause is None or (affected and fault is not None and fault.is_symptom):
        return False
    if story.mechanism is not None and _speaks_of(story.mechanism, second.subject):
        return False
    line = LogLineDetails.of(lead)
    if line is None:
        return True
    return not line.names and story.cause.subject not in lead.sentence


def _speaks_of(mechanism: Finding, subject: str) -> bool:
    """Whether it is about calls that its subject makes to this one, or about this one's log."""
    signature = SignatureDetails.of(mechanism)
    if signature is not None and signature.names == subject:
        return True
    logged_by = mechanism.subject if signature is not None else None
    return subject in (more_calls_to(mechanism), logged_by)


def more_calls_to(finding: Finding) -> str | None:
    """The service that is called more often, of a finding that says so."""
    fault = fault_of(finding)
    if fault is None or fault.name != FAN_OUT.name:
        return None
    return finding.series.get("service")


def _candidate(story: Story, diagnosis: Diagnosis, known: Mapping[str, Finding]) -> Iterator[Claim]:
    second = other_candidate(story, diagnosis)
    if second is None:
        return
    lead = next(known[one] for one in second.findings if one in known)
    what = statement(lead, known=True).clause()
    place, mechanism = PlaceDetails.of(lead), story.mechanism
    first = PlaceDetails.of(mechanism) if mechanism is not None else None
    if place is not None and first is not None and place.services == first.services:
        what = say("the same services do worse there than elsewhere")
    also = "" if diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE else "also "
    text = say("It could {also}be {who}: {what}", also=also, who=name(second.subject), what=what)
    yield claim_of(text, Section.UNSURE, second.findings[:CITED])
