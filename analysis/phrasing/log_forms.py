"""Statements about what logs say, and about the alert itself: why it fired although nothing is
wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from faultline.analysis.kinds.finding_details import LogLineDetails, SignatureDetails
from faultline.analysis.phrasing.metric_forms import finding_unit, signal_text
from faultline.analysis.phrasing.statement import (
    ARE,
    IS,
    NOTHING,
    Part,
    Phrase,
    Statement,
    Verb,
    Voice,
    figure,
    measured,
    name,
    possessive,
    quote,
    say,
)
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import PERCENT, Unit, amount, times
from faultline.analysis.wording.names import is_plural, subject_name
from faultline.analysis.wording.phrases import counted

# What a log line says, without what its logger puts before it: time, level, thread, ids of traces.
#
# The forms are those of logback, log4j, Python's logging, glog, klog and of JSON that a shipper has
# turned into text.

_TIME = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
_CLOCK = r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?"
_GLOG = r"[IWEFD]\d{4}\s+\d\d:\d\d:\d\d(?:\.\d+)?\s+\d+\s+\S+:\d+\]"
_LEVEL = r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|SEVERE)\]?:?"
_LEADING = re.compile(
    rf"^(?:\s*(?:{_TIME}|{_CLOCK}|{_GLOG}|{_LEVEL}(?=\s)|\[[\w .\-/#]{{1,40}}\](?=\s)|-(?=\s)))+\s*"
)
_IDS = re.compile(
    r"\b(?:trace|span|request|correlation)[ _-]?id\s*[:=]\s*\"?[0-9a-f-]{8,36}\"?[,;]?\s*",
    re.IGNORECASE,
)
LEAST = 12
"""Of a shorter rest the whole line is kept: its logger wrote all of it."""


def message_of(line: str) -> str:
    """The line's own words; all of it where nothing else would be left."""
    message = _IDS.sub("", _LEADING.sub("", line)).strip()
    return message if len(message) >= LEAST else line.strip()


# Statements about what logs say.

LOGS = Verb("logs", "logged", "log")
OF_CALLED: Mapping[str, str] = {
    "certificate_expired": "{whose} certificate has expired",
    "certificate_not_yet_valid": "{whose} certificate is not valid yet",
    "certificate_authority_unknown": "{whose} certificate is not trusted",
    "certificate_name_mismatch": "{whose} certificate is for another name",
    "tls_handshake_failed": "TLS handshakes with {who} fail",
    "dns_no_such_name": "the host name of {who} does not resolve",
    "connection_refused": "{who} refuses connections",
    "connect_timeout": "connections to {who} time out",
    "connection_reset": "{who} closes connections",
    "host_unreachable": "{who} cannot be reached",
    "upstream_unavailable": "{who} is not available",
    "upstream_timeout": "{who} does not answer in time",
    "http_429": "{who} refuses requests as too many (429)",
    "access_denied": "{who} refuses the credentials of its caller",
}
"""Known failures that a caller logs, said of the service that its lines name."""
STEPS_OF_CALLED: Mapping[str, str] = {
    "certificate_expired": "Renew the certificate of {who}, and find out why its renewal did not "
    "run.",
    "access_denied": "Compare the credentials that are used for {who} with those that it accepts: "
    "which of them was changed last?",
    "http_429": "Send {who} fewer requests (find out which caller or job sends more than before), "
    "or ask for a higher limit.",
    "dns_no_such_name": "Check the DNS record of {who}, and the name by which its callers look it "
    "up.",
}
"""What to do about them, where the service that is called makes a difference."""
WHY_CALLS_FAIL = frozenset(
    {
        "certificate_expired",
        "certificate_not_yet_valid",
        "certificate_authority_unknown",
        "certificate_name_mismatch",
        "tls_handshake_failed",
        "dns_no_such_name",
        "connection_refused",
        "http_429",
        "access_denied",
    }
)
"""Of these failures those that say why calls fail, and not only that they do."""
_POOL_PREFIXES = ("a connection or thread pool ", "the connection pool ")
"""Meanings that begin with a part of the service that logs them."""


def logged(finding: Finding, voice: Voice) -> Statement | None:
    """Of a known failure what it means, of other lines what they say."""
    signature = SignatureDetails.of(finding)
    if signature is not None and signature.meaning:
        return _failure_statement(finding, signature, voice)
    details = LogLineDetails.of(finding)
    if details is None or not details.example:
        return None
    often = _how_often(finding, details.lines, details.baseline_lines)
    line = quote(message_of(details.example), finding)
    quotation = say("{line} ({often})", line=line, often=often)
    return Statement(say("{who}", who=voice.who), LOGS, quotation, Phrase((line,)))


def _failure_statement(finding: Finding, signature: SignatureDetails, voice: Voice) -> Statement:
    """What is known to be wrong, a whole clause, with the log as its witness."""
    often = _how_often(finding, signature.lines, signature.baseline_lines)
    called = OF_CALLED.get(signature.signature)
    if called is not None and signature.names:
        # The caller logs it, but the fault is the callee's, so the sentence is about the callee.
        whose = Part(possessive(subject_name(signature.names)), "name")
        clause = say(called, who=name(signature.names), whose=whose)
        witness = say("{whose} log: {often}", whose=voice.whose, often=often)
        whole = say("{clause} ({witness})", clause=clause, witness=witness)
        return Statement(whole, None, shorter=clause)
    for part in _POOL_PREFIXES:
        if signature.meaning.startswith(part):
            thing = part.split(" ", 1)[1]
            is_so = signature.meaning.removeprefix(part)
            # Which pool it is, where the line speaks of one kind alone.
            kinds = [
                kind for kind in ("connection", "thread") if kind in signature.example.casefold()
            ]
            thing = (f"{kinds[0]} pool " if len(kinds) == 1 else "") or thing
            clause = say("{whose} {thing}{is_so}", whose=voice.whose, thing=thing, is_so=is_so)
            whole = say("{clause} (its log: {often})", clause=clause, often=often)
            return Statement(whole, None, shorter=clause)
    meaning = say("that {meaning}", meaning=signature.meaning)
    rest = say("{meaning} ({often})", meaning=meaning, often=often)
    return Statement(say("{who}", who=voice.who), LOGS, rest, meaning)


def witness(finding: Finding, *, quoted: bool) -> Phrase | None:
    """The log line as evidence of what was said of it: in its own words, or only how often it came
    where its words stand above."""
    details = LogLineDetails.of(finding) or SignatureDetails.of(finding)
    if details is None or not details.example:
        return None
    who = name(finding.subject)
    if quoted:
        lines = figure(finding, "lines", f"{details.lines:,}")
        such = "such line" if details.lines == 1 else "such lines"
        before = _rate_before(finding, details.baseline_lines)
        return say("{who} logged {n} {such}{before}", who=who, n=lines, such=such, before=before)
    often = _how_often(finding, details.lines, details.baseline_lines)
    line = quote(message_of(details.example), finding)
    return say("{who} logs {line} ({often})", who=who, line=line, often=often)


def _rate_before(finding: Finding, before: int) -> Phrase:
    ratio = finding.numbers.get("ratio")
    if not before:
        return say(", none before")
    # Without a ratio the rate before is unknown.
    if ratio is None:
        return NOTHING
    return say(", {times} the usual rate", times=figure(finding, "ratio", times(ratio)))


def _how_often(finding: Finding, lines: int, before: int) -> Phrase:
    often = figure(finding, "lines", counted(lines, "line"))
    return say("{often}{before}", often=often, before=_rate_before(finding, before))


# Statements about the alert itself: why it fired although nothing is wrong, and where its signal
# stands.

MINUTES = Unit("time", 60.0)
HOURS = Unit("time", 3600.0)


def usual_level(finding: Finding, voice: Voice) -> Statement | None:
    """The alerting signal's level, which is a usual one."""
    # A finding that an earlier version stored may lack some of the numbers.
    if not {"now", "low", "high"} <= finding.numbers.keys():
        return None
    unit = finding_unit(finding)
    inside = say(
        "{now}, inside its usual range ({low} to {high})",
        now=measured(finding, "now", unit),
        low=measured(finding, "low", unit),
        high=measured(finding, "high", unit),
    )
    is_or_are = ARE if is_plural(signal_text(finding)) else IS
    return Statement(_signal(finding, voice), is_or_are, inside)


def threshold(finding: Finding, voice: Voice) -> Statement | None:
    """A threshold that the signal crosses while all is well."""
    limit, percent = finding.numbers.get("threshold"), finding.numbers.get("percent_of_baseline")
    proposed = finding.numbers.get("proposed")
    if limit is None or percent is None or proposed is None:
        return None
    # The proposal lies beyond the threshold, on the side that the alert fires on.
    side = "above" if proposed >= limit else "below"
    usual = say(
        "{side} the alert's threshold of {limit} for {percent} of the time in normal operation",
        side=side,
        limit=measured(finding, "threshold", finding_unit(finding)),
        percent=measured(finding, "percent_of_baseline", PERCENT),
    )
    return Statement(_signal(finding, voice), Verb("was", "was", ""), usual)


def usual_move(finding: Finding, voice: Voice) -> Statement | None:
    """A move that the signal makes all the time."""
    if not {"times", "hours", "minutes"} <= finding.numbers.keys():
        return None
    often = figure(finding, "times", counted(int(finding.numbers["times"]), "time"))
    moved = say(
        "{often} in the {hours} before, for at most {minutes}",
        often=often,
        hours=measured(finding, "hours", HOURS),
        minutes=measured(finding, "minutes", MINUTES),
    )
    return Statement(_signal(finding, voice), Verb("moved as far", "moved as far", ""), moved)


def flapping(finding: Finding, voice: Voice) -> Statement | None:
    """A monitor that fires and clears by itself."""
    numbers = finding.numbers
    if not {"times", "times_back", "hours", "minutes"} <= numbers.keys():
        return None
    back = numbers["times_back"]
    phrase = "each time" if back == numbers["times"] else counted(int(back), "time")
    fired = say(
        "{often} in {hours} and cleared by itself {each}, within {minutes}",
        often=figure(finding, "times", counted(int(numbers["times"]), "time")),
        hours=measured(finding, "hours", HOURS),
        each=figure(finding, "times_back", phrase),
        minutes=measured(finding, "minutes", MINUTES),
    )
    return Statement(say("this monitor"), Verb("fired", "fired", ""), fired)


def stopped(finding: Finding, voice: Voice) -> Statement | None:
    """A signal that is no longer collected."""
    if "minutes" not in finding.numbers:
        return None
    other_series = finding.numbers.get("other_series")
    rest = "and the service sends nothing else either"
    if other_series:
        verb = "comes" if other_series == 1 else "come"
        rest = f"while {amount(other_series)} other series of the service still {verb} in"
    silent = say(
        "no data for {minutes}, {rest}", minutes=measured(finding, "minutes", MINUTES), rest=rest
    )
    return Statement(_signal(finding, voice), Verb("has had", "had", ""), silent)


def back_again(finding: Finding, voice: Voice) -> Statement | None:
    """A signal that left its usual range and came back."""
    if "lasted_min" not in finding.numbers:
        return None
    lasted = measured(finding, "lasted_min", MINUTES)
    back = say("back to normal after about {lasted}", lasted=lasted)
    return Statement(_signal(finding, voice), Verb("was", "was", ""), back)


def _signal(finding: Finding, voice: Voice) -> Phrase:
    if not finding.signal:
        return say("{who}", who=voice.who) if finding.subject else NOTHING
    return say("{whose} {signal}", whose=voice.whose, signal=signal_text(finding))
