"""Who and what is affected, since when: said from findings alone."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.case_folder import Case
from analysis.explanations import rank_names, trouble_of
from analysis.topology import Topology
from analysis.vocabulary import Finding, Impact
from analysis.wording import counted, plain

FELT = frozenset({"latency", "errors", "availability", "restarts", "span_errors", "log_errors", "network"})
"""Kinds of trouble that somebody outside the service feels."""
CLEAR = 0.3
NAMED = 4


def assess_impact(case: Case, findings: Sequence[Finding], topology: Topology) -> Impact:
    """The impact: the user-facing symptom first, then every service with a clear symptom."""
    felt = [f for f in findings if trouble_of(f) in FELT and f.strength >= CLEAR]
    if not felt:
        return Impact(sentence="No effect on a user-facing signal was found.")
    lead = min(felt, key=lambda f: (_distance(case, f, topology), not _is_symptom(f), -f.strength, f.id))
    ranks = rank_names(findings)
    services = sorted({f.subject for f in felt if f.subject == lead.subject or f.subject not in ranks})
    cited = [lead, *[_strongest(felt, s) for s in services if s != lead.subject]]
    others = len(services) - 1
    sentence = lead.sentence.rstrip(".")
    numbers = dict(lead.numbers)
    if others:
        named = ", ".join(plain(f.subject, 60) for f in cited[1 : 1 + NAMED])
        verb = "shows" if others == 1 else "show"
        sentence += f"; {counted(others, 'other service')} {verb} symptoms ({named}{', …' if others > NAMED else ''})"
        numbers["other_services"] = others
    since = min((f.onset for f in felt if f.onset and f.strength >= 0.5 * lead.strength), default=None)
    return Impact(
        sentence=sentence + ".",
        since=since,
        services=tuple(services),
        numbers=numbers,
        findings=tuple(dict.fromkeys(f.id for f in cited)),
    )


def _distance(case: Case, finding: Finding, topology: Topology) -> int:
    """0 for the alerting signal, then the alerting service, then services nobody calls, then the rest."""
    if finding.subject == case.alert.service:
        return 0 if finding.signal == case.alert.signal else 1
    if case.alert.service is None and not topology.callers(finding.subject) and topology.services:
        return 2
    return 3


def _is_symptom(finding: Finding) -> bool:
    return trouble_of(finding) in ("latency", "errors", "availability", "span_errors")


def _strongest(findings: Sequence[Finding], subject: str) -> Finding:
    return min((f for f in findings if f.subject == subject), key=lambda f: (-f.strength, f.id))
