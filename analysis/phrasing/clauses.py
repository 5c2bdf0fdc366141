"""What a finding says of its subject, as a statement that a larger sentence can take up.

A kind of finding that has no form is worded by its own sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.fault_kinds import (
    AVAILABILITY,
    CALLERS_FAIL,
    CRITICAL_PATH,
    ERROR_ORIGIN,
    ERRORS,
    FAN_OUT,
    FLOW_BREAK,
    LATENCY,
    LOG_ERRORS,
    NETWORK,
    PLACE,
    RESOURCE,
    RESTARTS,
    SELF_TIME,
    SPAN_ERRORS,
)
from faultline.analysis.kinds.finding_details import JobDetails, StateFactDetails
from faultline.analysis.kinds.finding_kinds import (
    ALERT_FLAPPING,
    ALERT_IN_RANGE,
    FAILURE_SIGNATURE,
    LOG_NEW,
    LOG_SURGE,
    METRIC_SHIFT,
    PLACE_CONTRAST,
    SIGNAL_RECOVERED,
    SIGNAL_STOPPED,
    THRESHOLD_IN_NORMAL_RANGE,
    USUAL_MOVE,
)
from faultline.analysis.kinds.signals import parts_of
from faultline.analysis.phrasing import (
    log_forms,
    metric_forms,
    request_forms,
    state_forms,
    training_forms,
)
from faultline.analysis.phrasing.statement import (
    Form,
    Phrase,
    Statement,
    Voice,
    name,
    say,
    sentence_clause,
)
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import plain


def statement(finding: Finding, *, as_pronoun: bool = False) -> Statement:
    """What the finding says of its subject. `as_pronoun`: the sentence has just named the
    subject."""
    voice = Voice(finding.subject, as_pronoun=as_pronoun)
    fault = fault_of(finding)
    form = _FORMS.get(fault.name) if fault is not None else None
    form = form or _FORMS_OF_KINDS.get(finding.kind)
    # An object's state is worded by what the connector says, whatever its fault is.
    if StateFactDetails.of(finding) is not None:
        form = state_forms.of_an_object
    elif form is None and JobDetails.of(finding) is not None:
        form = training_forms.of_a_job
    form_statement = form(finding, voice) if form is not None else None
    return (
        form_statement.of_place(place_phrase(finding))
        if form_statement
        else _sentence_statement(finding, voice)
    )


def place_phrase(finding: Finding) -> str:
    """`in cluster-b`, of a metric that its finding speaks of in one place; else empty."""
    try:
        labels = json.loads(finding.series.get("labels") or "{}")
    except ValueError:
        return ""
    for kind, place in (parts_of(labels) if isinstance(labels, dict) else {}).items():
        # Only a place that the sentence names itself: a label alone does not make it the point.
        if f" in {kind} {plain(place)} " in finding.sentence:
            called = plain(place) if kind in place else f"{kind} {plain(place)}"
            # The series is one pod's: of the others in that place it says nothing.
            return f"in one pod of {called}" if "pod" in labels else f"in {called}"
    return ""


def _sentence_statement(finding: Finding, voice: Voice) -> Statement:
    """The finding's own sentence; in short what its fault does."""
    fault = fault_of(finding)
    short = None
    if fault is not None and fault.description:
        short = say("{who} {does}", who=voice.who, does=fault.description)
    return Statement(sentence_clause(finding), None, shorter=short)


def brief(finding: Finding) -> Phrase:
    """The same in a few words without figures, where a whole clause is too long."""
    fault = fault_of(finding)
    who = name(finding.subject)
    if fault is None:
        return say("something is wrong with {who}", who=who)
    words = _BRIEF.get(fault.name)
    if words is None:
        return say("{who} {does}", who=who, does=fault.description)
    return say(words, who=who)


_FORMS: Mapping[str, Form] = {
    LATENCY.name: metric_forms.slow,
    ERRORS.name: metric_forms.fails,
    AVAILABILITY.name: metric_forms.unavailable,
    RESOURCE.name: metric_forms.resource,
    RESTARTS.name: metric_forms.restarts,
    SPAN_ERRORS.name: request_forms.span_errors,
    SELF_TIME.name: request_forms.self_time,
    NETWORK.name: request_forms.on_the_network,
    FLOW_BREAK.name: request_forms.path_ended,
    CRITICAL_PATH.name: request_forms.critical_path,
    ERROR_ORIGIN.name: request_forms.error_origin,
    FAN_OUT.name: request_forms.fan_out,
    CALLERS_FAIL.name: request_forms.calls_into,
    LOG_ERRORS.name: log_forms.logged,
    "straggler": training_forms.straggler,
    "gpu_spinning": training_forms.spinning,
    "gpu_idle_alone": training_forms.idle_alone,
    "gpu_throttled": training_forms.throttled,
    "run_ended": training_forms.run_ended,
    "dataloader_stall": training_forms.stalled,
}
"""By the fault that a finding speaks of."""
_FORMS_OF_KINDS: Mapping[str, Form] = {
    METRIC_SHIFT.name: metric_forms.shifted,
    PLACE_CONTRAST.name: state_forms.worse_there,
    FAILURE_SIGNATURE.name: log_forms.logged,
    LOG_NEW.name: log_forms.logged,
    LOG_SURGE.name: log_forms.logged,
    ALERT_IN_RANGE.name: log_forms.usual_level,
    THRESHOLD_IN_NORMAL_RANGE.name: log_forms.threshold,
    USUAL_MOVE.name: log_forms.usual_move,
    ALERT_FLAPPING.name: log_forms.flapping,
    SIGNAL_STOPPED.name: log_forms.stopped,
    SIGNAL_RECOVERED.name: log_forms.back_again,
}
"""By the kind of finding, for what is no fault or a fault without its own form."""
_BRIEF: Mapping[str, str] = {
    LOG_ERRORS.name: "{who} logs errors it did not log before",
    FLOW_BREAK.name: "requests end early in {who}",
    ERROR_ORIGIN.name: "requests fail in {who}",
    CRITICAL_PATH.name: "{who} takes most of the time",
    SELF_TIME.name: "{who} itself got slower",
    NETWORK.name: "the network to {who} is slow",
    CALLERS_FAIL.name: "calls to {who} fail",
    FAN_OUT.name: "{who} makes more calls per request",
    RESOURCE.name: "{who} uses more CPU, memory or disk than before",
    PLACE.name: "{who} is in trouble",
    SPAN_ERRORS.name: "{who} fails",
    ERRORS.name: "{who} fails",
    LATENCY.name: "{who} is slow",
}
