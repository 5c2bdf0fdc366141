"""Leads: services to which the evidence points and about which nobody was asked yet.

The scope is fixed before anything is known. Once metrics and calls are there, the changes, logs and
states of the leading suspects, and of what those call, say more than those of the alerting service.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    causes = sorted(diagnosis.causes, key=lambda cause: cause.rank)[:SUSPECTS]
    reasons: dict[str, str] = {}
    for cause in causes:
        reasons.setdefault(cause.subject, f"cause {cause.rank} by the evidence so far")
    if not any(cause.change and cause.confidence >= SETTLED for cause in causes[:1]):
        callers = [cause.subject for cause in causes[:CALLERS]] + [case.alert.service or ""]
        for caller in callers:
            for call in calls:
                if call.caller == caller:
                    reasons.setdefault(call.callee, f"called by {plain(caller)}")
    asked_about = {case.alert.service, *case.scope.services, *case.rounds.subjects}
    return [
        Lead(subject=subject, because=because)
        for subject, because in reasons.items()
        # Of objects below services ("persistentvolumeclaim/data") the sources know their service.
        if subject not in asked_about and "/" not in subject
    ]
