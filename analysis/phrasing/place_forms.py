"""Statements about places (nodes, zones, clusters) and what runs there."""

from __future__ import annotations

from analysis.kinds.finding_details import PlaceDetails, StateFactDetails
from analysis.kinds.node_faults import NODES
from analysis.kinds.state_faults import STATE_FAULTS
from analysis.phrasing.phrase import Part, Phrase, listed, name, say
from analysis.phrasing.statement import Statement, Verb, Voice
from analysis.vocabulary import Finding
from analysis.wording.phrases import counted

NAMED = 3
_OF_NODES = frozenset(fault.name for fault in NODES)


def worse_there(finding: Finding, voice: Voice) -> Statement | None:
    """Of a place in which services do worse than their instances elsewhere."""
    details = PlaceDetails.of(finding)
    if details is None or not details.services or not details.place_kind:
        return None
    where = Part(f"{details.place_kind} {finding.subject}", "name", finding.id)
    worse, there = len(details.services), max(details.services_there, len(details.services))
    of = f" (of {there})" if there > worse else ""
    who = say("{services} in {where}", services=counted(worse, "service") + of, where=where)
    named = listed([name(service) for service in details.services], most=NAMED)
    does, do = ("does", "do") if worse == 1 else ("do", "do")
    rest = say("worse than elsewhere ({named})", named=named)
    return Statement(who, Verb(does, "did", do), rest, say("worse than elsewhere"))


def of_an_object(finding: Finding, voice: Voice) -> Statement | None:
    """Of an object's own state: its sentence, and in short what is wrong with the subject."""
    details = StateFactDetails.of(finding)
    if details is None or not details.objects:
        return None
    sentence = finding.sentence.strip().rstrip(".")
    whole = Phrase((Part(sentence, "name", finding.id),))
    return Statement(whole, None, shorter=_in_short(finding, details, voice))


def _in_short(finding: Finding, details: StateFactDetails, voice: Voice) -> Phrase | None:
    known = STATE_FAULTS.get(details.fact)
    if known is None:
        return None
    who = voice.who
    if details.fact in _OF_NODES and not voice.known:
        kind = details.objects[0].split(" ", 1)[0].lower()
        who = Part(f"{kind} {finding.subject}", "name")
    return say("{who} {does}", who=who, does=known.fault.description)
