"""What is not sure about an answer, and what was looked at and is no explanation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.fault_kinds import CALLERS_FAIL, FAN_OUT, TRAFFIC
from faultline.analysis.kinds.finding_details import (
    CallsIntoDetails,
    ChangeDetails,
    LogLineDetails,
    PlaceDetails,
    SignatureDetails,
    StateFactDetails,
)
from faultline.analysis.kinds.finding_kinds import (
    ALERT_QUERY_GONE,
    CHANGE_NEAR,
    CHANGE_RULED_OUT,
    METRIC_SHIFT,
    SIGNAL_STOPPED,
    UPSTREAM_INCIDENT,
)
from faultline.analysis.kinds.signals import SCRAPES
from faultline.analysis.kinds.state_faults import OF_NODES
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.metric_forms import DOUBLED, counts_few
from faultline.analysis.phrasing.statement import Phrase, Slot, clock, listed, name, say
from faultline.analysis.vocabulary import Cause, Claim, Diagnosis, Finding, Section, Verdict
from faultline.analysis.wording.amounts import SECONDS, amount
from faultline.analysis.wording.names import subject_name
from faultline.bot.answer.writer.headline import CITED, SURE, claim_of
from faultline.bot.answer.writer.story import (
    Story,
    change_by_title,
    change_called,
    is_mere_symptom,
    is_small_rise,
    title_of,
)

MOST_AGAINST = 1
NAMED = 2
SUSPECTS = 2
"""Causes whose changes are named, blamed or not: whoever rolls back wants to know of them."""
LONG_REASON = 75
NEARLY_AS_LIKELY = 0.15
"""From this confidence on the next cause is named even where its lines accuse another service."""
BEARS_ON_NOTHING = "nothing in the change bears on that"
HARMLESS = "so long it had done no harm"
FITS_BETTER = " fits better"
_REASONS: Mapping[str, str] = {
    "it is on a service that the suspects do not call": "{who} does not call it",
    "it is on a service that the suspects are not known to call": "{who} is not known to call it",
    "little speaks for it": "little points to it",
    "it came after the onset": "later than the onset",
    HARMLESS: "harmless for long",
}
"""Reasons of findings in the few words that brackets hold."""
WORTH_NAMING = 0.05
"""A less likely second cause is none that a reader should think about."""


def unsure(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    """What contradicts the cause or is left over, and which other one is possible."""
    cause = story.cause
    if cause is None or diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return []
    findings_by_id = {finding.id: finding for finding in diagnosis.findings}
    candidate = list(_candidate(story, diagnosis, findings_by_id))
    beside = list(_changes_beside(story, diagnosis))
    if diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE:
        # Where no cause is named there is nothing to be against.
        return candidate + beside
    offered = {finding for claim in candidate for finding in claim.findings}
    claims = _beyond_scrapes(cause, diagnosis)
    for finding_id in cause.contradicting:
        finding = findings_by_id.get(finding_id)
        # What the candidate's line cites would be said twice.
        if (
            finding is not None
            and finding_id not in offered
            and _matters(finding, cause, diagnosis)
        ):
            claims.append(_against(finding, cause))
    doubts = claims[:MOST_AGAINST] + candidate
    return (doubts or open_question(story, diagnosis)) + beside


def _beyond_scrapes(cause: Cause, diagnosis: Diagnosis) -> list[Claim]:
    """That failed scrapes say nothing of requests, unless those are seen to fail too."""
    if cause.signal != SCRAPES:
        return []
    for finding in diagnosis.findings:
        of_requests = finding.signal != SCRAPES and is_mere_symptom(finding)
        if of_requests and finding.subject == cause.subject:
            return []
    text = say(
        "A target of {who} that cannot be scraped may serve its requests all the same, and their "
        "metrics may be missing for the same reason",
        who=name(cause.subject),
    )
    return [claim_of(text, Section.UNSURE, cause.findings[:CITED])]


def checked(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    """What was looked at and does not explain it: changes, and incidents of providers that nobody
    here is known to call."""
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return []
    claims = _changes_checked(story, diagnosis)
    findings = [finding for finding in diagnosis.findings if finding.kind == UPSTREAM_INCIDENT.name]
    for finding in findings[:NAMED]:
        text = say(
            "{what}. No collected call or failing line leads there",
            what=statement(finding).clause(),
        )
        claims.append(claim_of(text, Section.CHECKED, (finding.id,)))
    return claims


def _changes_beside(story: Story, diagnosis: Diagnosis) -> Iterator[Claim]:
    """Changes shortly before the onset on what is suspected or affected, which are not blamed."""
    leading = {cause.subject for cause in diagnosis.causes[:SUSPECTS]}
    if story.effect is not None:
        leading.add(story.effect.subject)
    blamed = {cause.change for cause in diagnosis.causes} - {None}
    changes = [
        finding
        for finding in diagnosis.findings
        if finding.kind == CHANGE_NEAR.name
        and finding.subject in leading
        and (details := ChangeDetails.of(finding)) is not None
        and details.change
        and details.change not in blamed
    ]
    for change in sorted(changes, key=lambda change: _nearness(change, story))[:NAMED]:
        called = change_by_title(change) or change_called(
            change, with_service=True, with_time=False
        )
        text = say(
            "{called} came shortly before{time}, and nothing but that points to it",
            called=called,
            time=say(" ({at} UTC)", at=clock(change.onset)) if change.onset is not None else "",
        )
        yield claim_of(text, Section.UNSURE, (change.id,))


def _changes_checked(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    changes = [finding for finding in diagnosis.findings if finding.kind == CHANGE_RULED_OUT.name]
    if not changes:
        return []
    named = _with_reasons(sorted(changes, key=lambda change: _nearness(change, story)), story)
    if len(changes) > NAMED:
        other = " other" if story.change is not None else ""
        text = say(
            "{count}{other} recent changes were ruled out, among them {named}",
            count=str(len(changes)),
            other=other,
            named=named,
        )
    else:
        verb = "was" if len(changes) == 1 else "were"
        text = say("{named} {verb} ruled out", named=named, verb=verb)
    return [claim_of(text, Section.CHECKED, tuple(change.id for change in changes[:CITED]))]


def _nearness(change: Finding, story: Story) -> tuple[bool, float]:
    """Changes of the culprit and of what is affected first, then what comes closest."""
    near = {story.cause.subject} if story.cause is not None else set()
    if story.effect is not None:
        near.add(story.effect.subject)
    return change.subject not in near, -change.strength


def _with_reasons(changes: Sequence[Finding], story: Story) -> Phrase:
    """The first changes, each with the reason why it is none, or one reason for both."""
    shown: list[Slot] = []
    reasons = []
    for change in changes[:NAMED]:
        called = change_by_title(change) or change_called(
            change, with_service=True, with_time=False
        )
        shown.append(called)
        reasons.append(_reason(change, story))
    if len(set(reasons)) == 1 and reasons[0]:
        # One reason for two changes: "does not call either".
        both = reasons[0].replace(" it", " either") if len(shown) > 1 else reasons[0]
        return say("{named} ({why})", named=listed(shown), why=both)
    slots: list[Slot] = []
    for what, why in zip(shown, reasons, strict=True):
        slots.append(say("{what} ({why})", what=what, why=why) if why else what)
    return listed(slots)


def _reason(change: Finding, story: Story) -> str:
    """Why it was ruled out, in a few words; empty where those need other names."""
    details = ChangeDetails.of(change)
    reason = (details.reason or "") if details is not None else ""
    who = subject_name(story.cause.subject) if story.cause is not None else "the culprit"
    if reason == HARMLESS and "minutes" in change.numbers:
        return f"harmless for {amount(60 * change.numbers['minutes'], SECONDS)}"
    # These reasons begin with names, for which brackets have no room.
    if reason.endswith(FITS_BETTER):
        return "another change fits better"
    if reason.endswith(BEARS_ON_NOTHING):
        return "nothing in it bears on that"
    template = _REASONS.get(reason, reason)
    return template.format(who=who) if len(template) <= LONG_REASON else ""


def open_question(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    """What is missing of a cause that is not sure and has no rival worth a line."""
    cause = story.cause
    if cause is None or cause.confidence >= SURE:
        return []
    caller = _failing_caller(story, cause, diagnosis)
    if caller is not None:
        text = say(
            "It could also be {it} itself ({share}), which makes the failing calls to {who}",
            it=name(caller.subject),
            share=f"{round(100 * caller.confidence)} %",
            who=name(cause.subject),
        )
    elif story.change is not None:
        text = _doubt_of_the_change(story.change)
    elif story.mechanism is not None:
        text = _doubt_of_the_mechanism(story.mechanism, cause, diagnosis)
    else:
        text = say("What is wrong inside {who} is not known", who=name(cause.subject))
    return [claim_of(text, Section.UNSURE, cause.findings[:CITED])]


def _doubt_of_the_mechanism(mechanism: Finding, cause: Cause, diagnosis: Diagnosis) -> Phrase:
    who = name(cause.subject)
    findings = [finding for finding in diagnosis.findings if finding.subject == cause.subject]
    fault = fault_of(mechanism)
    if fault is not None and fault.name == CALLERS_FAIL.name:
        if all(finding.kind == mechanism.kind for finding in findings):
            return say(
                "Nothing was measured of {who} itself: it may be down, slow or out of reach",
                who=who,
            )
        return say("Whether {who} fails itself or cannot be reached is not known", who=who)
    more = next((finding for finding in findings if _is_more_traffic(finding)), None)
    if more is not None and more is not mechanism:
        what = statement(more, as_pronoun=True).clause()
        return say("{who} may be a victim of its callers: {what}", who=who, what=what)
    signature = SignatureDetails.of(mechanism)
    if signature is not None and signature.names:
        logger, called = name(mechanism.subject), name(signature.names)
        return say("Only the log of {it} says so: {who} was not asked", it=logger, who=called)
    short = statement(mechanism).short()
    return say("Why {it} is not known: no change explains it", it=short)


def _doubt_of_the_change(change: Finding) -> Phrase:
    called = change_by_title(change, with_service=False)
    called = called or change_called(change, with_service=False, with_time=False)
    details = ChangeDetails.of(change)
    if details is not None and details.bears_on:
        return say("That {change} did it is inferred from its time and its text", change=called)
    if not title_of(change):
        return say("Only its time speaks for {change}", change=called)
    return say(
        "Only its time speaks for {change}: its title names nothing that fails", change=called
    )


def _failing_caller(story: Story, cause: Cause, diagnosis: Diagnosis) -> Cause | None:
    """The next cause, where it is nearly as likely and the one whose calls to the first fail."""
    causes = sorted(
        (other for other in diagnosis.causes if other is not cause), key=lambda cause: cause.rank
    )
    callers: set[str] = set()
    for finding in diagnosis.findings:
        calls = CallsIntoDetails.of(finding)
        if calls is not None and finding.subject == cause.subject:
            callers.update(calls.callers)
        line = SignatureDetails.of(finding) or LogLineDetails.of(finding)
        if line is not None and line.names == cause.subject:
            callers.add(finding.subject)
    for second in causes[:1]:
        if second.confidence >= NEARLY_AS_LIKELY and second.subject in callers:
            return second
    return None


def _is_more_traffic(finding: Finding) -> bool:
    fault = fault_of(finding)
    return (
        fault is not None
        and fault.name == TRAFFIC.name
        and finding.kind == METRIC_SHIFT.name
        and finding.details.direction == "up"
        and finding.numbers.get("ratio", 0.0) >= DOUBLED
    )


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
    phrase = "Still unexplained" if _is_elsewhere(finding, cause) else "Against it"
    text = say("{lead}: {what}", lead=phrase, what=statement(finding).clause())
    return claim_of(text, Section.UNSURE, (finding.id,))


def other_candidate(story: Story, diagnosis: Diagnosis) -> Cause | None:
    """The second cause, where the first is not sure and the second is another one."""
    cause = story.cause
    if cause is None or cause.confidence >= SURE:
        return None
    findings_by_id = {finding.id: finding for finding in diagnosis.findings}
    causes = sorted(
        (other for other in diagnosis.causes if other is not cause), key=lambda cause: cause.rank
    )
    for second in causes[:1]:
        finding = next(
            (findings_by_id[finding] for finding in second.findings if finding in findings_by_id),
            None,
        )
        if finding is not None and _is_a_rival(second, finding, story, diagnosis):
            return second
    return None


def tells_apart(story: Story, diagnosis: Diagnosis) -> bool:
    """Whether a question that separates the first two causes is worth its line: both are named,
    and neither is a place. What to check of a place, the next step says."""
    second = other_candidate(story, diagnosis)
    if second is None or story.cause is None:
        return False
    findings_by_id = {finding.id: finding for finding in diagnosis.findings}
    leads = [
        findings_by_id[finding] for cause in (story.cause, second) for finding in cause.findings[:1]
    ]
    return not any(_is_of_a_place(finding) for finding in leads)


def _is_of_a_place(finding: Finding) -> bool:
    state = StateFactDetails.of(finding)
    return PlaceDetails.of(finding) is not None or (state is not None and state.fact in OF_NODES)


def remaining_gaps(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What is missing, without what the answer says anyway: of a signal that stopped the headline
    and the step say all."""
    ended = (SIGNAL_STOPPED.name, ALERT_QUERY_GONE.name)
    stopped = [finding for finding in diagnosis.findings if finding.kind in ended]
    if stopped and diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE:
        return ()
    return tuple(diagnosis.missing)


def _is_a_rival(second: Cause, rival_finding: Finding, story: Story, diagnosis: Diagnosis) -> bool:
    """Whether it is worth a thought: neither the changed service itself, nor one that the first
    cause affects, nor one whose lines accuse another service, nor one that the first cause's own
    evidence speaks of."""
    changed = story.change.subject if story.change is not None else ""
    if (
        second.confidence < WORTH_NAMING
        or second.subject == changed
        or is_small_rise(rival_finding)
    ):
        return False
    fault = fault_of(rival_finding)
    # An affected service that is slow or fails is a victim, not a rival.
    affected = second.subject in diagnosis.impact.services
    if story.cause is None or (affected and fault is not None and fault.is_symptom):
        return False
    if story.mechanism is not None and _speaks_of(story.mechanism, second.subject):
        return False
    line = LogLineDetails.of(rival_finding)
    if line is None:
        return not _is_the_same_calls(rival_finding, story.cause, diagnosis)
    return not line.names and story.cause.subject not in rival_finding.sentence


def _is_the_same_calls(rival_finding: Finding, cause: Cause, diagnosis: Diagnosis) -> bool:
    """Whether its failing lines are those that name the first cause: a route of a caller may be
    called like a service."""
    calls = CallsIntoDetails.of(rival_finding)
    for finding in diagnosis.findings:
        first = CallsIntoDetails.of(finding)
        if calls is None or first is None or finding.subject != cause.subject:
            continue
        if calls.lines and (first.callers, first.lines) == (calls.callers, calls.lines):
            return True
    return False


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


def _candidate(
    story: Story, diagnosis: Diagnosis, findings: Mapping[str, Finding]
) -> Iterator[Claim]:
    second = other_candidate(story, diagnosis)
    if second is None:
        return
    finding = next(findings[finding] for finding in second.findings if finding in findings)
    what = statement(finding, as_pronoun=True).clause()
    place, mechanism = PlaceDetails.of(finding), story.mechanism
    first = PlaceDetails.of(mechanism) if mechanism is not None else None
    # Both places hold the same services, so their clauses would read alike.
    if place is not None and first is not None and place.services == first.services:
        what = say("the same services are in trouble there and not elsewhere")
    also = "" if diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE else "also "
    text = say("It could {also}be {who}: {what}", also=also, who=name(second.subject), what=what)
    yield claim_of(text, Section.UNSURE, second.findings[:CITED])
