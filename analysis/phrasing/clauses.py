"""What a finding says of its subject, as a statement that a larger sentence can take up.

A statement is kept as subject, verb and rest, so that it can stand by itself ("checkout is 18x
slower"), in the past ("checkout was 18x slower"), or after its cause ("deploy 81 made checkout 18x
slower"). A kind without a form of its own here speaks through its finding's own sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from analysis.analyzers import fault_of
from analysis.kinds.fault_kinds import (
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
    OWN_TIME,
    PLACE,
    RESOURCE,
    RESTARTS,
    SPAN_ERRORS,
)
from analysis.kinds.finding_details import (
    CallsIntoDetails,
    FlowBreakDetails,
    LogLineDetails,
    MetricShiftDetails,
    RequestPathDetails,
    SignatureDetails,
    SpanShiftDetails,
)
from analysis.kinds.finding_kinds import METRIC_SHIFT
from analysis.kinds.signals import SignalClass, is_headroom
from analysis.phrasing.log_message import message_of
from analysis.phrasing.phrase import (
    NOTHING,
    Part,
    Phrase,
    Slot,
    figure,
    joined,
    listed,
    measured,
    name,
    quote,
    say,
)
from analysis.vocabulary import Finding
from analysis.wording.amounts import (
    MILLISECONDS,
    NUMBER,
    PERCENT,
    Unit,
    amount,
    levels,
    times,
    unit_of,
)
from analysis.wording.names import operation_name, signal_name, step_name, subject_name
from analysis.wording.phrases import counted

USED_UP = 0.9
"""From this share on a resource is said to be used up: the level at which kube-prometheus' and
Datadog's recommended monitors warn."""
GONE, ALWAYS = 10.0, 90.0
"""A step that so many percent of requests reach is gone, and one that so many reached was part of
all of them."""
MULTIPLE = 1.15
"""A smaller rise is said as a move."""
OWN = "own"
"""How a request's path leads to a service: by the time that is the service's own."""
NEVER = 0.05
"""Percent that is said as "none"."""
QUOTABLE = 100
"""A step of a request that takes more characters is told by the finding alone."""


class Tense(Enum):
    """Whether it goes on."""

    NOW = "now"
    OVER = "over"


@dataclass(frozen=True)
class Verb:
    """The forms of a verb that statements take. What moved has been moved by its cause: "raised"
    its level; anything else was "made" to do what it does."""

    present: str
    past: str
    base: str
    """After "made": "made requests fail"; empty for "is"."""
    cause: str = "made"


IS = Verb("is", "was", "")
ROSE = Verb("rose", "rose", "", cause="raised")
FELL = Verb("fell", "fell", "", cause="lowered")
FAIL = Verb("fail", "failed", "fail")


@dataclass(frozen=True)
class Statement:
    """What is said of something."""

    subject: Phrase
    verb: Verb | None
    """None where the whole stands in `subject`, as the finding has it."""
    rest: Phrase = NOTHING
    shorter: Phrase | None = None
    """The rest with one figure or none, for a sentence that says something else too; without a
    verb all of the shorter clause."""

    def clause(self, tense: Tense = Tense.NOW) -> Phrase:
        """With subject and verb."""
        return self._with(self.rest, tense)

    def short(self, tense: Tense = Tense.NOW) -> Phrase:
        """The same with its shorter rest."""
        if self.verb is None:
            return self.subject if self.shorter is None else self.shorter
        return self._with(self.rest if self.shorter is None else self.shorter, tense)

    def _with(self, rest: Phrase, tense: Tense) -> Phrase:
        if self.verb is None:
            return self.subject
        verb = self.verb.present if tense is Tense.NOW else self.verb.past
        return _spaced(self.subject, verb, rest)

    @property
    def caused(self) -> Phrase | None:
        """After the name of its cause; None where it cannot be put so."""
        if self.verb is None or not self.verb.present:
            return None
        return _spaced(self.verb.cause, self.subject, self.verb.base, self.rest)


def _spaced(*slots: Slot) -> Phrase:
    phrases = [slot if isinstance(slot, Phrase) else say("{it}", it=slot) for slot in slots]
    return joined(phrases, " ")


class Voice:
    """How a clause names its subject: by name, or as "it" where the sentence named it just
    before."""

    def __init__(self, subject: str, *, known: bool = False) -> None:
        self.known = known
        self.who: Slot = "it" if known else name(subject)
        self.whose: Slot = "its" if known else Part(possessive(subject_name(subject)), "name")


def possessive(who: str) -> str:
    """`checkout's`, `payments'`."""
    return f"{who}'" if who.endswith("s") else f"{who}'s"


Form = Callable[[Finding, Voice], Statement | None]


def statement(finding: Finding, *, known: bool = False) -> Statement:
    """What the finding says of its subject. `known`: the sentence has just named the subject."""
    voice = Voice(finding.subject, known=known)
    fault = fault_of(finding)
    form = _FORMS.get(fault.name) if fault is not None else None
    if finding.kind == METRIC_SHIFT.name:
        form = form or _moved
    said = form(finding, voice) if form is not None else None
    return said or _as_found(finding, voice)


def _as_found(finding: Finding, voice: Voice) -> Statement:
    """The finding's own sentence; in short what its fault does."""
    fault = fault_of(finding)
    short = None
    if fault is not None and fault.description:
        short = say("{who} {does}", who=voice.who, does=fault.description)
    return Statement(own_sentence(finding), None, shorter=short)


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


def own_sentence(finding: Finding) -> Phrase:
    """The finding's own sentence as a clause: in small letters unless it begins with a name."""
    text = finding.sentence.strip().rstrip(".")
    first = text.split(" ", 1)[0]
    # A name begins it, or else a word that has its capital from beginning the sentence.
    named = finding.subject.startswith(first) or not first.istitle()
    if not named:
        text = text[:1].lower() + text[1:]
    return Phrase((Part(text, "name" if named else "words", finding.id),))


def _pair(finding: Finding) -> tuple[Part, Part, Unit]:
    """Both levels of a metric that moved."""
    before, after = finding.numbers["baseline"], finding.numbers["incident"]
    unit = _unit(finding)
    usual, now = levels(before, after, unit)
    return figure(finding, "baseline", usual), figure(finding, "incident", now), unit


def _unit(finding: Finding) -> Unit:
    details = MetricShiftDetails.of(finding)
    both = [finding.numbers[name] for name in ("baseline", "incident") if name in finding.numbers]
    return unit_of(finding.signal or "", details.unit if details else None, both)


def _is_shift(finding: Finding) -> bool:
    return {"baseline", "incident"} <= finding.numbers.keys()


def _ratio(finding: Finding) -> float | None:
    return finding.numbers.get("ratio")


def _moved(finding: Finding, voice: Voice) -> Statement | None:
    if not _is_shift(finding):
        return None
    before, after, _ = _pair(finding)
    rose = finding.details.direction != "down"
    return Statement(
        say("{whose} {signal}", whose=voice.whose, signal=signal_name(finding.signal or "")),
        ROSE if rose else FELL,
        say("from {before} to {after}", before=before, after=after),
    )


def _multiplied(finding: Finding, voice: Voice) -> Statement | None:
    """A rise that is best said as a multiple."""
    ratio = _ratio(finding)
    if not _is_shift(finding) or ratio is None or ratio < MULTIPLE:
        return _moved(finding, voice)
    before, after, _ = _pair(finding)
    return Statement(
        say("{whose} {signal}", whose=voice.whose, signal=signal_name(finding.signal or "")),
        ROSE,
        say(
            "{times} ({before} → {after})",
            times=figure(finding, "ratio", times(ratio)),
            before=before,
            after=after,
        ),
        Phrase((figure(finding, "ratio", times(ratio)),)),
    )


def _slow(finding: Finding, voice: Voice) -> Statement | None:
    called = signal_name(finding.signal or "")
    ratio = _ratio(finding)
    if "latency" not in called or not _is_shift(finding) or ratio is None or ratio < MULTIPLE:
        return _multiplied(finding, voice)
    before, after, _ = _pair(finding)
    statistic = called.removesuffix(" seen by callers").removesuffix("latency").strip()
    slower = say(
        "{times} slower ({statistic}{before} → {after})",
        times=figure(finding, "ratio", times(ratio)),
        statistic=f"{statistic} " if statistic else "",
        before=before,
        after=after,
    )
    short = say("{times} slower", times=figure(finding, "ratio", times(ratio)))
    return Statement(say("{who}", who=voice.who), IS, slower, short)


def _fails(finding: Finding, voice: Voice) -> Statement | None:
    """Of a share of failing requests."""
    called = signal_name(finding.signal or "")
    generic = called == "error rate" or called.startswith("rate of ")
    if not _is_shift(finding) or not generic or _unit(finding).kind != "share":
        return _moved(finding, voice)
    before, after, unit = _pair(finding)
    usual = say("({before} before)", before=before)
    if 100 * finding.numbers["baseline"] * unit.factor < NEVER:
        usual = NOTHING
    verb = FAIL
    if called != "error rate":
        answers = called.removeprefix("rate of ")
        verb = Verb(f"get {answers}", f"got {answers}", f"get {answers}")
    who = say("{after} of {whose} requests", after=after, whose=voice.whose)
    return Statement(who, verb, usual, NOTHING)


def _unavailable(finding: Finding, voice: Voice) -> Statement | None:
    """Availability, said by what it lacks."""
    if not _is_shift(finding) or _unit(finding).kind != "share":
        return _moved(finding, voice)
    factor = _unit(finding).factor
    failing = 100 * (1 - finding.numbers["incident"] * factor)
    before = 100 * (1 - finding.numbers["baseline"] * factor)
    if failing <= 0:
        return _moved(finding, voice)
    share = figure(finding, "incident", amount(failing, PERCENT))
    usual = say("({before} before)", before=amount(before, PERCENT))
    return Statement(
        say("{share} of requests to {who}", share=share, who=voice.who),
        FAIL,
        usual if before >= NEVER else NOTHING,
        NOTHING,
    )


def _span_errors(finding: Finding, voice: Voice) -> Statement | None:
    percent, operation = finding.numbers.get("percent"), finding.series.get("operation")
    if percent is None or not operation:
        return None
    before = finding.numbers.get("baseline_percent", 0.0)
    usual = say("({before} before)", before=amount(before, PERCENT))
    who = say(
        "{percent} of {whose} {operation} requests",
        percent=measured(finding, "percent", PERCENT),
        whose=voice.whose,
        operation=operation_name(operation),
    )
    return Statement(who, FAIL, usual if before >= NEVER else NOTHING, NOTHING)


_RESOURCES: Mapping[SignalClass, str] = {
    SignalClass.CPU: "out of CPU",
    SignalClass.MEMORY: "out of memory",
    SignalClass.DISK: "out of disk space",
}


def _resource(finding: Finding, voice: Voice) -> Statement | None:
    if not _is_shift(finding):
        return None
    before, after, unit = _pair(finding)
    kind = SignalClass(finding.details.signal_class or SignalClass.OTHER.value)
    is_share = unit.kind == "share" and not is_headroom(finding.signal or "")
    used_up = finding.numbers["incident"] * unit.factor >= USED_UP
    if not (is_share and used_up and kind in _RESOURCES):
        return _multiplied(finding, voice)
    out = say("{out} ({before} → {after})", out=_RESOURCES[kind], before=before, after=after)
    short = say("{out}", out=_RESOURCES[kind])
    return Statement(say("{who}", who=voice.who), Verb("is", "was", "run"), out, short)


def _own_time(finding: Finding, voice: Voice) -> Statement | None:
    operation = finding.series.get("operation")
    if not operation or "incident_ms" not in finding.numbers:
        return None
    took = say(
        "{after} of its own for {operation} instead of {before}",
        after=measured(finding, "incident_ms", MILLISECONDS),
        operation=operation_name(operation),
        before=measured(finding, "baseline_ms", MILLISECONDS),
    )
    takes = Verb("takes", "took", "take")
    short = say(
        "{after} of its own for {operation}",
        after=measured(finding, "incident_ms", MILLISECONDS),
        operation=operation_name(operation),
    )
    return Statement(say("{who}", who=voice.who), takes, took, short)


def _on_the_network(finding: Finding, voice: Voice) -> Statement | None:
    details = SpanShiftDetails.of(finding)
    if details is None or not details.caller or "incident_ms" not in finding.numbers:
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
    return Statement(calls, Verb("lose", "lost", "lose"), lost, short)


def _path_ended(finding: Finding, voice: Voice) -> Statement | None:
    details = FlowBreakDetails.of(finding)
    percent, operation = finding.numbers.get("percent"), finding.series.get("operation")
    if details is None or details.callers or percent is None or not operation:
        return None
    if not details.event or len(details.event) > QUOTABLE:
        return None
    before = finding.numbers.get("baseline_percent", 0.0)
    what = say(
        "{whose} {operation} requests", whose=voice.whose, operation=operation_name(operation)
    )
    step = quote(step_name(details.event), finding)
    if percent <= GONE and before >= ALWAYS:
        return Statement(what, Verb("no longer reach", "did not reach", "miss"), Phrase((step,)))
    some = say("only {percent} of {what}", percent=measured(finding, "percent", PERCENT), what=what)
    reached = say(
        "{step} (usually {before})",
        step=step,
        before=measured(finding, "baseline_percent", PERCENT),
    )
    return Statement(some, Verb("reach", "reached", "reach"), reached, Phrase((step,)))


def _logged(finding: Finding, voice: Voice) -> Statement | None:
    who, verb = say("{who}", who=voice.who), Verb("logs", "logged", "log")
    signature = SignatureDetails.of(finding)
    if signature is not None and signature.meaning:
        often = _how_often(finding, signature.lines, signature.baseline_lines)
        return _said_by_log(signature.meaning, voice, often)
    details = LogLineDetails.of(finding)
    if details is None or not details.example:
        return None
    often = _how_often(finding, details.lines, details.baseline_lines)
    line = quote(message_of(details.example), finding)
    logged = say("{line} ({often})", line=line, often=often)
    return Statement(who, verb, logged, Phrase((line,)))


def _said_by_log(meaning: str, voice: Voice, often: Phrase) -> Statement:
    """What is known to be wrong, a whole clause, with the log as its witness."""
    witness = say("({whose} log says so in {often})", whose=voice.whose, often=often)
    shorter = NOTHING if voice.known else say("(says the log of {who})", who=voice.who)
    return Statement(say("{it}", it=meaning), Verb("", "", ""), witness, shorter)


def _critical_path(finding: Finding, voice: Voice) -> Statement | None:
    details = RequestPathDetails.of(finding)
    root, operation = finding.series.get("service"), finding.series.get("operation")
    if details is None or root is None or operation is None or "slower_ms" not in finding.numbers:
        return None
    added = say(
        "{percent} of the {ms} that {root} {operation} requests take longer",
        percent=measured(finding, "percent", PERCENT),
        ms=measured(finding, "slower_ms", MILLISECONDS),
        root=name(root),
        operation=operation_name(operation),
    )
    where = "{whose} own time" if details.how == OWN else "lost on calls to {who}"
    return Statement(added, IS, say(where, whose=voice.whose, who=voice.who))


_FIRST_FAILURE: Mapping[str, str] = {
    "own": "in {who} ({operation})",
    "waited": "waiting for {who} ({operation})",
    "unreached": "in calls to {who} ({operation}) that never arrive",
    "outside": "in calls to {who} ({operation})",
}


def _error_origin(finding: Finding, voice: Voice) -> Statement | None:
    details = RequestPathDetails.of(finding)
    where = _FIRST_FAILURE.get(details.how) if details is not None else None
    operation = finding.series.get("operation")
    if where is None or operation is None or "percent" not in finding.numbers:
        return None
    percent = measured(finding, "percent", PERCENT)
    return Statement(
        say("{percent} of the failing requests", percent=percent),
        Verb("fail first", "failed first", "fail first"),
        say(where, who=voice.who, operation=operation_name(operation)),
    )


def _fan_out(finding: Finding, voice: Voice) -> Statement | None:
    callee = finding.series.get("service")
    if callee is None or "calls" not in finding.numbers:
        return None
    made = say(
        "{calls} calls to {callee} per request instead of {before}",
        calls=measured(finding, "calls", NUMBER),
        callee=name(callee),
        before=measured(finding, "baseline_calls", NUMBER),
    )
    return Statement(say("{who}", who=voice.who), Verb("makes", "made", "make"), made)


def _calls_into(finding: Finding, voice: Voice) -> Statement | None:
    details = CallsIntoDetails.of(finding)
    if details is None or not details.callers:
        return None
    callers = listed([name(caller) for caller in details.callers], most=2)
    calls = say("calls from {callers} to {callee}", callers=callers, callee=name(finding.subject))
    named = NOTHING
    if details.lines:
        lines = figure(finding, "lines", counted(details.lines, "error line"))
        verb = "names" if details.lines == 1 else "name"
        named = say("({lines} of theirs {verb} it)", lines=lines, verb=verb)
    return Statement(calls, Verb("fail or time out", "failed or timed out", "fail"), named)


def _restarts(finding: Finding, voice: Voice) -> Statement | None:
    if not _is_shift(finding) or finding.details.direction == "down":
        return None
    who = say("{who}", who=voice.who)
    before, after, _ = _pair(finding)
    figures = say("({before} → {after})", before=before, after=after)
    if "oom" in (finding.signal or "").lower():
        return Statement(who, Verb("runs", "ran", "run"), say("out of memory {it}", it=figures))
    return Statement(who, Verb("restarts", "restarted", "restart"), figures)


def _how_often(finding: Finding, lines: int, before: int) -> Phrase:
    often = figure(finding, "lines", counted(lines, "line"))
    if not before:
        return say("{often}, none before", often=often)
    ratio = _ratio(finding)
    if ratio is None:
        return say("{often}", often=often)
    more = figure(finding, "ratio", times(ratio))
    return say("{often}, {times} the usual rate", often=often, times=more)


_FORMS: Mapping[str, Form] = {
    LATENCY.name: _slow,
    ERRORS.name: _fails,
    AVAILABILITY.name: _unavailable,
    SPAN_ERRORS.name: _span_errors,
    RESOURCE.name: _resource,
    OWN_TIME.name: _own_time,
    NETWORK.name: _on_the_network,
    FLOW_BREAK.name: _path_ended,
    LOG_ERRORS.name: _logged,
    CRITICAL_PATH.name: _critical_path,
    ERROR_ORIGIN.name: _error_origin,
    FAN_OUT.name: _fan_out,
    CALLERS_FAIL.name: _calls_into,
    RESTARTS.name: _restarts,
}
_BRIEF: Mapping[str, str] = {
    LOG_ERRORS.name: "{who} logs errors it did not log before",
    FLOW_BREAK.name: "requests end early in {who}",
    ERROR_ORIGIN.name: "requests fail in {who}",
    CRITICAL_PATH.name: "{who} takes most of the time",
    OWN_TIME.name: "{who} itself got slower",
    NETWORK.name: "the network to {who} is slow",
    CALLERS_FAIL.name: "calls to {who} fail",
    FAN_OUT.name: "{who} makes more calls per request",
    RESOURCE.name: "{who} uses more CPU, memory or disk than before",
    PLACE.name: "{who} is in trouble",
    SPAN_ERRORS.name: "{who} fails",
    ERRORS.name: "{who} fails",
    LATENCY.name: "{who} is slow",
}
