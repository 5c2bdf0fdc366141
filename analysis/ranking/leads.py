"""Leads: services to which the evidence points and about which nobody was asked yet.

The scope is fixed before anything is known. Once metrics and calls are there, the changes, logs and
states of the leading suspects, and of what those call, say more than those of the alerting service.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.case.folder import Case
from faultline.analysis.case.rounds import Lead
from faultline.analysis.vocabulary import Diagnosis, Verdict
from faultline.analysis.wording.phrases import plain

SUSPECTS = 3
"""Causes about which the sources are asked themselves."""
CALLERS = 2
"""Causes whose callees are asked about: what they call may explain them."""
SETTLED = 0.9
"""A change that explains the first cause so surely needs no callee."""


def leads_of(case: Case, diagnosis: Diagnosis, calls: Sequence[ServiceCall]) -> list[Lead]:
    """The leads, those that matter most first; none of a training job, and none where nothing is
    wrong."""
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT or case.scope.job:
        return []
    asked_about = {case.alert.service, *case.scope.services, *case.rounds.subjects}
    leads: dict[str, Lead] = {}
    for lead in _pointed_to(case, diagnosis, calls):
        # Of objects below services ("persistentvolumeclaim/data") the sources know their service.
        if lead.subject not in asked_about and "/" not in lead.subject:
            leads.setdefault(lead.subject, lead)
    return list(leads.values())


def _pointed_to(case: Case, diagnosis: Diagnosis, calls: Sequence[ServiceCall]) -> Iterator[Lead]:
    causes = sorted(diagnosis.causes, key=lambda cause: cause.rank)[:SUSPECTS]
    for cause in causes:
        yield Lead(subject=cause.subject, because=f"cause {cause.rank} by the evidence so far")
    first = next(iter(causes), None)
    if first is not None and first.change is not None and first.confidence >= SETTLED:
        return
    callers = [cause.subject for cause in causes[:CALLERS]]
    if case.alert.service:
        callers.append(case.alert.service)
    yield from _callees(callers, calls)


def _callees(callers: Iterable[str], calls: Sequence[ServiceCall]) -> Iterator[Lead]:
    for caller in dict.fromkeys(callers):
        for call in calls:
            if call.caller == caller:
                yield Lead(subject=call.callee, because=f"called by {plain(caller)}")
