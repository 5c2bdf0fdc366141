"""Statements about places (nodes, zones, clusters) and what runs there."""

from __future__ import annotations

from faultline.analysis.kinds.finding_details import PlaceDetails
from faultline.analysis.phrasing.phrase import Part, listed, name, say
from faultline.analysis.phrasing.statement import Statement, Verb, Voice
from faultline.analysis.vocabulary import Finding

NAMED = 3
FAIL_OR_SLOW = Verb("are in trouble", "were in trouble", "get into trouble")
FAIL_OR_SLOW_SINGULAR = Verb("is in trouble", "was in trouble", "get into trouble")


def worse_there(finding: Finding, voice: Voice) -> Statement | None:
    """Of a place in which services do worse than their instances elsewhere."""
    details = PlaceDetails.of(finding)
    if details is None or not details.services or not details.place_kind:
        return None
    where = Part(_called(details.place_kind, finding.subject), "name", finding.id)
    worse, there = len(details.services), max(details.services_there, len(details.services))
    named = listed([name(service) for service in details.services], most=NAMED)
    do = FAIL_OR_SLOW_SINGULAR if worse == 1 else FAIL_OR_SLOW
    at = "on" if details.place_kind in ("node", "host") else "in"
    short = say("{at} {where} and not elsewhere", at=at, where=where)
    of = f"{worse} of the {there} services that run both there and elsewhere"
    if worse == there:
        of = f"all {there} services that run both there and elsewhere" if there > 2 else ""
        of = "both services that run there and elsewhere" if there == 2 else of
    rest = say("{short} ({of})", short=short, of=of) if of else short
    return Statement(named, do, rest, short)


def _called(kind: str, place: str) -> str:
    """A place with its kind, unless its name begins with that: "node ip-10-0-3", "node-04"."""
    return place if place.lower().startswith(kind.lower()) else f"{kind} {place}"
