"""What's happening: since when, how much fails, and who else is affected.

Victims are named as affected and are no evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

from faultline.analysis.analyzers import fault_of, is_training
from faultline.analysis.kinds.fault_kinds import (
    QUEUE,
)
from faultline.analysis.kinds.finding_details import (
    JobDetails,
    PlaceDetails,
)
from faultline.analysis.kinds.finding_kinds import ALERT_ELSEWHERE_USUAL, ALERT_NOT_TRUE, ALERT_TRUE
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.metric_forms import (
    failing_share,
    in_brackets,
)
from faultline.analysis.phrasing.statement import (
    NOTHING,
    Phrase,
    Slot,
    clock,
    dated,
    listed,
    name,
    say,
)
from faultline.analysis.phrasing.training_forms import cost
from faultline.analysis.vocabulary import (
    Alert,
    Claim,
    Diagnosis,
    Finding,
    Section,
    Verdict,
)
from faultline.analysis.wording.amounts import PERCENT, SECONDS, amount
from faultline.analysis.wording.names import subject_name
from faultline.analysis.wording.phrases import counted
from faultline.bot.answer.writer.headline import (
    CITED,
    claim_of,
    explaining,
    finding_claim,
    findings_by_id,
)
from faultline.bot.answer.writer.story import (
    Story,
    alerting,
    began,
)

NAMED = 4
FEW_REQUESTS = 5
"""So few failed requests say nothing about their share."""
AT_ONCE_S = 5
ALERT_LAG_S = 45
"""An onset this shortly before or after the alert counts as the same time, because samples lie
apart as well."""
LONG_BEFORE_S = 1200
"""From here on who looks at the time of the alert looks at the wrong time."""


def happening(story: Story, diagnosis: Diagnosis, alert: Alert, headline: str = "") -> list[Claim]:
    """Since when, how much fails, and who else is affected."""
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        # The headline says the first one.
        return [finding_claim(finding, Section.HAPPENING) for finding in explaining(diagnosis)[1:]]
    cited = diagnosis.impact.findings[:1]
    if not cited and story.cause is not None:
        cited = story.cause.findings[:1]
    texts: list[Phrase | None] = [_lost(story, diagnosis)]
    if cited:
        texts = [_since(diagnosis, alert), _failed(story, diagnosis), *texts]
    claims = [claim_of(text, Section.HAPPENING, cited) for text in texts if text]
    claims += _of_the_query(diagnosis, headline)
    affected = _affected(story, diagnosis, alert)
    alerted = alerting(diagnosis, alert)
    shown = affected.text if affected is not None else ""
    if cited and _is_left_out(alerted, f"{headline} {shown}", diagnosis):
        claims.append(_of_the_alerting(alerted, diagnosis, cited))
    nobody_else = _nobody_else(story, diagnosis)
    if affected is not None:
        claims.append(affected)
    elif cited and nobody_else:
        claims.append(claim_of(nobody_else, Section.HAPPENING, cited))
    return claims


_OF_THE_QUERY = frozenset({ALERT_TRUE.name, ALERT_NOT_TRUE.name, ALERT_ELSEWHERE_USUAL.name})


def _of_the_query(diagnosis: Diagnosis, headline: str) -> list[Claim]:
    """What the alert's own query says, where the headline does not."""
    claims = []
    for finding in diagnosis.findings:
        if finding.kind in _OF_THE_QUERY:
            claim = finding_claim(finding, Section.HAPPENING)
            if claim.text not in headline:
                claims.append(claim)
    return claims


def _is_left_out(service: str, text: str, diagnosis: Diagnosis) -> bool:
    """Whether the answer does not name this service; jobs are named by their ranks."""
    job = any(JobDetails.of(finding) is not None for finding in diagnosis.findings)
    return bool(service) and not job and subject_name(service) not in text


def _of_the_alerting(service: str, diagnosis: Diagnosis, cited: Sequence[str]) -> Claim:
    """What the service shows that alerted, where the answer is about another one."""
    findings = [
        finding
        for finding in diagnosis.findings
        if finding.subject == service and _is_trouble(finding)
    ]
    findings = [finding for finding in findings if not finding.details.recovered]
    finding = max(findings, key=lambda finding: finding.strength, default=None)
    who = name(service)
    if finding is None:
        text = say("No symptom of {who} itself, which alerted, was found", who=who)
        return claim_of(text, Section.HAPPENING, cited)
    what = statement(finding).clause()
    text = say("At {who}, which alerted, {what}", who=who, what=what)
    return claim_of(text, Section.HAPPENING, (finding.id,))


def _since(diagnosis: Diagnosis, alert: Alert) -> Phrase | None:
    onset = began(diagnosis)
    if onset is None:
        return None
    seconds = (alert.started_at - onset).total_seconds()
    if -ALERT_LAG_S < seconds < AT_ONCE_S:
        then = "around the time you asked about" if alert.is_question else "when the alert fired"
        return say("It began at {time} UTC, {then}", time=clock(onset), then=then)
    moment = "the time you asked about" if alert.is_question else "the alert"
    if seconds < 0:
        # An alert sees what it asks for: the evidence may show the trouble later.
        return say(
            "It was first seen at {time} UTC, {apart} after {moment}",
            time=clock(onset),
            apart=amount(-seconds, SECONDS),
            moment=moment,
        )
    long_before = ": look at what changed then" if seconds >= LONG_BEFORE_S else ""
    return say(
        "It began at {time}, {apart} before {moment}{hint}",
        time=dated(onset, alert.started_at),
        moment=moment,
        hint=long_before,
        apart=amount(seconds, SECONDS),
    )


def _failed(story: Story, diagnosis: Diagnosis) -> Phrase | None:
    """How many requests failed. Their share is said once: here only where the headline has none."""
    numbers = diagnosis.impact.numbers
    failed, percent = numbers.get("failed_requests"), numbers.get("failed_percent")
    if failed is None or percent is None or failed < FEW_REQUESTS:
        return None
    text = f"About {amount(failed)} requests have failed since"
    if story.effect is None or failing_share(story.effect) is None:
        text += f" ({amount(percent, PERCENT)})"
    users = numbers.get("users")
    if users is not None:
        text += f", of {counted(int(users), 'user')} by name"
    return say("{text}", text=text)


def _lost(story: Story, diagnosis: Diagnosis) -> Phrase:
    """What it costs a training job."""
    numbers = diagnosis.impact.numbers
    percent, rate, ranks = (numbers.get(key) for key in ("lost_percent", "lost_rate", "ranks"))
    if percent is not None:
        device = "GPU-hours" if "GPU-hours" in diagnosis.impact.sentence else "rank-hours"
        lost = say("{percent} of the job's speed is lost", percent=amount(percent, PERCENT))
        if rate is None or ranks is None:
            return lost
        every = f"{amount(rate)} of {amount(ranks)} {device} every hour"
        return say("{lost}: {every}", lost=lost, every=every)
    mechanism = story.mechanism or story.effect
    return cost(mechanism) if mechanism is not None else NOTHING


def _nobody_else(story: Story, diagnosis: Diagnosis) -> Phrase:
    """That no other service is in trouble, where nothing that was found shows one."""
    headline_services = _headline_services(story)
    if story.cause is None or not diagnosis.impact.services:
        return NOTHING
    if story.mechanism is not None and is_training(story.mechanism):
        return NOTHING
    subjects = {finding.subject for finding in diagnosis.findings if _is_trouble(finding)}
    if not headline_services.issuperset({*diagnosis.impact.services, *subjects}):
        return NOTHING
    shows = "showed" if diagnosis.verdict is Verdict.RECOVERED else "shows"
    return say("No other service {shows} symptoms", shows=shows)


def _is_trouble(finding: Finding) -> bool:
    fault = fault_of(finding)
    if fault is None or fault.training:
        return fault is not None
    return (fault.is_symptom or fault.has_impact) and finding.details.bad is not False


def _headline_services(story: Story) -> set[str]:
    """The services that the headline speaks of."""
    subjects = {
        finding.subject for finding in (story.effect, story.mechanism) if finding is not None
    }
    if story.cause is not None:
        subjects.add(story.cause.subject)
    place = PlaceDetails.of(story.mechanism) if story.mechanism is not None else None
    return subjects | set(place.services) if place is not None else subjects


def _affected(story: Story, diagnosis: Diagnosis, alert: Alert) -> Claim | None:
    """The services beside the effect's and the culprit's, each with its effect: the one that
    alerted first, then the worst."""
    alerted = alerting(diagnosis, alert)
    ranking = sorted(
        _affected_findings(story, diagnosis, alerted),
        key=lambda finding: (finding.subject != alerted, not in_brackets(finding)),
    )
    if not ranking:
        return None
    named: list[Slot] = []
    unmeasured = []
    for finding in ranking:
        effect = in_brackets(finding)
        who = name(finding.subject)
        if effect:
            named.append(say("{who} ({effect})", who=who, effect=effect))
        else:
            unmeasured.append(who)
    # A bare name tells nobody how bad it is: it counts where others have their figures.
    most = NAMED - 1 if unmeasured and named else NAMED
    more = len(unmeasured) + max(0, len(named) - most)
    if not named:
        named = list(unmeasured)
    elif unmeasured:
        named = [*named[:most], f"{more} more"]
    phrase = "Affected" if diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE else "Also affected"
    text = say("{lead}: {named}", lead=phrase, named=listed(named, most=NAMED))
    ids = tuple(finding.id for finding in ranking)[:CITED]
    return claim_of(text, Section.HAPPENING, ids)


def _affected_findings(story: Story, diagnosis: Diagnosis, alerted: str) -> list[Finding]:
    """For each service beside those of the headline what shows its trouble best: the leading
    finding, or the first with figures."""
    impact = _felt(story, diagnosis)
    affected = {alerted, *(finding.subject for finding in impact)}
    findings: dict[str, Finding] = {}
    for finding in [*impact, *filter(_is_lasting_trouble, diagnosis.findings)]:
        if finding.subject not in affected:
            continue
        before = findings.setdefault(finding.subject, finding)
        if in_brackets(finding) and not in_brackets(before):
            findings[finding.subject] = finding
    headline_services = _headline_services(story)
    return [finding for finding in findings.values() if finding.subject not in headline_services]


def _felt(story: Story, diagnosis: Diagnosis) -> list[Finding]:
    """The faults of the impact, and the queues that the cause cites."""
    felt = []
    for finding in findings_by_id(diagnosis.impact.findings, diagnosis):
        if fault_of(finding) is not None:
            felt.append(finding)
    for finding in findings_by_id(
        story.cause.findings if story.cause is not None else (), diagnosis
    ):
        fault = fault_of(finding)
        if fault is not None and fault.name == QUEUE.name:
            felt.append(finding)
    return felt


def _is_lasting_trouble(finding: Finding) -> bool:
    fault = fault_of(finding)
    return fault is not None and fault.is_symptom and finding.details.bad is not False
