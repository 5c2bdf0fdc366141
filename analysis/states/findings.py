"""What the state of objects says by itself: a selector that matches nothing, a node that is not
ready, a quota that is used up, a database without storage.

Rows of the table `states` are facts that a connector read from a cluster or a cloud. They are
weighed by when they began and by what else explains them (`faultline.analysis.states.weighing`).
"""

from __future__ import annotations

import re

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.kinds.finding_kinds import STATE_KINDS, UPSTREAM_INCIDENT
from faultline.analysis.kinds.state_faults import FAMILY_OF, OF_NODES, OF_PROVIDERS
from faultline.analysis.states.facts import FactGroup, StateFact, fact_groups, unwell_instances
from faultline.analysis.states.weighing import OLD, WeighedGroup, weighed_groups
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import counted, plain

MAX_STATES = 40
MAX_QUOTE = 200
MAX_LISTED = 12
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def state_findings(case: Case) -> list[Finding]:
    """One finding per fact and subject, at most forty, the strongest first."""
    if not case.states.height:
        return []
    groups = fact_groups(case)
    unwell = unwell_instances(groups)
    weighed = weighed_groups(groups, case, unwell)
    weighed.sort(key=lambda state: (-state.strength, state.group.fault.name, state.group.subject))
    return [_finding(case, state, unwell) for state in weighed[:MAX_STATES]]


ANALYZER = Analyzer(state_findings, kinds=(*STATE_KINDS.values(), UPSTREAM_INCIDENT))


def _finding(case: Case, weighed: WeighedGroup, unwell: dict[str, str]) -> Finding:
    group = weighed.group
    # Of a node, how many of the unwell pods are on it.
    placed = [node for node in unwell.values() if node]
    there = sum(node == group.subject for node in placed)
    if group.fault.name not in OF_NODES or not there:
        who_runs_there = ""
    else:
        who_runs_there = f"; {there} of {counted(len(placed), 'failing pod')} run there"
    sentence = f"{fact_sentence(group)}{who_runs_there}{_since(group, case)}."
    numbers = {}
    for i, digits in enumerate(_NUMBER.findall(sentence), start=1):
        numbers[f"quoted_{i}"] = float(digits)
    # Of a provider that no service is said to need it is only what goes on outside.
    if group.fault.name in OF_PROVIDERS and not group.services:
        kind_of = UPSTREAM_INCIDENT.name
    else:
        kind_of = FAMILY_OF[group.fault.name]
    return Finding(
        id="",
        kind=kind_of,
        subject=group.subject,
        onset=group.since,
        strength=weighed.strength,
        sentence=sentence,
        numbers=numbers,
        evidence=evidence_of(case, group),
        details=StateFactDetails(
            fact=group.fault.name,
            objects=group.objects[:MAX_LISTED],
            services=tuple(sorted(group.services))[:MAX_LISTED],
            places=tuple(sorted(group.places))[:MAX_LISTED],
            value=plain(_fullest(group).value, MAX_QUOTE).rstrip("."),
            expected=plain(_fullest(group).expected, MAX_QUOTE).rstrip("."),
            explained_by=weighed.explained_by,
            called_as=group.called_as[:MAX_LISTED],
            bad=True,
        ),
    )


def fact_sentence(group: FactGroup) -> str:
    """The fact in words, by its earliest object."""
    first, fault = _fullest(group), group.fault
    template = fault.says
    if fault.says_less and _lacks(first, fault.says):
        template = fault.says_less
    text = template.format(
        object=plain(first.object),
        value=plain(first.value, MAX_QUOTE).rstrip("."),
        expected=plain(first.expected, MAX_QUOTE).rstrip("."),
    )
    other_count = len(group.objects) - 1
    return f"{text}; same for {other_count} more" if other_count else text


def _fullest(group: FactGroup) -> StateFact:
    """The earliest fact that says most."""
    # max() takes the first of equals, and the facts are sorted by time.
    return max(group.facts, key=lambda fact: bool(fact.value) + bool(fact.expected))


def _lacks(fact: StateFact, says: str) -> bool:
    wants_value = "{value}" in says and not fact.value
    return wants_value or ("{expected}" in says and not fact.expected)


def _since(group: FactGroup, case: Case) -> str:
    """Said of what is as it is since long before."""
    since = group.since
    if since is None or case.scope.incident.start - since < OLD:
        return ""
    days = (case.scope.incident.start - since).days
    return f", for {counted(days, 'day')}"


def evidence_of(case: Case, group: FactGroup) -> tuple[str, ...]:
    """The items whose query gave these rows, which may be a log, else all about states."""
    queries = {fact.query for fact in group.facts if fact.query}
    ids = [citation.id for citation in case.evidence if citation.query in queries]
    return tuple(ids) or case.evidence_ids("states")
