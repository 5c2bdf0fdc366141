"""Statements about requests and the calls between services, as their spans show them."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.analysis.kinds.finding_details import (
    CallsIntoDetails,
    FlowBreakDetails,
    RequestPathDetails,
    SpanShiftDetails,
)
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.phrasing.metric_forms import NEVER
from faultline.analysis.phrasing.statement import (
    FAIL,
    IS,
    NOTHING,
    Phrase,
    Slot,
    Statement,
    Verb,
    Voice,
    figure,
    joined,
    listed,
    measured,
    name,
    quote,
    say,
)
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import (
    MILLISECONDS,
    NUMBER,
    PERCENT,
    amount,
    failing,
    unit_of,
)
from faultline.analysis.wording.names import call_of, operation_of, step_name
from faultline.analysis.wording.phrases import counted

GONE, ALWAYS = 10.0, 90.0
"""In percent of requests: a step that fewer than the first still reach is gone, and one that more
than the second reached was part of all of them."""
SELF = "own"
"""How a request's path leads to a service: by the time that is the service's own."""
NEARLY_ALL = 99.5
"""Percent from which on it is said to be all."""
QUOTABLE = 100
"""A longer step of a request is not quoted: its finding's own sentence stands instead."""
FAIL_OR_WAIT = Verb(
    "fail or wait more than before",
    "failed or waited more than before",
    "fail or wait more than before",
)
TAKE = Verb("take", "took", "take")
REACHED = (Verb("no longer reach", "did not reach", "miss"),
           Verb("never reach", "never reached", "miss"))  # fmt: skip
CALLED = (Verb("no longer call", "did not call", "no longer call"),
          Verb("never call", "never called", "never call"))  # fmt: skip
"""Of all requests, and of a part of them, by whether the step is a call."""
_IN_MS = {"baseline_ms", "incident_ms"}
_FIRST_FAILURE: Mapping[str, str] = {
    "own": "in {who}{operation}",
    "waited": "waiting for {who}{operation}",
    "unreached": "in calls to {who}{operation} that never arrive",
    "outside": "in calls to {who}{operation}",
}


def span_errors(finding: Finding, voice: Voice) -> Statement | None:
    percent, operation = finding.numbers.get("percent"), finding.series.get("operation")
    if percent is None or not operation:
        return None
    before = finding.numbers.get("baseline_percent", 0.0)
    usual = say("({before} before)", before=amount(before, PERCENT))
    who = say(
        "{percent} of {whose}{operation} requests",
        percent=figure(finding, "percent", failing(percent)),
        whose=voice.whose,
        operation=_operation(finding, operation),
    )
    return Statement(who, FAIL, usual if before >= NEVER else NOTHING, NOTHING)


def self_time(finding: Finding, voice: Voice) -> Statement | None:
    operation = finding.series.get("operation")
    if not operation or not finding.numbers.keys() >= _IN_MS:
        return None
    requests = say("requests{kind}", kind=_of_kind(finding, operation))
    spent = say(
        "{after} inside {who} itself ({before} before)",
        after=measured(finding, "incident_ms", MILLISECONDS),
        who=voice.who,
        before=measured(finding, "baseline_ms", MILLISECONDS),
    )
    short = say(
        "{after} inside {who} itself",
        after=measured(finding, "incident_ms", MILLISECONDS),
        who=voice.who,
    )
    return Statement(requests, Verb("spend", "spent", "spend"), spent, short)


def on_the_network(finding: Finding, voice: Voice) -> Statement | None:
    details = SpanShiftDetails.of(finding)
    if details is None or not details.caller or not finding.numbers.keys() >= _IN_MS:
        return None
    calls = say(
        "calls from {caller} to {callee}",
        caller=name(details.caller),
        callee=name(details.callee or finding.subject),
    )
    lost = say(
        "{after} on the network (usually {before})",
        after=measured(finding, "incident_ms", MILLISECONDS),
        before=measured(finding, "baseline_ms", MILLISECONDS),
    )
    after = measured(finding, "incident_ms", MILLISECONDS)
    short = say("{after} on the network", after=after)
    return Statement(calls, Verb("spend", "spent", "spend"), lost, short)


def path_ended(finding: Finding, voice: Voice) -> Statement | None:
    details = FlowBreakDetails.of(finding)
    percent, operation = finding.numbers.get("percent"), finding.series.get("operation")
    if details is None or details.callers or percent is None or not operation:
        return None
    # A long step would fill the sentence: its finding's own sentence stands instead.
    if not details.event or len(details.event) > QUOTABLE:
        return None
    before = finding.numbers.get("baseline_percent", 0.0)
    what = say(
        "{whose}{operation} requests",
        whose=voice.whose,
        operation=_operation(finding, operation),
    )
    before_it = call_of(details.after)
    if before_it is not None:
        what = say("{what} that call {after}", what=what, after=name(before_it[0]))
    called = call_of(details.event)
    step: Slot = quote(step_name(details.event), finding)
    verbs = REACHED
    if called is not None:
        callee, operation_called = called
        verbs, step = CALLED, name(callee)
        if operation_called:
            step = say("{callee} ({op})", callee=name(callee), op=operation_called)
    # Nearly all took the step before, and nearly none does now: no figure is needed.
    if percent <= GONE and before >= ALWAYS:
        return Statement(what, verbs[0], say("{step}", step=step))
    stopped = figure(finding, "percent", amount(100 - percent, PERCENT))
    some = say("{stopped} of {what}", stopped=stopped, what=what)
    usual = ""
    if 100 - before >= NEVER:
        usual = f" ({amount(100 - before, PERCENT)} before)"
    reached = say("{step}{usual}", step=step, usual=usual)
    return Statement(some, verbs[1], reached, say("{step}", step=step))


def critical_path(finding: Finding, voice: Voice) -> Statement | None:
    details = RequestPathDetails.of(finding)
    root, operation = finding.series.get("service"), finding.series.get("operation")
    has_figures = finding.numbers.keys() >= {"percent", "slower_ms"}
    if details is None or root is None or operation is None or not has_figures:
        return None
    percent: Slot = measured(finding, "percent", PERCENT)
    # "99.7 %" reads as if some were different in kind.
    if finding.numbers["percent"] >= NEARLY_ALL:
        percent = figure(finding, "percent", "all")
    called = operation_of(root, operation)
    added = say(
        "{percent} of the extra {ms} of {root} requests",
        percent=percent,
        ms=measured(finding, "slower_ms", MILLISECONDS),
        root=say("{root} {called}", root=name(root), called=called) if called else name(root),
    )
    where = "spent inside {who}" if details.how == SELF else "lost on calls to {who}"
    return Statement(added, IS, say(where, who=voice.who))


def error_origin(finding: Finding, voice: Voice) -> Statement | None:
    details = RequestPathDetails.of(finding)
    where = _FIRST_FAILURE.get(details.how) if details is not None else None
    operation = finding.series.get("operation")
    if where is None or operation is None or "percent" not in finding.numbers:
        return None
    percent = measured(finding, "percent", PERCENT)
    place = say(where, who=voice.who, operation=_of_kind(finding, operation))
    return Statement(
        # Failures travel upward, so the first one on the path is where they begin.
        say("{percent} of the failing requests", percent=percent),
        Verb("fail first", "failed first", "fail first"),
        place,
    )


def fan_out(finding: Finding, voice: Voice) -> Statement | None:
    callee = finding.series.get("service")
    if callee is None or not finding.numbers.keys() >= {"calls", "baseline_calls"}:
        return None
    made = say(
        "{calls} calls to {callee} per request instead of {before}",
        calls=measured(finding, "calls", NUMBER),
        callee=name(callee),
        before=measured(finding, "baseline_calls", NUMBER),
    )
    return Statement(say("{who}", who=voice.who), Verb("makes", "made", "make"), made)


def calls_into(finding: Finding, voice: Voice) -> Statement | None:
    details = CallsIntoDetails.of(finding)
    if details is None or not details.callers:
        return None
    callers = listed([name(caller) for caller in details.callers], most=2)
    calls = say("calls from {callers} to {callee}", callers=callers, callee=name(finding.subject))
    named = NOTHING
    if details.lines:
        lines = figure(finding, "lines", counted(details.lines, "error"))
        verb = "mentions" if details.lines == 1 else "mention"
        named = say("({lines} {verb} {it})", lines=lines, verb=verb, it=name(finding.subject))
    if finding.numbers.keys() >= {"calls", "calls_before"}:
        return measured_calls(finding, details, calls)
    # Without a failing line only their time was measured.
    return Statement(calls, FAIL if details.lines else FAIL_OR_WAIT, named, NOTHING)


def measured_calls(finding: Finding, details: CallsIntoDetails, calls: Phrase) -> Statement:
    """What a caller measures of its calls, and whether their callee sees it too."""
    before, now = finding.numbers["calls_before"], finding.numbers["calls"]
    unit = unit_of(finding.signal or "", details.unit, (before, now))
    calm = NOTHING
    if details.is_calm_itself:
        calm = say("while {callee} itself sees nothing unusual", callee=name(finding.subject))
    if details.signal_class == SignalClass.LATENCY.value:
        took = say(
            "{now} instead of {before}",
            now=measured(finding, "calls", unit),
            before=measured(finding, "calls_before", unit),
        )
        short = say("{now}", now=measured(finding, "calls", unit))
        return Statement(calls, TAKE, joined((took, calm), ", "), short)
    if unit.kind != "share":
        return Statement(calls, FAIL, calm, NOTHING)
    share = figure(finding, "calls", failing(100 * now * unit.factor))
    usual = joined((say("({before} before)", before=amount(before, unit)), calm), ", ")
    return Statement(say("{share} of {calls}", share=share, calls=calls), FAIL, usual, NOTHING)


def _operation(finding: Finding, operation: str) -> str:
    """` GET /cart` behind a service's name, or nothing."""
    called = operation_of(finding.subject, operation)
    return f" {called}" if called else ""


def _of_kind(finding: Finding, operation: str) -> str:
    """` (GET /cart)`, or nothing."""
    called = operation_of(finding.subject, operation)
    return f" ({called})" if called else ""
