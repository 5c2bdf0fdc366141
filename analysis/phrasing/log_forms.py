"""Statements about what logs say."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.analysis.kinds.finding_details import LogLineDetails, SignatureDetails
from faultline.analysis.phrasing.log_message import message_of
from faultline.analysis.phrasing.phrase import NOTHING, Part, Phrase, figure, name, quote, say
from faultline.analysis.phrasing.statement import Statement, Verb, Voice, possessive
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import times
from faultline.analysis.wording.names import subject_name
from faultline.analysis.wording.phrases import counted

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
