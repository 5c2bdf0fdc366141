"""Who and what is affected, since when: the user-facing symptom first, then how much, then how far
it reaches.

It rests on findings and the case's own numbers alone; an estimate is called "about". The parts come
in the order in which an engineer decides by them: what users notice, how many requests fail, what
training loses, how far it reaches, how fast an error budget goes. Parts that do not fit into two
lines are left out of the sentence and stay in `numbers`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from faultline.analysis.analyzers import fault_of, finding_kind
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.fault_kinds import LATENCY
from faultline.analysis.kinds.signals import classify
from faultline.analysis.metrics.alert_history import STOPPED
from faultline.analysis.metrics.failing_requests import failing_requests
from faultline.analysis.metrics.recovery import KIND as RECOVERED
from faultline.analysis.metrics.usual_moves import CLEAR, usual_moves
from faultline.analysis.ranking.training_impact import TrainingImpact, training_impact
from faultline.analysis.requests.span_shifts import SlowerVisits, slower_visits
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.explanations import rank_names
from faultline.analysis.vocabulary import Alert, Cause, Finding, Impact
from faultline.analysis.wording.phrases import counted, number, plain, rounded

# How fast a failing share of requests uses up an error budget.
#
# Burn rate as in the Google SRE Workbook, chapter 5, "Alerting on SLOs": the error rate divided by
# what the objective allows; at a rate of 1 the budget lasts exactly the SLO's period. No objective
# is assumed: the alert has to name it.

OBJECTIVE_LABELS = ("slo_objective", "slo_target", "objective", "slo")
"""Labels whose value may be the objective. Of many tools (Sloth, Pyrra) `slo` is a name: then it is
no number."""
PERIOD_DAYS = 30.0
"""The workbook's period; an alert may say another one in `slo_period` or `slo_window`, as `28d`."""
PERIOD_LABELS = ("slo_period", "slo_window")
LEAST_BURN = 1.0
"""At a lower rate the budget lasts its period, so it is not mentioned."""


@dataclass(frozen=True)
class ErrorBudget:
    """`objective` as a share; at `burn_rate` times too fast the whole budget of `days` lasts
    `hours`."""

    objective: float
    burn_rate: float
    hours: float
    days: float

    @property
    def sentence(self) -> str:
        """Half a sentence, its numbers as in `numbers`."""
        n = self.numbers
        objective, days = number(n["objective_percent"], 6), number(n["budget_days"])
        phrase = (
            f"the error budget of {objective} % burns {number(n['burn_rate'], 2)} times too fast: "
        )
        return phrase + f"{days} days of it last about {number(n['budget_hours'], 2)} h"

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers as they are quoted."""
        return {
            "objective_percent": rounded(100 * self.objective, 6),
            "burn_rate": rounded(self.burn_rate, 2),
            "budget_days": rounded(self.days),
            "budget_hours": rounded(self.hours, 2),
        }


def error_budget(alert: Alert, failing_share: float) -> ErrorBudget | None:
    """The budget at this share of failing requests; None without an objective, or where it lasts
    its period."""
    objective = objective_of(alert.labels)
    if objective is None or not 0 < failing_share <= 1:
        return None
    burn = failing_share / (1 - objective)
    days = _period_days(alert.labels)
    return ErrorBudget(objective, burn, 24 * days / burn, days) if burn > LEAST_BURN else None


def objective_of(labels: Mapping[str, str]) -> float | None:
    """The objective as a share in (0.5, 1), given as `99.9`, `99.9%` or `0.999`."""
    for name in OBJECTIVE_LABELS:
        value = _number(labels.get(name, "").strip().removesuffix("%"))
        if value is not None and 50 < value < 100:
            return value / 100
        # Require more than one half: a smaller number is a share of errors, or something else.
        if value is not None and 0.5 < value < 1:
            return value
    return None


def _period_days(labels: Mapping[str, str]) -> float:
    for name in PERIOD_LABELS:
        label = labels.get(name, "").strip().lower()
        value = _number(label[:-1]) if label.endswith(("d", "w", "h")) else None
        if value is not None and value > 0:
            days = value * {"d": 1.0, "w": 7.0, "h": 1 / 24}[label[-1]]
            if 1 <= days <= 366:
                return days
    return PERIOD_DAYS


def _number(text: str) -> float | None:
    try:
        # Labels are foreign text: read no number of arbitrary length.
        value = float(text) if len(text) <= 20 else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


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
    """The impact. With `causes` (the likeliest first) it says how far the first one reaches to its
    callers."""
    noticed = _noticed(case, findings)
    training = training_impact(case, findings)
    slowed = _slowed_callers(case, topology, causes)
    if not noticed and slowed and training is None:
        return _on_slowed(case, slowed, topology)
    if not noticed:
        return _on_nobody(findings, training)
    symptom = _first_symptom(case, noticed, topology, causes)
    services = _reached(_affected(noticed, findings, symptom), symptom, topology, causes)
    cited = [symptom]
    for service in services:
        if service != symptom.subject:
            about = [finding for finding in noticed if finding.subject == service]
            cited.append(min(about, key=lambda finding: (-finding.strength, finding.id)))
    services = sorted({*services, *slowed})
    since = _since(case, symptom, [f for f in noticed if f.subject in services])
    parts = [_Part(symptom.sentence.rstrip("."), symptom.numbers, (symptom.id,))]
    parts += _came_back(findings, symptom)
    parts += _failing(case, symptom, since)
    if training is not None:
        parts.append(_of_training(training))
    else:
        other_services = [service for service in services if service != symptom.subject]
        parts += _reach([symptom.subject, *other_services], topology, causes)
    return _impact(parts, since, services, tuple(finding.id for finding in cited))


def _noticed(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """What somebody notices, without moves that the baseline makes all the time."""
    clear = [finding for finding in findings if finding.strength >= CLEAR and _has_impact(finding)]
    usual = usual_moves(case, clear)
    # Nobody takes a move that the series makes anyway for an incident.
    return [finding for finding in clear if finding.id not in usual]


def _first_symptom(
    case: Case, noticed: Sequence[Finding], topology: Topology, causes: Sequence[Cause]
) -> Finding:
    """The symptom that the sentence begins with."""
    above: Mapping[str, int] = {}
    if causes and causes[0].subject in topology.services:
        above = topology.upstream(causes[0].subject)
    return min(noticed, key=lambda finding: _order(case, finding, topology, above))


def _affected(
    noticed: Sequence[Finding], findings: Sequence[Finding], symptom: Finding
) -> set[str]:
    """The subjects that are services: ranks are parts of their job, unless one of them leads."""
    ranks = rank_names(findings)
    subjects = {finding.subject for finding in noticed if finding.subject not in ranks}
    subjects.add(symptom.subject)
    return subjects


def _impact(
    parts: Sequence[_Part],
    since: datetime | None,
    services: Sequence[str] = (),
    findings: Sequence[str] = (),
) -> Impact:
    sentence = ""
    numbers: dict[str, float] = {}
    ids = list(parts[0].findings) if parts else []
    ids += findings
    for part in parts:
        joined = f"{sentence}; {part.text}" if sentence else part.text
        # The first part is kept however long it is.
        if not sentence or len(joined) < TWO_LINES:
            sentence = joined
        numbers.update(part.numbers)
        ids += part.findings
    return Impact(
        sentence=sentence + ".",
        since=since,
        services=tuple(services),
        numbers=numbers,
        findings=tuple(dict.fromkeys(ids)),
    )


def _slowed_callers(
    case: Case, topology: Topology, causes: Sequence[Cause]
) -> dict[str, SlowerVisits]:
    """The services above the first cause in which requests take longer. Of a caller that waits for
    it there is no finding where only spans were recorded: findings about those tell what a service
    spends itself."""
    if not causes or causes[0].subject not in topology.services:
        return {}
    culprit = causes[0].subject
    above = topology.upstream(culprit)
    slower = slower_visits(case)
    return {name: slower[name] for name in slower if name in above and name != culprit}


def _on_slowed(case: Case, slowed: Mapping[str, SlowerVisits], topology: Topology) -> Impact:
    """Nothing was measured but spans: what requests take where users notice it."""
    alerting = case.alert.service
    entry_service = min(
        slowed, key=lambda name: (name != alerting, _place(name, topology, slowed), name)
    )
    visits = slowed[entry_service]
    text = (
        f"Requests take {number(visits.incident_ms)} ms in {plain(entry_service, 60)}, "
        f"{number(visits.baseline_ms)} ms in the baseline"
    )
    numbers = {"incident_ms": visits.incident_ms, "baseline_ms": visits.baseline_ms}
    other_services = [name for name in sorted(slowed) if name != entry_service]
    parts = [_Part(text, numbers), *_reach([entry_service, *other_services], topology, ())]
    since = min(
        (slow_visits.onset for slow_visits in slowed.values() if slow_visits.onset), default=None
    )
    return _impact(parts, since, sorted(slowed))


def _on_nobody(findings: Sequence[Finding], training: TrainingImpact | None) -> Impact:
    """No clear symptom: what a job loses, else why the alert fired although nothing is noticed."""
    if training is not None:
        part = _of_training(training)
        # A hanging job is named by the sentence itself.
        text = part.text if training.hangs else f"{plain(training.job, 60)}: {part.text}"
        return _impact([_Part(text, part.numbers, part.findings)], training.since, (training.job,))
    why = [f for f in findings if finding_kind(f.kind).explains_alert or f.kind == STOPPED]
    if not why:
        return Impact(sentence=NOBODY + ".")
    clearest = min(why, key=lambda f: (-f.strength, f.kind, f.id))
    text = f"{NOBODY}: {clearest.sentence.rstrip('.')}"
    return _impact([_Part(text, clearest.numbers, (clearest.id,))], None)


def _reached(
    affected: set[str], symptom: Finding, topology: Topology, causes: Sequence[Cause]
) -> list[str]:
    """The affected services that calls connect with the first cause or with what is noticed, upward
    and downward (what a caller sends on may be broken), and those without known calls. The rest
    stays among the findings."""
    if not causes or causes[0].subject not in topology.services:
        return sorted(affected)
    connected: set[str] = set()
    for centre in (causes[0].subject, symptom.subject):
        connected.update(topology.upstream(centre), topology.downstream(centre))
    # Services without known calls may be affected too, so keep them.
    unknown = affected - set(topology.services)
    return sorted((affected & connected) | unknown)


def _since(case: Case, symptom: Finding, noticed: Sequence[Finding]) -> datetime | None:
    """When what leads the impact began: another service may have been slow long before. Where that
    is not known, or only seen after the alert had fired, when the first of all began."""
    if symptom.onset is not None and symptom.onset <= case.alert.started_at:
        return symptom.onset
    # A weak finding with an early onset may be chance, and would date the whole incident.
    onsets = [f.onset for f in noticed if f.onset and f.strength >= 0.5 * symptom.strength]
    return min(onsets, default=symptom.onset)


def _came_back(findings: Sequence[Finding], symptom: Finding) -> Iterator[_Part]:
    for finding in findings:
        minutes = finding.numbers.get("lasted_min")
        if finding.kind == RECOVERED and finding.subject == symptom.subject and minutes is not None:
            text = f"it was back after about {number(minutes, 3)} min"
            yield _Part(text, {"lasted_min": minutes}, (finding.id,))
            return


def _failing(case: Case, symptom: Finding, since: datetime | None) -> Iterator[_Part]:
    """Requests and users failing, and what that does to an error budget."""
    if not _is_symptom(symptom):
        return
    failures = failing_requests(case, symptom.subject, since or case.alert.started_at)
    if failures is None:
        return
    percent = rounded(100 * failures.share, 2)
    numbers = {"failed_percent": percent}
    text = f"about {number(percent, 2)} % of its requests failed since the onset"
    if failures.failed is not None and round(failures.failed) >= 1:
        failed = rounded(float(round(failures.failed)), 3)
        numbers["failed_requests"] = failed
        text = f"about {number(failed, 3)} requests failed since the onset ({number(percent, 2)} %)"
    if failures.users is not None:
        numbers["users"] = float(failures.users)
        text += f", {counted(failures.users, 'user')} named in error lines"
    part = _Part(text, numbers)
    if len(part.numbers) > 1 or fault_of(symptom) is LATENCY:
        # Of errors the lead itself gives the share: only a count adds something.
        yield part
    budget = error_budget(case.alert, failures.share)
    if budget is not None:
        yield _Part(budget.sentence, budget.numbers)


def _of_training(training: TrainingImpact) -> _Part:
    return _Part(training.sentence, training.numbers, (training.finding.id,))


def _reach(shown: Sequence[str], topology: Topology, causes: Sequence[Cause]) -> Iterator[_Part]:
    """How many of the first cause's callers show symptoms, else how many other services; the first
    by name. `shown` begins with the service that leads."""
    services = shown[1:]
    numbers = {"other_services": float(len(services))} if services else {}
    culprit = causes[0].subject if causes else ""
    callers = topology.callers(culprit)
    hit = [caller for caller in callers if caller in shown]
    if len(callers) > 1 and hit:
        numbers["affected_callers"] = float(len(hit))
        numbers["callers"] = float(len(callers))
        verb = "shows" if len(hit) == 1 else "show"
        text = (
            f"{_share(len(hit), len(callers))} services that call {plain(culprit, 60)} "
            f"{verb} symptoms ({_names(hit)})"
        )
        yield _Part(text, numbers)
    elif services:
        verb = "shows" if len(services) == 1 else "show"
        count = counted(len(services), "other service")
        yield _Part(f"{count} {verb} symptoms ({_names(services)})", numbers)


def _share(hit: int, total: int) -> str:
    if hit < total:
        return f"{hit} of {total}"
    return "both" if hit == 2 else "all"


def _names(services: Sequence[str]) -> str:
    names = ", ".join(plain(service, 60) for service in services[:NAMED])
    return names + ", …" if len(services) > NAMED else names


def _order(
    case: Case, finding: Finding, topology: Topology, above: Mapping[str, int]
) -> tuple[object, ...]:
    """What leads: the alerting signal, the alerting service, the entry above the first cause (a
    service that nobody calls), what else is above it, other entries, the rest; symptoms of the
    alert's kind first."""
    signal = case.alert.signal
    alike = signal is not None and finding.details.signal_class == classify(signal).value
    if finding.subject != case.alert.service:
        nearness_to_alert = 0
    else:
        nearness_to_alert = 2 if finding.signal == case.alert.signal else 1
    return (
        # The alert's own signal leads: the reader was called for it.
        -nearness_to_alert,
        not _is_symptom(finding),
        _place(finding.subject, topology, above),
        not alike,
        -finding.strength,
        finding.id,
    )


def _place(subject: str, topology: Topology, above: Container[str]) -> int:
    """How near to the user the subject is, the nearest first."""
    is_entry = bool(topology.callees(subject)) and not topology.callers(subject)
    if subject in above:
        return 0 if is_entry else 1
    return 2 if is_entry else 3


def _has_impact(finding: Finding) -> bool:
    """Whether somebody outside of the service notices what it speaks of."""
    fault = fault_of(finding)
    return fault is not None and fault.has_impact


def _is_symptom(finding: Finding) -> bool:
    """Whether users notice it: it has an impact, and alerts speak of it."""
    fault = fault_of(finding)
    return fault is not None and fault.has_impact and fault.is_symptom
