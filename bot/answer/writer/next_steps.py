"""What to do, and how to see that it worked: a step by code for the first cause, one if it is the
second, or what would mend the alert or its signal."""

from __future__ import annotations

from faultline.analysis.alert_signal.subjects import misrouting_label
from faultline.analysis.analyzers import cause_kinds, fault_of, finding_kind
from faultline.analysis.changes.nearby import NEAR
from faultline.analysis.kinds.fault_kinds import (
    RESTARTS,
    FaultKind,
)
from faultline.analysis.kinds.finding_details import (
    ChangeDetails,
    StateFactDetails,
    change_named,
)
from faultline.analysis.kinds.finding_kinds import (
    ALERT_IN_RANGE,
    ALERT_NOT_TRUE,
    ALERT_QUERY_GONE,
    SIGNAL_STOPPED,
)
from faultline.analysis.kinds.signals import classify, is_bad, is_headroom
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.metric_forms import (
    failing_share,
    finding_unit,
    level_before,
    signal_text,
)
from faultline.analysis.phrasing.state_forms import is_down
from faultline.analysis.phrasing.statement import FAIL, Tense, possessive
from faultline.analysis.phrasing.steps import step_about
from faultline.analysis.vocabulary import (
    Alert,
    Cause,
    Claim,
    Diagnosis,
    Finding,
    Verdict,
)
from faultline.analysis.wording.amounts import amount
from faultline.analysis.wording.names import change_name, is_plural, subject_name
from faultline.analysis.wording.phrases import capitalised
from faultline.bot.answer.writer.doubts import other_candidate
from faultline.bot.answer.writer.headline import CITED, closed, continued
from faultline.bot.answer.writer.plain_text import quotable
from faultline.bot.answer.writer.story import (
    Story,
    change_by_title,
    step_of,
)

_FROM_GIT = {
    "Argo CD with self-heal": "will restore what is in Git within 3 minutes",
    "Argo CD": "may restore what is in Git within 3 minutes",
    "Flux": "will restore what is in Git within its interval",
    "Flux's HelmRelease": "may restore what is in Git within its interval",
}
"""Argo CD compares each three minutes (argocd-cm, `timeout.reconciliation`), and only self-healing
undoes what somebody changed by hand. A Kustomization of Flux is applied at each interval; a
HelmRelease corrects drift only if `driftDetection` is on."""
SECOND_BELOW = 0.75
"""A less likely cause comes with the next one's step."""


def next_steps(story: Story, diagnosis: Diagnosis) -> list[Claim]:
    """What to do, and how to see that it worked."""
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return _fixes_of_the_alert(diagnosis)[:2] or _above_the_usual(diagnosis)
    established = diagnosis.verdict in (Verdict.CAUSE_FOUND, Verdict.RECOVERED)
    if not established or story.cause is None or not story.cause.next_step:
        return _fixes_of_the_signal(diagnosis)[:1] or _worst_first(diagnosis)
    step = closed(quotable(_step(story.cause, story.mechanism, diagnosis)))
    if diagnosis.verdict is Verdict.RECOVERED:
        later = f"To prevent a repeat: {continued(step)}"
        return [Claim(text=later, findings=_cited(story.cause, diagnosis))]
    parts = [step, who_restores(story), _when_it_worked(story)]
    text = " ".join(filter(None, parts))
    claims = [Claim(text=text, findings=_cited(story.cause, diagnosis))]
    if diagnosis.confidence < SECOND_BELOW:
        claims += _step_of_the_second(story, diagnosis, step)
    return claims


def routing_step(alert: Alert) -> tuple[Claim, ...]:
    """What to change where a label names the exporter instead of the service, so that the next such
    alert is routed right; none where the labels are right."""
    label = misrouting_label(alert.labels, alert.service)
    if label is None:
        return ()
    source = (alert.service_from or "").removeprefix("its label ")
    if source.startswith("exported_"):
        change = "set honorLabels: true in the exporter's ServiceMonitor"
    elif source in alert.labels and alert.labels[source] == alert.service:
        change = f'add to the rule: labels: {{{label}: "{{{{ $labels.{source} }}}}"}}'
    else:
        change = (
            "add to the exporter's ServiceMonitor: "
            f"metricRelabelings: [{{action: labeldrop, regex: {label}}}]"
        )
    exporter = quotable(alert.labels[label])
    text = f"The alert's label {label} names the exporter {exporter}. To route it right, {change}"
    return (Claim(text=text, findings=()),)


def _fixes_of_the_alert(diagnosis: Diagnosis) -> list[Claim]:
    claims = []
    for finding in diagnosis.findings:
        fix = finding.details.fix
        explains = finding_kind(finding.kind).explains_alert
        if fix and (explains or finding.kind == ALERT_NOT_TRUE.name):
            claims.append(Claim(text=closed(quotable(fix)), findings=(finding.id,)))
    return claims


def _above_the_usual(diagnosis: Diagnosis) -> list[Claim]:
    """Which threshold would not have fired, of a signal that is bad when it is high."""
    for finding in diagnosis.findings:
        signal = finding.signal or ""
        is_high = is_bad(classify(signal), "up", headroom=is_headroom(signal))
        if finding.kind == ALERT_IN_RANGE.name and is_high and "high" in finding.numbers:
            high = amount(finding.numbers["high"], finding_unit(finding))
            text = f"Nothing now. If it repeats, set the alert's threshold well above {high}."
            return [Claim(text=text, findings=(finding.id,))]
    return []


def _worst_first(diagnosis: Diagnosis) -> list[Claim]:
    """Where to look while nothing is blamed: at the service with the largest share of failures."""
    findings_by_id = {finding.id: finding for finding in diagnosis.findings}
    failing = []
    for finding in diagnosis.impact.findings:
        share = failing_share(findings_by_id[finding]) if finding in findings_by_id else None
        if share:
            failing.append((share, finding))
    if diagnosis.verdict is not Verdict.INSUFFICIENT_EVIDENCE or not failing:
        return []
    if diagnosis.missing:
        # Then that is what to do something about.
        return []
    worst = findings_by_id[max(failing)[1]]
    who = subject_name(worst.subject)
    look = step_about(worst, diagnosis.findings) or f"Read the errors in the log of {who}."
    text = f"{look} Then ask again."
    return [Claim(text=text, findings=(worst.id,))]


def _fixes_of_the_signal(diagnosis: Diagnosis) -> list[Claim]:
    """What to do about a signal that is no longer collected."""
    claims = []
    for finding in diagnosis.findings:
        fix = finding.details.fix
        if fix and finding.kind in (SIGNAL_STOPPED.name, ALERT_QUERY_GONE.name):
            claims.append(Claim(text=closed(quotable(fix)), findings=(finding.id,)))
    return claims


def who_restores(story: Story) -> str:
    """What will undo the step, and where to make it instead."""
    restorer = None
    if story.change is not None:
        change = ChangeDetails.of(story.change)
        restorer = change.restored_by if change else None
    elif story.mechanism is not None:
        state = StateFactDetails.of(story.mechanism)
        restorer = state.restored_by if state else None
    if not restorer:
        return ""
    who = quotable(restorer)
    if restorer in _FROM_GIT:
        return f"{who.split(' with ')[0]} {_FROM_GIT[restorer]}: revert it there."
    if restorer.startswith("HorizontalPodAutoscaler"):
        return f"{who} will set the replicas again: change its minimum."
    if restorer.startswith("VerticalPodAutoscaler"):
        return f"{who} will set requests and limits again: change its bounds (maxAllowed)."
    if restorer.startswith("CronJob"):
        return f"{who} will do it again at its next run: suspend or change it."
    return f"{capitalised(who)} may write it back: change it there."


def _when_it_worked(story: Story) -> str:
    """How to see that the step helped: the effect's figure goes back to what it was."""
    effect = story.effect
    if effect is None:
        return ""
    if is_down(effect):
        return f"Fixed when all instances of {subject_name(effect.subject)} run."
    wording = statement(effect)
    if wording.verb is not None and wording.verb.present == FAIL.present:
        return f"Fixed when {possessive(subject_name(effect.subject))} requests succeed again."
    if "baseline" not in effect.numbers:
        return ""
    usual = next(
        (part for part in wording.clause(Tense.NOW).parts if part.number == "baseline"), None
    )
    if usual is None:
        return ""
    who = subject_name(effect.subject)
    fault = fault_of(effect)
    if fault is not None and fault.name == RESTARTS.name:
        return f"Fixed when {who} stops restarting."
    signal = signal_text(effect)
    verb = "are" if is_plural(signal) else "is"
    back = "back to 0" if not effect.numbers["baseline"] else f"back near {level_before(effect)}"
    return f"Fixed when {possessive(who)} {signal} {verb} {back}."


def _step_of_the_second(story: Story, diagnosis: Diagnosis, first: str) -> list[Claim]:
    """What to do if it is the other cause that the answer names."""
    second = other_candidate(story, diagnosis)
    if second is None or not second.next_step:
        return []
    cited = _cited(second, diagnosis)
    finding = next((finding for finding in diagnosis.findings if finding.id in cited[:1]), None)
    text = closed(quotable(_step(second, finding, diagnosis)))
    # The same step twice helps nobody.
    if text == first or not cited:
        return []
    return [Claim(text=f"Otherwise, {continued(text)}", findings=cited)]


def _step(cause: Cause, mechanism: Finding | None, diagnosis: Diagnosis) -> str:
    """What to do about a cause: its own step, or a more exact one where the cause has only that of
    its kind and the mechanism names the object."""
    step = cause.next_step or ""
    if cause.change:
        return _step_back(step, cause, diagnosis)
    cited = [finding for finding in diagnosis.findings if finding.id in cause.findings]
    finding = mechanism or (cited[0] if cited else None)
    if finding is None:
        return step
    exact = step_about(finding, diagnosis.findings)
    # Steps that hold for a whole kind of cause, as the templates have them.
    general = {kind.next_step for kind in cause_kinds().values()}
    general.add(finding.details.fix or "")
    for fault in _faults_of(cause, diagnosis):
        general |= {fault.step(None), fault.step("down")}
    who = subject_name(cause.subject)
    is_general = any(general_step.replace("{subject}", who) == step for general_step in general)
    return exact if exact is not None and is_general else step


def _step_back(step: str, cause: Cause, diagnosis: Diagnosis) -> str:
    """Which version or setting to go back from, and to which."""
    for finding in diagnosis.findings:
        if finding.kind != NEAR or change_named(finding) != cause.change:
            continue
        before = quotable(step_of(finding).before)
        name, who = change_name(cause.change or ""), subject_name(finding.subject)
        whole = f"{name} of {who}"
        if whole not in step:
            continue
        if finding.signal == "scale":
            return f"Scale {who} back to {before}." if before else step
        change = change_by_title(finding, with_kind=False)
        to = f" to {before}" if before else ""
        if change is not None:
            return step.replace(whole, f"{change}{to} ({name})")
        return step.replace(whole, f"{whole}{to}")
    return step


def _faults_of(cause: Cause, diagnosis: Diagnosis) -> list[FaultKind]:
    faults = [fault_of(finding) for finding in diagnosis.findings if finding.id in cause.findings]
    return [fault for fault in faults if fault is not None]


def _cited(cause: Cause, diagnosis: Diagnosis) -> tuple[str, ...]:
    ids = {finding.id for finding in diagnosis.findings}
    return tuple(finding for finding in cause.findings if finding in ids)[:CITED]
