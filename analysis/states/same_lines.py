"""Log lines that say what an object's state says: they are the same evidence, reported twice.

Connectors make log lines of a cluster's events and conditions. As lines they speak for the service
that the pod or the node's pods are of; the state says whose fault it is and since when.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from faultline.analysis.kinds.finding_details import SignatureDetails, StateFactDetails
from faultline.analysis.kinds.state_faults import STATE_FAULTS
from faultline.analysis.vocabulary import Finding


def without_what_states_tell(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without known failures in lines that only repeat a state."""
    state_failures = set(_state_failures(findings))
    remaining_findings = []
    for finding in findings:
        details = SignatureDetails.of(finding)
        if details is None or (finding.subject, details.signature) not in state_failures:
            remaining_findings.append(finding)
    return remaining_findings


def _state_failures(findings: Iterable[Finding]) -> Iterable[tuple[str, str]]:
    """(service, known failure) of every fact."""
    for finding in findings:
        details = StateFactDetails.of(finding)
        fault = STATE_FAULTS.get(details.fact) if details else None
        if details is None or fault is None:
            continue
        for service in (finding.subject, *details.services):
            for signature in fault.signatures:
                yield service, signature
