"""Who and what is affected, since when: the user-facing symptom first, then how much, then how far
it reaches.

Said from findings and the case's own numbers alone; an estimate is called "about". The order of the
parts is that of what an engineer decides by: what users feel, how many requests fail, what training
loses, how far it reaches, how fast an error budget goes. Parts that do not fit into two lines are
left out of the sentence and stay in `numbers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from analysis.analyzers import fault_of, finding_kind
from analysis.case.folder import Case
from analysis.kinds.fault_kinds import LATENCY
from analysis.kinds.signals import classify
from analysis.metrics.alert_history import STOPPED
from analysis.metrics.failing_requests import failing_requests
from analysis.metrics.recovery import KIND as RECOVERED
from analysis.metrics.usual_moves import CLEAR, usual_moves
from analysis.ranking.error_budget import error_budget
from analysis.ranking.training_impact import TrainingImpact, training_impact
from analysis.requests.topology import Topology
from analysis.suspects.explanations import rank_names
from analysis.vocabulary import Cause, Finding, Impact
from analysis.wording.phrases import counted, number, plain, rounded

NAMED = 4
TWO_LINES = 280
"""Characters that fit into two lines of a Slack message."""
NOBODY = "No effect on a user-facing signal was found"


@dataclass(frozen=True)
class _Part:
    """A part of the sentence, and what it rests on."""

    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[str, ...] = ()


def assess_impact(
    case: Case, findings: Sequence[Finding], topology: Topology, *, causes: Sequence[Cause] = ()
) -> Impact:
    """The impact. With `causes` (the likeliest first) it tells how far the first one reaches to its
    callers."""
    noticed = [f for f in findings if _has_impact(f) and f.strength >= CLEAR]
    usual = usual_moves(case, noticed)
    noticed = [f for f in noticed if f.id not in usual]
    training = training_impact(case, findings)
    if not noticed:
        return _on_nobody(findings, training)
    ranks = rank_names(findings)
    above = (
        topology.upstream(causes[0].subject)
        if causes and causes[0].subject in topology.services
        else {}
    )
    lead = min(noticed, key=lambda f: _order(case, f, topology, above))
    affected = {f.subject for f in noticed if f.subject == lead.subject or f.subject not in ranks}
    services = _reached(affected, lead, topology, causes)
    cited = [lead, *(_strongest(noticed, s) for s in services if s != lead.subject)]
    since = _since([f for f in noticed if f.subject in services], lead)
    parts = [_Part(lead.sentence.rstrip("."), lead.numbers, (lead.id,))]
    parts += _came_back(findings, lead)
    parts += _failing(case, lead, since)
    parts += [_of_training(training)] if training else _reach(cited, topology, causes)
    return _impact(parts, since, services, tuple(f.id for f in cited))


def _impact(
    parts: Sequence[_Part],
    since: datetime | None,
    services: Sequence[str] = (),
    findings: Sequence[str] = (),
) -> Impact:
    sentence, numbers = "", dict[str, float]()
    for part in parts:
        joined = f"{sentence}; {part.text}" if sentence else part.text
        sentence = joined if not sentence or len(joined) < TWO_LINES else sentence
        numbers.update(part.numbers)
    cited = dict.fromkeys([*(parts[0].findings if parts else ()), *findings])
    cited |= dict.fromkeys(i for part in parts for i in part.findings)
    return Impact(
        sentence=sentence + ".",
        since=since,
        services=tuple(services),
        numbers=numbers,
        findings=tuple(cited),
    )


def _on_nobody(findings: Sequence[Finding], training: TrainingImpact | None) -> Impact:
    """No clear symptom: what a job loses, else why the alert fired although nothing is noticed."""
    if training is not None:
        part = _of_training(training)
        text = f"{plain(training.job, 60)}: {part.text}" if not training.hangs else part.text
        return _impact([_Part(text, part.numbers, part.findings)], training.since, (training.job,))
    why = [f for f in findings if finding_kind(f.kind).explains_alert or f.kind == STOPPED]
    if not why:
        return Impact(sentence=NOBODY + ".")
    told = min(why, key=lambda f: (-f.strength, f.kind, f.id))
    return _impact(
        [_Part(f"{NOBODY}: {told.sentence.rstrip('.')}", told.numbers, (told.id,))], None
    )


def _reached(
    affected: set[str], lead: Finding, topology: Topology, causes: Sequence[Cause]
) -> list[str]:
    """The affected services that calls connect with the first cause or with what is noticed, upward
    and downward (what a caller sends on may be broken), and those of which no calls are known. The
    rest stays among the findings."""
    if not causes or causes[0].subject not in topology.services:
        return sorted(affected)
    centres = (causes[0].subject, lead.subject)
    near = {s for c in centres for s in (*topology.upstream(c), *topology.downstream(c))}
    return sorted(s for s in affected if s in near or s not in topology.services)


def _since(noticed: Sequence[Finding], lead: Finding) -> datetime | None:
    return min(
        (f.onset for f in noticed if f.onset and f.strength >= 0.5 * lead.strength), default=None
    )


def _came_back(findings: Sequence[Finding], lead: Finding) -> Iterator[_Part]:
    for finding in findings:
        minutes = finding.numbers.get("lasted_min")
        if finding.kind == RECOVERED and finding.subject == lead.subject and minutes is not None:
            text = f"it was back after about {number(minutes, 3)} min"
            yield _Part(text, {"lasted_min": minutes}, (finding.id,))
            return


def _failing(case: Case, lead: Finding, since: datetime | None) -> Iterator[_Part]:
    """Requests and users failing, and what that does to an error budget."""
    found = (
        failing_requests(case, lead.subject, since or case.alert.started_at)
        if _is_symptom(lead)
        else None
    )
    if found is None:
        return
    percent = rounded(100 * found.share, 2)
    numbers = {"failed_percent": percent}
    text = f"about {number(percent, 2)} % of its requests failed since the onset"
    if found.failed is not None and round(found.failed) >= 1:
        numbers["failed_requests"] = rounded(float(round(found.failed)), 3)
        text = (
            f"about {number(numbers['failed_requests'], 3)} requests failed since the onset "
            f"({number(percent, 2)} %)"
        )
    if found.users is not None:
        numbers["users"] = float(found.users)
        text += f", {counted(found.users, 'user')} named in error lines"
    if len(numbers) > 1 or fault_of(lead) is LATENCY:
        yield _Part(text, numbers)
    budget = error_budget(case.alert, found.share)
    if budget is not None:
        yield _Part(budget.sentence, budget.numbers)


def _of_training(training: TrainingImpact) -> _Part:
    return _Part(training.sentence, training.numbers, (training.finding.id,))


def _reach(
    cited: Sequence[Finding], topology: Topology, causes: Sequence[Cause]
) -> Iterator[_Part]:
    """How many of the first cause's callers show symptoms, else how many other services; the first
    by name."""
    others = [f.subject for f in cited[1:]]
    numbers = {"other_services": float(len(others))} if others else {}
    culprit = causes[0].subject if causes else ""
    callers = topology.callers(culprit)
    hit = [c for c in callers if c in {f.subject for f in cited}]
    if len(callers) > 1 and hit:
        numbers |= {"affected_callers": float(len(hit)), "callers": float(len(callers))}
        share = (
            f"{len(hit)} of {len(callers)}"
            if len(hit) < len(callers)
            else "both"
            if len(hit) == 2
            else "all"
        )
        verb = "shows" if len(hit) == 1 else "show"
        text = f"{share} services that call {plain(culprit, 60)} {verb} symptoms ({_names(hit)})"
        yield _Part(text, numbers)
    elif others:
        verb = "shows" if len(others) == 1 else "show"
        yield _Part(
            f"{counted(len(others), 'other service')} {verb} symptoms ({_names(others)})", numbers
        )


def _names(services: Sequence[str]) -> str:
    return ", ".join(plain(s, 60) for s in services[:NAMED]) + (
        ", …" if len(services) > NAMED else ""
    )


def _order(
    case: Case, finding: Finding, topology: Topology, above: Mapping[str, int]
) -> tuple[object, ...]:
    """What is told first: the alerting signal, the alerting service, the entry above the first
    cause (a service that nobody calls), what else is above it, other entries, the rest; symptoms of
    the alert's kind first."""
    alert, subject = case.alert, finding.subject
    entry = bool(topology.callees(subject)) and not topology.callers(subject)
    places = (entry and subject in above, subject in above, entry)
    own = 0 if subject != alert.service else 2 if finding.signal == alert.signal else 1
    alike = (
        alert.signal is not None and finding.details.signal_class == classify(alert.signal).value
    )
    place = next((n for n, holds in enumerate(places) if holds), len(places))
    return -own, not _is_symptom(finding), place, not alike, -finding.strength, finding.id


def _has_impact(finding: Finding) -> bool:
    """Whether somebody outside of the service notices what it speaks of."""
    fault = fault_of(finding)
    return fault is not None and fault.has_impact


def _is_symptom(finding: Finding) -> bool:
    """Whether users notice it: it has an impact, and alerts speak of it."""
    fault = fault_of(finding)
    return fault is not None and fault.has_impact and fault.is_symptom


def _strongest(findings: Sequence[Finding], subject: str) -> Finding:
    return min((f for f in findings if f.subject == subject), key=lambda f: (-f.strength, f.id))
