"""What an answer is about: the effect that somebody notices, what brings it about, and the change
behind that."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultline.analysis.analyzers import fault_of, finding_kind
from faultline.analysis.changes.nearby import NEAR
from faultline.analysis.changes.versions import UNKNOWN, Step, step_in
from faultline.analysis.kinds.fault_kinds import (
    AVAILABILITY,
    CALLERS_FAIL,
    CONNECTIONS,
    ERRORS,
    FLOW_BREAK,
    LATENCY,
    RESOURCE,
    RESTARTS,
    SPAN_ERRORS,
    TRAFFIC,
)
from faultline.analysis.kinds.finding_details import (
    ChangeDetails,
    LogLineDetails,
    MetricShiftDetails,
    PartDetails,
    SignatureDetails,
    StateFactDetails,
    change_named,
)
from faultline.analysis.kinds.finding_kinds import CHANGE_RULED_OUT, PART_CONTRAST
from faultline.analysis.phrasing.log_forms import WHY_CALLS_FAIL
from faultline.analysis.phrasing.metric_forms import (
    AGAIN,
    failing_share,
    grew_much,
    is_shift,
    used_up,
)
from faultline.analysis.phrasing.state_forms import is_down
from faultline.analysis.phrasing.statement import Part, Phrase, Slot, clock, name, quote, say
from faultline.analysis.vocabulary import Alert, Cause, Diagnosis, Finding, Verdict
from faultline.analysis.wording.names import change_name, subject_name

_KINDS = {
    "config": "config change",
    "flag": "flag",
    "scale": "scaling",
    "merge": "merge",
    "migration": "migration",
}

EARLIER = timedelta(minutes=10)
"""An onset this long before the blamed change has another cause: collection intervals and clocks
explain minutes at most."""
_ENDS = frozenset(
    {
        RESTARTS.name,
        "crash_loop",
        "crashed",
        "run_ended",
        "gpu_idle_alone",
        "gpu_missing",
        "gpu_spinning",
    }
)
MOSTLY = 0.5
TOLERATED = 0.001
"""Of requests, what an objective of 99.9 % lets fail (Google, The Site Reliability Workbook,
"Implementing SLOs")."""
IN_STEP = 0.1
"""A lower agreement with the alerting signal is none."""
AS_MUCH = 0.8
"""Requests that rose by this part of a resource's rise explain it."""
_FAILURES = frozenset({ERRORS.name, AVAILABILITY.name, SPAN_ERRORS.name})
_MERE_SYMPTOMS = _FAILURES | {LATENCY.name}


_TICKET = re.compile(r"[A-Z][A-Z0-9]*-\d+")
"""A title that is only a ticket's key says nothing."""
_ROLLOUT = re.compile(
    r"^Rollout of \S{1,253}: (.{1,300}) \(\w{1,20} \S{1,320}, revision \d{1,9}\)$"
)
"""The title that the Kubernetes connector gives a rollout."""
_DONE_TO_A_SERVICE = frozenset({"deploy", "scale", "merge", "migration"})
_BEGINNINGS = {"job": "start", "restart": "restart"}
"""Kinds that bring no version and whose title is no name."""
_LONG_TITLE = 48
"""A longer title is no name: it stands with the evidence."""


@dataclass(frozen=True)
class Story:
    """The findings that make up an answer's first sentence."""

    cause: Cause | None
    effect: Finding | None
    """What somebody outside of the culprit notices."""
    mechanism: Finding | None
    """What is wrong with the culprit, where that is more than the effect."""
    change: Finding | None
    part: Finding | None = None
    """Which of the culprit's pods, versions or zones are worse, where the others are not."""


def story_of(diagnosis: Diagnosis, alert: Alert) -> Story:
    """The story of the first cause."""
    cause = diagnosis.first_cause
    findings_by_id = {finding.id: finding for finding in diagnosis.findings}
    if cause is None:
        return Story(None, _effect(diagnosis, findings_by_id, alert), None, None)
    cited = [findings_by_id[finding] for finding in cause.findings if finding in findings_by_id]
    effect = _worst(_effect(diagnosis, findings_by_id, alert), diagnosis, cited)
    if effect is None:
        effect = _alerting(diagnosis, alert) or _failing(cause, cited)
    elif _is_fault(effect, RESTARTS.name):
        effect = _failing(cause, cited) or _alerting(diagnosis, alert) or effect
    change = next((finding for finding in cited if _is_blamed(finding, cause)), None)
    mechanism = _mechanism(cited, cause, effect)
    if mechanism is not None and _is_fault(mechanism, CALLERS_FAIL.name):
        mechanism = _why_calls_fail(cause, diagnosis) or mechanism
    return Story(cause, effect, mechanism, change, _worse_part(cause, cited, mechanism))


def _worse_part(
    cause: Cause, cited: Iterable[Finding], mechanism: Finding | None
) -> Finding | None:
    if mechanism is not None and not is_mere_symptom(mechanism):
        return None
    for finding in cited:
        details = PartDetails.of(finding)
        if finding.kind != PART_CONTRAST.name or finding.subject != cause.subject:
            continue
        if details is not None and len(details.parts) == 1 and details.parts_known > 1:
            return finding
    return None


def is_explained(story: Story) -> bool:
    """Whether more than the place of the trouble is known."""
    if story.cause is None:
        return False
    if story.change is not None:
        return True
    if story.mechanism is None or is_mere_symptom(story.mechanism):
        return False
    # That something ended, hangs or fell silent has another reason.
    fault = fault_of(story.mechanism)
    return fault is None or fault.name not in _ENDS


def alerting(diagnosis: Diagnosis, alert: Alert) -> str:
    """The service that alerted: the alert's own, else the one with whose name its title begins;
    empty where neither is known."""
    if alert.service:
        return alert.service
    services = {*diagnosis.impact.services, *(finding.subject for finding in diagnosis.findings)}
    title = re.split(r"[\s:]", alert.title, maxsplit=1)[0]
    return title if title in services else ""


def change_called(change: Finding, *, with_service: bool, with_time: bool = True) -> Phrase:
    """A change by its kind, short id, service and time: "deploy 559e94c of checkout (14:59)"."""
    details = ChangeDetails.of(change)
    kind = (details.change_kind if details else None) or change.signal or "change"
    change_id = (details.change if details else "") or ""
    time: Slot = ""
    if with_time and change.onset is not None:
        time = say(" ({time} UTC)", time=clock(change.onset))
    return say(
        "{kind} {id}{service}{time}",
        kind=_KINDS.get(kind, kind),
        id=Part(change_name(change_id), "name", change.id),
        service=say(" of {it}", it=name(change.subject)) if with_service else "",
        time=time,
    )


def title_of(change: Finding) -> str:
    """What the change's title says; empty where that is a ticket's key."""
    details = ChangeDetails.of(change)
    title = (details.title or "").strip() if details else ""
    return "" if _TICKET.fullmatch(title) else title


def step_of(change: Finding) -> Step:
    """What was in effect before a change and after it; from its title in findings of earlier
    versions."""
    details = ChangeDetails.of(change)
    if details is None:
        return UNKNOWN
    if details.before or details.after:
        return Step(details.before or "", details.after or "")
    return step_in(details.change_kind or change.signal or "", details.title or "")


def change_by_title(
    change: Finding, *, with_kind: bool = True, with_service: bool = True
) -> Phrase | None:
    """A change by its new version or the words of its title: "deploy of checkout v1.7.0", "config
    change “update pool sizes” of cart"; None where it has neither."""
    details = ChangeDetails.of(change)
    kind = (details.change_kind if details else None) or change.signal or "change"
    if kind in _BEGINNINGS:
        return say("{kind} of {it}", kind=_BEGINNINGS[kind], it=name(change.subject))
    prefix = f"{_KINDS.get(kind, kind)} " if with_kind else ""
    step = step_of(change)
    if step.after and (kind != "scale" or step.before):
        return change_by_values(change, step, kind, prefix)
    whole, service = title_of(change), subject_name(change.subject)
    # Of a rollout without a new version, what it changed in the pods' template. Only the service
    # says whose that is.
    title = _ROLLOUT.sub(r"\1", whole)
    with_service |= title != whole
    # What the kind and the service say already is no part of the name.
    for word in (kind, "config", "of", service, "of", ":"):
        # "config" is no part of "ConfigMap".
        if re.match(rf"{re.escape(word)}(?![A-Za-z])", title, re.IGNORECASE):
            title = title[len(word) :].lstrip()
    if not 0 < len(title) <= _LONG_TITLE:
        return None
    of = "" if service in title or not with_service else say(" of {it}", it=name(change.subject))
    return say("{kind}{title}{of}", kind=prefix, title=quote(title, change), of=of)


def change_by_values(change: Finding, step: Step, kind: str, prefix: str) -> Phrase:
    """ "deploy of checkout v1.7.0", "scaling of checkout from 3 to 1"."""
    if prefix and kind in _DONE_TO_A_SERVICE:
        prefix += "of "
    service, after = name(change.subject), Part(step.after, "name", change.id)
    if kind != "scale":
        return say("{kind}{service} {version}", kind=prefix, service=service, version=after)
    before = Part(step.before, "name", change.id)
    return say(
        "{kind}{service} from {before} to {after}",
        kind=prefix, service=service, before=before, after=after,
    )  # fmt: skip


def tells_nothing(finding: Finding) -> bool:
    """Whether it is a log line that is merely new, rarer or missing: no reader learns from it why
    something fails."""
    details = LogLineDetails.of(finding)
    return details is not None and not details.is_error


def began(diagnosis: Diagnosis) -> datetime | None:
    """When the effect began, else the cause: one onset for every rendering."""
    first, since = diagnosis.first_cause, _impact_since(diagnosis)
    if first is None or since is None or first.onset is None or not first.change:
        return since or (first.onset if first else None)
    live = [finding.onset for finding in diagnosis.findings if _is_blamed(finding, first)]
    # What moved long before the blamed change went live is not what the change did.
    if live and live[0] is not None and since < live[0] - EARLIER and first.onset > since:
        return first.onset
    return since


def _impact_since(diagnosis: Diagnosis) -> datetime | None:
    """When the impact began. What moved long before what leads it was another service's matter."""
    since = diagnosis.impact.since
    for finding in diagnosis.findings:
        is_lead = finding.id in diagnosis.impact.findings[:1]
        if is_lead and since and finding.onset and since < finding.onset - EARLIER:
            return finding.onset
    return since


def _effect(diagnosis: Diagnosis, findings: dict[str, Finding], alert: Alert) -> Finding | None:
    """The first symptom of the impact: what leads it, or else one of the alerting service."""
    for place, finding_id in enumerate(diagnosis.impact.findings):
        finding = findings.get(finding_id)
        fault = fault_of(finding) if finding is not None else None
        if finding is None or fault is None or _hardly_fails(finding):
            continue
        # Leave out what nobody outside notices: it is no symptom, and nothing restarts.
        if not fault.is_symptom and fault.name != RESTARTS.name:
            continue
        if place == 0 or finding.subject == alert.service:
            return finding
    return None


def _worst(
    effect: Finding | None, diagnosis: Diagnosis, cited: Sequence[Finding]
) -> Finding | None:
    """Where a service is down, or most of its requests fail, that it became slow is the lesser
    part."""
    if effect is None:
        return None
    for finding in cited:
        if finding.subject == effect.subject and is_down(finding):
            return finding
    if not _is_fault(effect, LATENCY.name) and failing_share(effect) is not None:
        return effect
    if not _is_fault(effect, LATENCY.name) and not _is_fault(effect, ERRORS.name):
        return effect
    for finding in diagnosis.findings:
        if finding.subject == effect.subject and fails_mostly(finding):
            return finding
    return effect


def fails_mostly(finding: Finding) -> bool:
    """Whether it says that most requests of its subject fail."""
    if not (_is_fault(finding, ERRORS.name) or _is_fault(finding, AVAILABILITY.name)):
        return False
    share = failing_share(finding)
    return share is not None and share >= MOSTLY


def _failing(cause: Cause, cited: Sequence[Finding]) -> Finding | None:
    """The culprit's own failing or slow requests, where nobody measured its callers'."""
    symptoms = [
        finding
        for finding in cited
        if finding.subject == cause.subject
        and is_mere_symptom(finding)
        and not _hardly_fails(finding)
    ]
    return max(symptoms, key=lambda finding: finding.strength, default=None)


def _alerting(diagnosis: Diagnosis, alert: Alert) -> Finding | None:
    """What the alerting service shows itself, where nothing stronger tells the effect: the alert
    vouches for it."""
    findings = []
    for finding in diagnosis.findings:
        lasts = not finding.details.recovered or diagnosis.verdict is Verdict.RECOVERED
        is_bad = is_mere_symptom(finding) and finding.details.bad is not False
        is_bad = is_bad and not _hardly_fails(finding)
        if finding.subject == alert.service and lasts and is_bad:
            findings.append(finding)
    return max(
        findings,
        key=lambda finding: (failing_share(finding) or 0.0, finding.strength),
        default=None,
    )


def _hardly_fails(finding: Finding) -> bool:
    """Whether fewer requests fail than objectives allow: no effect that a sentence begins with."""
    share = failing_share(finding)
    return _is_fault(finding, ERRORS.name) and share is not None and share < TOLERATED


def is_mere_symptom(finding: Finding) -> bool:
    """Whether it says that its subject is slow or fails, and not why."""
    fault = fault_of(finding)
    return fault is not None and fault.name in _MERE_SYMPTOMS


def _is_fault(finding: Finding, name: str) -> bool:
    fault = fault_of(finding)
    return fault is not None and fault.name == name


def _is_blamed(finding: Finding, cause: Cause) -> bool:
    return finding.kind == NEAR and bool(cause.change) and change_named(finding) == cause.change


def _mechanism(cited: list[Finding], cause: Cause, effect: Finding | None) -> Finding | None:
    """The leading finding about the culprit, unless that is the effect: then its strongest that
    says more than a symptom."""
    about = [
        finding
        for finding in cited
        if finding.subject == cause.subject and _may_explain(finding, effect)
    ]
    if not about:
        return None
    first = about[0]
    strongest = max(filter(_explains, about), key=_tells, default=None)
    repeats_effect = effect is not None and _says_the_same(first, effect)
    if strongest is None:
        if cause.change and _is_fault(first, CALLERS_FAIL.name):
            # What the change did to its own service says more than that its callers notice.
            symptoms = [finding for finding in about if _carries(finding, effect)]
            first = max(symptoms, key=lambda finding: finding.strength, default=first)
        return None if repeats_effect else _load_behind(first, about)
    error = _decisive_error(about, strongest, effect)
    if error is not None:
        return error
    if repeats_effect or _says_more(strongest, first):
        return _load_behind(strongest, about)
    return _load_behind(first, about)


def _decisive_error(
    about: Sequence[Finding], strongest: Finding, effect: Finding | None
) -> Finding | None:
    """The error that the culprit logs, where its strongest finding says less than that."""
    for finding in about:
        # What the service has by itself, such as a full heap, says why a resource is used more.
        signature = SignatureDetails.of(finding)
        if signature is None or not signature.inherent:
            continue
        if is_shift(about[0]) and is_shift(strongest):
            return finding
    error = next(filter(_is_self_error, about), None)
    if error is None:
        return None
    is_first = error.id == about[0].id
    # What it logs says more than that it is busier than before.
    if is_first and _is_load(strongest):
        return error
    # That it is slower does not say why requests fail; an error that it logs does.
    fault = fault_of(effect) if effect is not None else None
    fails = fault is not None and fault.name in _FAILURES
    if fails and _only_slows(strongest) and (is_first or _only_slows(about[0])):
        return error
    return None


def _says_more(strongest: Finding, first: Finding) -> bool:
    """Whether the strongest finding says why, where the first one says only that something is
    wrong."""
    # That callers cannot reach it, or that it logs errors, says less than what says why.
    if _is_fault(first, CALLERS_FAIL.name) or LogLineDetails.of(first) is not None:
        return LogLineDetails.of(strongest) is None
    # What else rose says more than that it is slow, or that requests end early in it.
    if is_mere_symptom(first) or _is_fault(first, FLOW_BREAK.name):
        return is_shift(strongest)
    return False


def _why_calls_fail(cause: Cause, diagnosis: Diagnosis) -> Finding | None:
    """What the culprit's callers log about it, where that says why their calls fail."""
    findings = []
    for finding in diagnosis.findings:
        details = SignatureDetails.of(finding)
        if details is None or details.names != cause.subject:
            continue
        if details.signature in WHY_CALLS_FAIL:
            findings.append(finding)
    return max(findings, key=lambda finding: finding.strength, default=None)


def _only_slows(finding: Finding) -> bool:
    fault = fault_of(finding)
    return fault is not None and fault.inherent and fault.alerts_as == "latency"


def _is_self_error(finding: Finding) -> bool:
    """Whether it is an error that the service logs, and that names no other service."""
    line = LogLineDetails.of(finding)
    return line is not None and line.is_error and not line.names


def _carries(symptom: Finding, effect: Finding | None) -> bool:
    """Whether a symptom of the culprit can bring the effect about: 2 % of failing requests do not
    make 15 % of its callers' fail."""
    share = failing_share(symptom)
    felt = failing_share(effect) if effect is not None else None
    return is_mere_symptom(symptom) and (share is None or felt is None or share >= felt)


def _is_load(finding: Finding) -> bool:
    """Whether a busy service shows the same: more of a resource in use, which is not used up."""
    fault = fault_of(finding)
    if fault is None or fault.is_symptom or not fault.rises_with_load:
        return False
    return is_shift(finding) and not used_up(finding)


def _load_behind(mechanism: Finding | None, about: Sequence[Finding]) -> Finding | None:
    """More requests, where they rose as much as the resource that they use."""
    if mechanism is None or not _is_load(mechanism):
        return mechanism
    for finding in about:
        more = finding.numbers.get("ratio", 0.0)
        is_more = _is_fault(finding, TRAFFIC.name) and finding.details.direction == "up"
        # Without a ratio there is no rise to explain.
        if is_more and more >= AS_MUCH * mechanism.numbers.get("ratio", math.inf):
            return finding
    return mechanism


def _may_explain(finding: Finding, effect: Finding | None) -> bool:
    """Whether it is no change, nothing from memory, no move that means little, and more than that
    no instance runs, where that is the effect: then requests fail, and nothing is ready."""
    if finding.kind in (NEAR, CHANGE_RULED_OUT.name) or finding_kind(finding.kind).is_memory:
        return False
    state = StateFactDetails.of(finding)
    if state is not None and state.is_history:
        return False
    if effect is not None and is_down(effect):
        is_not_ready = state is not None and state.fact in ("no_ready_endpoints", "rollout_stuck")
        if is_not_ready or is_mere_symptom(finding):
            return False
    return not (is_down(finding) or is_small_rise(finding) or is_out_of_step(finding))


def _tells(finding: Finding) -> tuple[bool, bool, float]:
    """How much it explains: what a line means says more than the line, and anything says more than
    that requests end early, as all do that fail."""
    is_line = LogLineDetails.of(finding) is not None
    return not is_line, not _is_fault(finding, FLOW_BREAK.name), finding.strength


def _explains(finding: Finding) -> bool:
    """Whether it says more than that the culprit is slow or fails."""
    says_little = tells_nothing(finding) or _is_fault(finding, CALLERS_FAIL.name)
    return not says_little and not _is_symptom(finding)


def is_out_of_step(finding: Finding) -> bool:
    """Whether it restarted once, at another time than the alert's trouble."""
    details = MetricShiftDetails.of(finding)
    if details is None or not _is_fault(finding, RESTARTS.name) or details.agreement is None:
        return False
    again = finding.numbers.get("incident", 0.0) - finding.numbers.get("baseline", 0.0) >= AGAIN
    return not again and details.agreement < IN_STEP


def is_small_rise(finding: Finding) -> bool:
    """Whether a resource is used a little more, as any busy service uses it."""
    used = _is_fault(finding, RESOURCE.name) or _is_fault(finding, CONNECTIONS.name)
    return used and not grew_much(finding)


def _is_symptom(finding: Finding) -> bool:
    fault = fault_of(finding)
    return fault is None or fault.is_symptom


def _says_the_same(finding: Finding, other: Finding) -> bool:
    """Whether both are symptoms of one service."""
    if finding.id == other.id or finding.sentence == other.sentence:
        return True
    calls_fail = _is_fault(finding, CALLERS_FAIL.name)
    return (
        finding.subject == other.subject
        and _is_symptom(other)
        and (calls_fail or _is_symptom(finding))
    )
