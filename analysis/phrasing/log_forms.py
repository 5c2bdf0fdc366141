"""Statements about what logs say."""

from __future__ import annotations

from analysis.kinds.finding_details import LogLineDetails, SignatureDetails
from analysis.phrasing.log_message import message_of
from analysis.phrasing.phrase import NOTHING, Phrase, figure, quote, say
from analysis.phrasing.statement import Statement, Verb, Voice
from analysis.vocabulary import Finding
from analysis.wording.amounts import times
from analysis.wording.phrases import counted


def logged(finding: Finding, voice: Voice) -> Statement | None:
    """Of a known failure what it means, of other lines what they say."""
    signature = SignatureDetails.of(finding)
    if signature is not None and signature.meaning:
        often = _how_often(finding, signature.lines, signature.baseline_lines, voice)
        return _known_failure(signature.meaning, voice, often)
    details = LogLineDetails.of(finding)
    if details is None or not details.example:
        return None
    often = _how_often(finding, details.lines, details.baseline_lines)
    line = quote(message_of(details.example), finding)
    said = say("{line} ({often})", line=line, often=often)
    verb = Verb("logs", "logged", "log")
    return Statement(say("{who}", who=voice.who), verb, said, Phrase((line,)))


def _known_failure(meaning: str, voice: Voice, often: Phrase) -> Statement:
    """What is known to be wrong, a whole clause, with the log as its witness."""
    witness = say("({often})", often=often)
    shorter = NOTHING if voice.known else say("(according to {whose} log)", whose=voice.whose)
    return Statement(say("{it}", it=meaning), Verb("", "", ""), witness, shorter)


def _how_often(finding: Finding, lines: int, before: int, log_of: Voice | None = None) -> Phrase:
    often = Phrase((figure(finding, "lines", counted(lines, "line")),))
    if log_of is not None:
        often = say("{often} in {whose} log", often=often, whose=log_of.whose)
    if not before:
        return say("{often}, none before", often=often)
    ratio = finding.numbers.get("ratio")
    if ratio is None:
        return often
    more = figure(finding, "ratio", times(ratio))
    return say("{often}, {times} the usual rate", often=often, times=more)
