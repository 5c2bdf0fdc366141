"""Which other services of the incident may be what the alerting one calls, where no call is known.

Failures travel up: a failed call fails at most one request of its caller, and a caller that fails
by itself takes nobody below it along. So of two services that fail in one incident, the callee is
the one that fails more requests, if either calls the other.
"""

from __future__ import annotations

from faultline.analysis.case.folder import Case
from faultline.analysis.metrics.failing_requests import failing_requests
from faultline.analysis.ranking.leads import SUSPECTS
from faultline.analysis.vocabulary import Diagnosis


def failing_peers(case: Case, diagnosis: Diagnosis) -> tuple[str, ...]:
    """The leading causes beside the alerting service that fail at least as many requests; none
    where the requests of either are not counted."""
    alerting = case.alert.service
    since = diagnosis.impact.since or case.alert.started_at
    failing = failing_requests(case, alerting, since) if alerting else None
    if failing is None or failing.failed is None:
        return ()
    causes = sorted(diagnosis.causes, key=lambda cause: cause.rank)
    subjects = dict.fromkeys(cause.subject for cause in causes if cause.subject != alerting)
    peers = []
    for subject in list(subjects)[:SUSPECTS]:
        peer = failing_requests(case, subject, since)
        if peer is not None and peer.failed is not None and peer.failed >= failing.failed:
            peers.append(subject)
    return tuple(peers)
