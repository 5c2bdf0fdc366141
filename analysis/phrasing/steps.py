"""What to do next, with the object that a finding names: more exact than the step of its kind of
fault, which knows the subject alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.fault_kinds import (
    AVAILABILITY,
    CALLERS_FAIL,
    CRITICAL_PATH,
    ERROR_ORIGIN,
    ERRORS,
    FAN_OUT,
    LATENCY,
    NETWORK,
    RESOURCE,
    RESTARTS,
    SELF_TIME,
    SPAN_ERRORS,
    TRAFFIC,
)
from faultline.analysis.kinds.finding_details import (
    CallsIntoDetails,
    JobDetails,
    LogLineDetails,
    PlaceDetails,
    SignatureDetails,
    SpanShiftDetails,
)
from faultline.analysis.kinds.signals import SCRAPES, SignalClass, is_headroom
from faultline.analysis.phrasing.log_forms import STEPS_OF_CALLED, message_of
from faultline.analysis.phrasing.state_forms import state_of
from faultline.analysis.phrasing.state_steps import state_step
from faultline.analysis.phrasing.statement import QUOTED, clock, listed, name, possessive
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import MILLISECONDS, amount, times
from faultline.analysis.wording.names import operation_of, subject_name
from faultline.analysis.wording.phrases import plain

_USED: Mapping[SignalClass, str] = {
    SignalClass.CPU: "CPU",
    SignalClass.MEMORY: "memory",
    SignalClass.DISK: "disk",
}
_POOL_RESOURCES = "the connections or threads"
_WAITS = ("timed out", "timeout", "time-out", "no answer within", "deadline exceeded")
CLEARLY_MORE = 1.5
"""A rise of requests that is worth a look, although it may not be what slows a service."""
_RAISED = re.compile(r"\braises (\w+) in (\w+ \([^()]+:\d+\))")
"""As findings name an exception of a rank: `raises ValueError in load (train.py:77)`."""
_SLOW_QUERY = ("slow query", "slow statement", "slow sql")
_DATABASE = re.compile(
    r"(?:^|[-_.])(?:db|database|postgres(?:ql)?|mysql|mariadb|aurora|mssql|oracle)(?:$|[-_.\d])",
    re.IGNORECASE,
)
"""Names that people give to databases."""
_SAYS_LITTLE = frozenset(
    {LATENCY.name, ERRORS.name, SPAN_ERRORS.name, ERROR_ORIGIN.name, SELF_TIME.name}
)
"""Faults that name the place of the trouble, and not what to look at there."""
_REDELIVERED = ("poison message", "poison pill", "redelivered")
"""Words with which consumers of a queue say that one message fails again and again."""


def step_about(finding: Finding, about: Sequence[Finding] = ()) -> str | None:
    """The step; None where the finding names nothing that the general step does not."""
    state = state_of(finding)
    who = subject_name(finding.subject)
    # An object's own state says what is wrong, so it goes before the kind of fault.
    if state is not None:
        return state_step(state, who)
    if PlaceDetails.of(finding) is not None:
        return _of_a_place(finding, who)
    signature = SignatureDetails.of(finding)
    if signature is not None:
        return _of_a_signature(signature, finding.subject, about)
    line = LogLineDetails.of(finding)
    if line is not None:
        return _of_a_line(line, who)
    raised = _RAISED.search(
        " ".join(fact.sentence for fact in about if fact.subject == finding.subject)
    )
    # Only a training job has a traceback of a rank to look up.
    if raised is not None and JobDetails.of(finding) is not None:
        return (
            f"Fix what raises {raised[1]} in {raised[2]} (the traceback is in the log of {who}), "
            "then start the job again from its last checkpoint."
        )
    fault = fault_of(finding)
    if fault is None:
        return None
    form = _OF_FAULTS.get(fault.name)
    if form is not None:
        return form(finding, who, about)
    return _by_findings(finding.subject, about) if fault.name in _SAYS_LITTLE else None


def _of_a_line(line: LogLineDetails, who: str) -> str | None:
    if any(words in line.example.lower() for words in _REDELIVERED):
        return (
            f"Move the message aside (dead-letter queue) so that {who} can go on, then find out "
            "who wrote it."
        )
    # Mask before cutting: half of a secret is no longer recognised.
    text = plain(masked(message_of(line.example)), QUOTED)
    if any(words in line.example.lower() for words in _SLOW_QUERY):
        return f"Find the statement behind “{text}” in the slow query log of {who}, and its plan."
    return f"Look up where {who} logs “{text}”, and what the code does there."


def _of_a_signature(
    signature: SignatureDetails, subject: str, about: Sequence[Finding]
) -> str | None:
    """Where a pool runs out, see what holds its connections: calls that fail or wait."""
    if signature.fix is None or _POOL_RESOURCES not in signature.fix:
        call_step = STEPS_OF_CALLED.get(signature.signature)
        if signature.inherent and signature.fix:
            # What a host runs out of is raised there, whichever service notices.
            is_on_host = signature.accuses == "host" and len(signature.hosts) == 1
            place = subject_name(signature.hosts[0] if is_on_host else subject)
            return f"On {place}: {signature.fix[:1].lower()}{signature.fix[1:]}"
        if call_step is None or not signature.names:
            return None
        return call_step.replace("{who}", subject_name(signature.names))
    who = possessive(subject_name(subject))
    kinds = [kind for kind in ("connection", "thread") if kind in signature.example.lower()]
    phrase = f"{kinds[0]}s" if len(kinds) == 1 else "connections or threads"
    for finding in about:
        calls = CallsIntoDetails.of(finding)
        if calls is not None and subject in calls.callers:
            callee = subject_name(finding.subject)
            return (
                f"See what {callee} is busy with (running statements, locks, slow calls): {who} "
                f"{phrase} are held by its calls to {callee}, or the pool is too small."
            )
    return f"Find out what holds {who} {phrase}: slow calls, leaks, a pool that is too small."


def _by_findings(subject: str, about: Sequence[Finding]) -> str | None:
    """Of a service that is merely slow or failing: the first thing that its findings point to."""
    who = subject_name(subject)
    findings = [finding for finding in about if finding.subject == subject]
    more = _more_requests(findings)
    if more is not None:
        return f"Find out who sends {who} {more}, then scale it or shed them."
    for finding in findings:
        line = LogLineDetails.of(finding)
        # A line that names another service, or a status, is about what it called.
        if line is not None and line.is_error and not line.names and line.code is None:
            return _of_a_line(line, who)
    for finding in findings:
        fault, operation = fault_of(finding), finding.series.get("operation")
        if fault is None or not operation:
            continue
        called = operation_of(subject, operation)
        of = f"{called} requests" if called else "requests"
        if fault.name in (SPAN_ERRORS.name, ERROR_ORIGIN.name):
            return f"Open failing {of} of {who} in the traces: with what do they end, and where?"
        if fault.name == SELF_TIME.name:
            return f"Open slow {of} of {who} in the traces, or profile it: the time is its own."
    return None


def _of_availability(finding: Finding, who: str, about: Sequence[Finding]) -> str | None:
    step = _by_findings(finding.subject, about)
    if step is not None or finding.signal != SCRAPES:
        return step
    return (
        f"Read on Prometheus' page /targets why scrapes of {who} fail, and call the address named "
        "there: a moved port or path, a network policy, or an instance that is gone."
    )


def _more_requests(findings: Sequence[Finding]) -> str | None:
    """`3.1x its usual requests`, where the service gets clearly more."""
    for finding in findings:
        fault, ratio = fault_of(finding), finding.numbers.get("ratio", 0.0)
        rises = fault is not None and fault.name == TRAFFIC.name
        if rises and finding.details.direction == "up" and ratio >= CLEARLY_MORE:
            return f"{times(ratio)} its usual requests"
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


def _of_a_resource(finding: Finding, who: str, about: Sequence[Finding]) -> str | None:
    kind = SignalClass(finding.details.signal_class or SignalClass.OTHER.value)
    used = _USED.get(kind)
    if used is None:
        return None
    # Disks and headroom run out by what is kept, whatever the requests are.
    if is_headroom(finding.signal or "") or kind is SignalClass.DISK:
        return f"Find out what fills the {used} of {who}, free some of it, or add more."
    more = _more_requests([fact for fact in about if fact.subject == finding.subject])
    if more is not None:
        return f"Find out who sends {who} {more}, then scale it or shed them."
    # The profile of a database says less than its statements.
    if _DATABASE.search(finding.subject):
        return f"List the statements that run on {who} now, and see which of them is new or costly."
    if kind is SignalClass.MEMORY:
        return f"Take a heap profile of {who}, compare its last rollouts, and add memory meanwhile."
    return f"Take a CPU profile of {who}, compare its last rollouts, and add capacity meanwhile."


def _of_callers(finding: Finding, who: str, about: Sequence[Finding]) -> str | None:
    details = CallsIntoDetails.of(finding)
    if details is None or not details.callers:
        return None
    caller = subject_name(details.callers[0])
    for fact in about:
        line = LogLineDetails.of(fact) or SignatureDetails.of(fact)
        fits = (
            line is not None and fact.subject in details.callers and finding.subject in line.example
        )
        # A timeout may be a firewall that drops packets; a refusal cannot.
        if fits and line is not None and any(words in line.example.lower() for words in _WAITS):
            return (
                f"Call {who} from a host of {caller} and time it: its callers get no answer in "
                "time. Is it up, is it overloaded, does a firewall drop the packets?"
            )
    if details.is_calm_itself:
        return (
            f"Check what lies between {caller} and {who}, which sees nothing unusual itself: the "
            f"connection pool and time-outs of {caller}, the network, and the queue in front of "
            f"{who}."
        )
    return f"Call {who} from a host of {caller}: does its name resolve, does it accept connections?"


def _on_the_network(finding: Finding, who: str, about: Sequence[Finding]) -> str | None:
    details = SpanShiftDetails.of(finding)
    if details is None or not details.caller:
        return None
    return (
        f"Check the network path from {subject_name(details.caller)} to {who}: the node of {who}, "
        "packet loss, network policies, the service mesh."
    )


def _of_more_calls(finding: Finding, who: str, about: Sequence[Finding]) -> str | None:
    callee = finding.series.get("service")
    if not callee:
        return None
    return (
        f"Look in one trace of {who} at which calls to {subject_name(callee)} repeat, and fetch "
        "them in one."
    )


def _of_more_requests(finding: Finding, who: str, about: Sequence[Finding]) -> str | None:
    if finding.details.direction != "up":
        return None
    return f"Find out where the extra requests to {who} come from, then scale it or shed them."


def _of_restarts(finding: Finding, who: str, about: Sequence[Finding]) -> str | None:
    if finding.onset is None:
        return None
    since = f"since {clock(finding.onset).text} UTC"
    pods = [state_of(fact) for fact in about if fact.subject == finding.subject]
    # With the pod's name the command can be copied as it stands.
    pod = next((pod for pod in pods if pod is not None and pod.kind == "Pod"), None)
    if pod is not None:
        return state_step(replace(pod, fact="crashed"), who)
    return (
        f"Read with what exit code the instances of {who} ended {since} (137 is out of memory or a "
        "failed probe), and their last log lines."
    )


def _of_the_path(finding: Finding, who: str, about: Sequence[Finding]) -> str | None:
    root, operation = finding.series.get("service"), finding.series.get("operation")
    if root is None or operation is None or "slower_ms" not in finding.numbers:
        return None
    called = operation_of(root, operation)
    of = f"{subject_name(root)} {called}" if called else subject_name(root)
    extra = amount(finding.numbers["slower_ms"], MILLISECONDS)
    return f"Open slow {of} traces: where in {who} do the extra {extra} go?"


_OF_FAULTS: Mapping[str, Callable[[Finding, str, Sequence[Finding]], str | None]] = {
    CRITICAL_PATH.name: _of_the_path,
    RESOURCE.name: _of_a_resource,
    CALLERS_FAIL.name: _of_callers,
    NETWORK.name: _on_the_network,
    FAN_OUT.name: _of_more_calls,
    AVAILABILITY.name: _of_availability,
    RESTARTS.name: _of_restarts,
    TRAFFIC.name: _of_more_requests,
}
