"""What to do next, with the object that a finding names: more exact than the step of its kind of
fault, which knows the subject alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from analysis.analyzers import fault_of
from analysis.kinds.fault_kinds import CALLERS_FAIL, FAN_OUT, NETWORK, RESOURCE, TRAFFIC
from analysis.kinds.finding_details import (
    CallsIntoDetails,
    LogLineDetails,
    PlaceDetails,
    SignatureDetails,
    SpanShiftDetails,
)
from analysis.kinds.signals import SignalClass, is_headroom
from analysis.phrasing.log_forms import STEPS_OF_CALLED
from analysis.phrasing.phrase import listed, name
from analysis.phrasing.state_forms import (
    ObjectState,
    image_named,
    missing_object,
    quota_used,
    state_of,
)
from analysis.phrasing.statement import possessive
from analysis.vocabulary import Finding
from analysis.wording.names import subject_name

_USED: Mapping[SignalClass, str] = {
    SignalClass.CPU: "CPU",
    SignalClass.MEMORY: "memory",
    SignalClass.DISK: "disk",
}
_HELD = "the connections or threads"
_REDELIVERED = ("poison message", "poison pill", "redelivered")
"""Words with which consumers of a queue say that one message fails again and again."""


def step_about(finding: Finding) -> str | None:
    """The step; None where the finding names nothing that the general step does not."""
    state = state_of(finding)
    who = subject_name(finding.subject)
    if state is not None:
        step = _OF_STATES.get(state.fact)
        return step(state, who) if step is not None else None
    if PlaceDetails.of(finding) is not None:
        return _of_a_place(finding, who)
    signature = SignatureDetails.of(finding)
    if signature is not None:
        if signature.fix is not None and _HELD in signature.fix:
            return signature.fix.replace(_HELD, f"{possessive(who)} connections or threads")
        said = STEPS_OF_CALLED.get(signature.signature)
        if said is None or not signature.names:
            return None
        return said.replace("{who}", subject_name(signature.names))
    line = LogLineDetails.of(finding)
    if line is not None:
        return _of_a_line(line, who)
    fault = fault_of(finding)
    form = _OF_FAULTS.get(fault.name) if fault is not None else None
    return form(finding, who) if form is not None else None


def _of_a_line(line: LogLineDetails, who: str) -> str | None:
    if any(words in line.example.lower() for words in _REDELIVERED):
        return (
            f"Move the message aside (dead-letter queue) so that {who} can go on, then find out "
            "who wrote it."
        )
    return None


def _of_a_place(finding: Finding, who: str) -> str | None:
    details = PlaceDetails.of(finding)
    if details is None or not details.services:
        return None
    there = listed([name(service) for service in details.services], most=3)
    if details.place_kind == "node":
        return f"Check {who} first (kubectl describe node {who}), and drain it if it is unhealthy."
    return (
        f"Check {who} first: the provider's status, its nodes, its network. Move {there} out of it "
        "only if it is at fault."
    )


def _of_a_resource(finding: Finding, who: str) -> str | None:
    kind = SignalClass(finding.details.signal_class or SignalClass.OTHER.value)
    used = _USED.get(kind)
    if used is None:
        return None
    if is_headroom(finding.signal or "") or kind is SignalClass.DISK:
        return f"Find out what fills the {used} of {who}, free some of it, or add more."
    return (
        f"Find out what uses the {used} of {who} (a profile, its last rollout, its load), then "
        "add capacity or move load."
    )


def _of_callers(finding: Finding, who: str) -> str | None:
    details = CallsIntoDetails.of(finding)
    if details is None or not details.callers:
        return None
    caller = subject_name(details.callers[0])
    return f"Call {who} from a host of {caller}: does its name resolve, does it accept connections?"


def _on_the_network(finding: Finding, who: str) -> str | None:
    details = SpanShiftDetails.of(finding)
    if details is None or not details.caller:
        return None
    return (
        f"Check the network path from {subject_name(details.caller)} to {who}: the node of {who}, "
        "packet loss, network policies, the service mesh."
    )


def _of_more_calls(finding: Finding, who: str) -> str | None:
    callee = finding.series.get("service")
    if not callee:
        return None
    return (
        f"Look in one trace of {who} at which calls to {subject_name(callee)} repeat, and fetch "
        "them in one."
    )


def _of_more_requests(finding: Finding, who: str) -> str | None:
    if finding.details.direction != "up":
        return None
    return f"Find out where the extra requests to {who} come from, then scale it or shed them."


_OF_FAULTS: Mapping[str, Callable[[Finding, str], str | None]] = {
    RESOURCE.name: _of_a_resource,
    CALLERS_FAIL.name: _of_callers,
    NETWORK.name: _on_the_network,
    FAN_OUT.name: _of_more_calls,
    TRAFFIC.name: _of_more_requests,
}


def _restored(state: ObjectState, who: str) -> str | None:
    absent = missing_object(state.value)
    if absent is None:
        return None
    place = f" in namespace {state.namespace}" if state.namespace else ""
    return (
        f"Restore {absent[0]} {absent[1]}{place}, or correct its name in the pod template of {who}."
    )


def _image(state: ObjectState, who: str) -> str | None:
    image = image_named(state.value)
    if not image:
        return None
    return f"Check that image {image} exists, and that {who} may pull it."


def _volume(state: ObjectState, who: str) -> str | None:
    absent = missing_object(state.value)
    if absent is None:
        return None
    return f"Create {absent[0]} {absent[1]}, or name one that exists in {state.whole}."


def _quota(state: ObjectState, who: str) -> str | None:
    if not quota_used(state.value):
        return None
    return f"Raise {state.whole}, or scale down what uses it up."


def _port(state: ObjectState, who: str) -> str | None:
    if not state.value or not state.expected:
        return None
    return (
        f"Set the targetPort of {state.whole} to a port that its containers serve "
        f"({state.expected})."
    )


def _policy(state: ObjectState, who: str) -> str | None:
    if not state.value or not state.expected:
        return None
    return f"Allow calls from {state.value} to {state.expected} in {state.whole} again."


def _crash(state: ObjectState, who: str) -> str | None:
    if state.kind != "Pod" or not state.namespace:
        return None
    return (
        "Read its last lines before the crash: kubectl logs --previous -n "
        f"{state.namespace} {state.name}."
    )


def _node(state: ObjectState, who: str) -> str | None:
    if state.kind != "Node":
        return None
    return f"Drain {who} (kubectl drain {who}), then look at its kubelet, network and machine."


_OF_STATES: Mapping[str, Callable[[ObjectState, str], str | None]] = {
    "reference_missing": _restored,
    "image_unavailable": _image,
    "volume_unavailable": _volume,
    "quota_exceeded": _quota,
    "port_not_served": _port,
    "traffic_blocked": _policy,
    "crash_loop": _crash,
    "crashed": _crash,
    "node_not_ready": _node,
}
