"""`diagnose`: one case folder in, one diagnosis out. Pure: the same case gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from faultline.analysis.analyzers import analyzers, finding_kind, is_training
from faultline.analysis.case.folder import Case
from faultline.analysis.case.observations import observed
from faultline.analysis.case.windows import citing_matching_rows
from faultline.analysis.changes.alternatives import no_change_reasons
from faultline.analysis.changes.nearby import nearby_changes
from faultline.analysis.logs.signature_findings import without_what_ranks_tell
from faultline.analysis.metrics.alert_evaluation import alert_evaluation
from faultline.analysis.metrics.alert_history import alert_history
from faultline.analysis.metrics.explained_share import Measured, measured
from faultline.analysis.metrics.recovery import alert_state
from faultline.analysis.ranking.alert_gate import alert_gate
from faultline.analysis.ranking.discriminating_query import next_query
from faultline.analysis.ranking.hypotheses import memory_findings
from faultline.analysis.ranking.impact import assess_impact
from faultline.analysis.ranking.missing_evidence import (
    has_no_past,
    short_history,
    unknown_calls,
    without_first_samples,
)
from faultline.analysis.ranking.ranking import rank_causes
from faultline.analysis.ranking.verdicts import conclude
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.states.facts import without_what_states_tell
from faultline.analysis.suspects.alert_truth import alert_truth
from faultline.analysis.suspects.call_graph import tied_to_calls
from faultline.analysis.suspects.explanations import weigh_suspects, with_ranks
from faultline.analysis.suspects.observed import Observed, observe, with_agreement
from faultline.analysis.suspects.outside_view import calls_into, more_calls, place_contrasts
from faultline.analysis.suspects.part_contrasts import part_contrasts
from faultline.analysis.suspects.ranked import rank_suspects
from faultline.analysis.suspects.suspect import Suspect, with_objects
from faultline.analysis.training.fleet_parts import repeated_host_finding
from faultline.analysis.vocabulary import Alert, Cause, Diagnosis, Finding, Impact, Verdict

MAX_FINDINGS = 60
"""The strongest findings that are kept, besides those that are cited and those of kinds that are
always kept."""


@dataclass(frozen=True)
class Established:
    """What is known of a case before changes are weighed against each other and causes named."""

    findings: list[Finding]
    suspects: list[Suspect]
    observation: Observed
    alert: Alert
    """With the service that its title names, where it names none otherwise."""
    measures: Measured


def established(case: Case) -> Established:
    """Run every analyzer, and weigh the suspects that the findings name. Raises EvidenceError when
    a table cannot be read."""
    facts = [finding for analyzer in analyzers() for finding in analyzer.find(case)]
    facts = without_first_samples(case, facts)
    facts += alert_history(case, facts)
    facts = without_what_states_tell(without_what_ranks_tell(facts))
    calls = read_topology(case)
    facts = tied_to_calls(facts, calls, case)
    topology = with_objects(with_ranks(calls, facts, case.alert), facts)
    observed_observe = observe(case, topology, facts)
    facts = with_agreement(
        [
            *facts,
            *calls_into(case, observed_observe),
            *more_calls(case, observed_observe),
            *place_contrasts(case, observed_observe),
        ],
        observed_observe,
    )
    facts += part_contrasts(
        [*observed_observe.service_series, *observed_observe.parts], case.evidence_ids("metrics")
    )
    facts += alert_truth(
        case,
        [deviation for deviation, _ in observed_observe.service_series],
        observed_observe.graph,
    )
    facts = citing_matching_rows(facts, case)
    alert = case.alert.model_copy(update={"service": observed_observe.alerting})
    measures = measured(case)
    suspects = rank_suspects(
        weigh_suspects(facts, observed_observe.likely_graph, alert, measures),
        observed_observe,
        facts,
    )
    return Established(facts, suspects, observed_observe, alert, measures)


def diagnose(case: Case) -> Diagnosis:
    """Establish what can be, rank the causes and conclude. Raises EvidenceError when a table cannot
    be read."""
    facts = established(case)
    observation, topology = facts.observation, facts.observation.graph
    reasons = no_change_reasons(case, topology, shifts=facts.findings)
    changes = nearby_changes(case, facts.suspects, topology, reasons)
    changes = citing_matching_rows([*changes, *reasons], case)
    # Changes are findings too, and are numbered together with the others.
    findings = number_findings([*facts.findings, *changes])

    # Weigh again, with the numbered findings and the changes among them.
    weighed = weigh_suspects(findings, observation.likely_graph, facts.alert, facts.measures)
    suspects = rank_suspects(weighed, observation, findings)
    causes = rank_causes(
        suspects,
        findings,
        topology,
        case.lost,
        facts.alert.service,
        observation.presumed_calls,
    )
    impact = assess_impact(case, findings, topology, causes=causes)
    state = alert_state(case, findings)
    top = max((suspect.score for suspect in suspects), default=0.0)
    gate = alert_gate(observation, alert_evaluation(case))
    conclusion = conclude(case, causes, findings, state, top, gate)

    if conclusion.verdict is Verdict.NO_ACTIVE_INCIDENT and has_no_past(case):
        # Nobody knows what is normal there.
        conclusion = replace(conclusion, verdict=Verdict.INSUFFICIENT_EVIDENCE, confidence=0.0)

    memories = memory_findings(case, findings, conclusion.confidence)
    missing = conclusion.missing
    about_calls = unknown_calls(case, facts.alert.service, topology)
    if any(is_training(finding) for finding in findings):
        # Ranks of a training job call one another in collectives, whatever else is known.
        about_calls = None
    limit = short_history(case)
    if limit is not None:
        missing = (limit, *missing)
    undecided = conclusion.verdict in (Verdict.CAUSE_FOUND, Verdict.INSUFFICIENT_EVIDENCE)
    diagnosis = Diagnosis(
        verdict=conclusion.verdict,
        confidence=conclusion.confidence,
        causes=tuple(causes),
        findings=(
            *_limited_findings(findings, causes, impact),
            *memories,
            *observed(case.observations),
        ),
        impact=impact,
        missing=(*missing, about_calls) if undecided and about_calls else missing,
        next_query=next_query(case, causes, findings, topology) if undecided else None,
    )
    repeated = repeated_host_finding(case, diagnosis, len(findings) + len(memories) + 1)
    if repeated is None:
        return diagnosis
    return diagnosis.model_copy(update={"findings": (*diagnosis.findings, repeated)})


def number_findings(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, strongest first, with ids F1, F2, ... Ties are broken by what they say."""
    ordered = sorted(
        findings, key=lambda f: (-f.strength, f.kind, f.subject, f.signal or "", f.sentence)
    )
    return [f.model_copy(update={"id": f"F{n}"}) for n, f in enumerate(ordered, start=1)]


def _limited_findings(
    findings: Sequence[Finding], causes: Sequence[Cause], impact: Impact
) -> tuple[Finding, ...]:
    cited = {i for c in causes for i in (*c.findings, *c.contradicting)} | set(impact.findings)
    remaining_findings = []
    for place, finding in enumerate(findings):
        always = finding.id in cited or finding_kind(finding.kind).always_listed
        if place < MAX_FINDINGS or always:
            remaining_findings.append(finding)
    return tuple(remaining_findings)
