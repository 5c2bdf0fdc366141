"""How far a responder gets who reads one report and acts on its headline: 100, 65, 35 or 0 points.

The rubric is incident.io's (incident.io/blog, grading of closed incidents): 100 bullseye, 65 one
hop short, 35 right area, 0 wrong. Here it is read off names, by code: what the headline names
against the label, with the calls of the case as the distance between services. "No incident" and
"not enough evidence" are answers like others.
"""

from __future__ import annotations

from bot.answer.writer.blame_checks import states_verdict

from analysis.requests.topology import Topology
from analysis.vocabulary import Report, Verdict
from bot.answer.writer.quotable import folded, named_in
from evaluation.labels import NO_CHANGE, CaseLabel

BULLSEYE = 100
ONE_HOP_SHORT = 65
RIGHT_AREA = 35
WRONG = 0
AREA_HOPS = 2
"""Calls between the truth and what the headline names that still are the right area."""
MIN_COMMIT = 7
"""Digits by which people name a commit."""
_WITH_A_CAUSE = (Verdict.CAUSE_FOUND, Verdict.RECOVERED)


def points(report: Report, label: CaseLabel, verdict: Verdict, calls: Topology) -> int | None:
    """The grade of the words; None where the label tells no subject, change or verdict to act
    on."""
    if not label.gradable:
        return None
    if label.verdict is not None and label.verdict not in _WITH_A_CAUSE:
        stated = states_verdict(report.headline, label.verdict)
        return BULLSEYE if verdict is label.verdict and stated else WRONG
    change = _culprit_change(label)
    if change and _names_change(change, folded(report.headline)):
        return BULLSEYE
    if label.subject:
        return _points_for_subject(report, label.subject, calls, has_change=change is not None)
    if change and _claims_name_change(report, change):
        return RIGHT_AREA
    return WRONG


def _culprit_change(label: CaseLabel) -> str | None:
    """The change to blame; None where the label tells none or says that none is to blame."""
    if not label.change or label.change == NO_CHANGE:
        return None
    return label.change


def _points_for_subject(report: Report, subject: str, calls: Topology, *, has_change: bool) -> int:
    """The points for the service that the headline names.

    With a change to blame, the service that was changed is one hop short of the answer.
    """
    headline = folded(report.headline)
    if named_in(folded(subject), headline):
        return ONE_HOP_SHORT if has_change else BULLSEYE
    hops = _hops_to_named(headline, subject, calls)
    if hops == 1 and not has_change:
        return ONE_HOP_SHORT
    if hops is not None or _claims_name(report, subject):
        return RIGHT_AREA
    return WRONG


def _hops_to_named(headline: str, subject: str, calls: Topology) -> int | None:
    """Calls from the subject to the nearest service that the headline names."""
    near = {
        **calls.upstream(subject, within=AREA_HOPS),
        **calls.downstream(subject, within=AREA_HOPS),
    }
    named = []
    for service, hops in near.items():
        if hops > 0 and named_in(folded(service), headline):
            named.append(hops)
    return min(named, default=None)


def _claims_name(report: Report, subject: str) -> bool:
    name = folded(subject)
    return any(named_in(name, folded(claim.text)) for claim in report.claims)


def _claims_name_change(report: Report, change: str) -> bool:
    return any(_names_change(change, folded(claim.text)) for claim in report.claims)


def _names_change(change: str, text: str) -> bool:
    name = folded(change)
    if named_in(name, text):
        return True
    return len(name) > MIN_COMMIT and name[:MIN_COMMIT] in text
