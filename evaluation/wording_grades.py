"""How far a responder gets who reads one report and acts on its headline: 100, 65, 35 or 0 points.

The rubric is incident.io's (incident.io/blog, grading of closed incidents): 100 bullseye, 65 one
hop short, 35 right area, 0 wrong. Here it is read off names, by code: what the headline names
against the label, with the calls of the case as the distance between services. "No incident" and
"not enough evidence" are answers like others.
"""

from __future__ import annotations

from analysis.requests.topology import Topology
from analysis.vocabulary import Report, Verdict
from bot.answer.writer.blame_checks import states_verdict
from bot.answer.writer.support import folded, named_in
from evaluation.labels import NO_CHANGE, Label

BULLSEYE = 100
ONE_HOP_SHORT = 65
RIGHT_AREA = 35
WRONG = 0
AREA_HOPS = 2
"""Calls between the truth and what the headline names that still are the right area."""
MIN_COMMIT = 7
"""Digits by which people name a commit."""


def points(report: Report, label: Label, verdict: Verdict, calls: Topology) -> int | None:
    """The grade of the words; None where the label tells no subject, change or verdict to act
    on."""
    if not label.gradable:
        return None
    if label.verdict is not None and label.verdict not in (Verdict.CAUSE_FOUND, Verdict.RECOVERED):
        return (
            BULLSEYE
            if verdict is label.verdict and states_verdict(report.headline, label.verdict)
            else WRONG
        )
    headline = folded(report.headline)
    change = label.change if label.change not in (None, NO_CHANGE) else None
    if change and _names_change(change, headline):
        return BULLSEYE
    if not label.subject:
        return (
            RIGHT_AREA
            if change and any(_names_change(change, folded(c.text)) for c in report.claims)
            else WRONG
        )
    if named_in(folded(label.subject), headline):
        return ONE_HOP_SHORT if change else BULLSEYE
    near = {
        **calls.upstream(label.subject, within=AREA_HOPS),
        **calls.downstream(label.subject, within=AREA_HOPS),
    }
    named = [
        hops for service, hops in near.items() if hops > 0 and named_in(folded(service), headline)
    ]
    if named and min(named) == 1:
        return ONE_HOP_SHORT if not change else RIGHT_AREA
    told = any(named_in(folded(label.subject), folded(c.text)) for c in report.claims)
    return RIGHT_AREA if named or told else WRONG


def _names_change(change: str, text: str) -> bool:
    low = folded(change)
    return named_in(low, text) or (len(low) > MIN_COMMIT and low[:MIN_COMMIT] in text)
