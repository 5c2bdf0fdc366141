"""The service that a known failure in a caller's log is about: "certificate has expired" is said of
the service that was called, where its lines name one."""

from __future__ import annotations

import re

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.fault_kinds import CALLERS_FAIL
from faultline.analysis.kinds.finding_details import CallsIntoDetails, SignatureDetails
from faultline.analysis.phrasing.log_forms import OF_CALLED
from faultline.analysis.vocabulary import Diagnosis, Finding


def with_called_names(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with the called service beside each known failure whose line names it."""
    calls = _failing_calls(diagnosis)
    if not calls:
        return diagnosis
    findings = []
    for finding in diagnosis.findings:
        findings.append(_with_name(finding, calls))
    return diagnosis.model_copy(update={"findings": tuple(findings)})


def _failing_calls(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Caller and callee of the calls that are found to fail."""
    calls = []
    for finding in diagnosis.findings:
        fault, details = fault_of(finding), CallsIntoDetails.of(finding)
        if fault is not None and fault.name == CALLERS_FAIL.name and details is not None:
            calls += [(caller, finding.subject) for caller in details.callers]
    return calls


def _with_name(finding: Finding, calls: list[tuple[str, str]]) -> Finding:
    details = SignatureDetails.of(finding)
    if details is None or details.names or details.signature not in OF_CALLED:
        return finding
    named = [callee for caller, callee in calls if caller == finding.subject]
    named = [callee for callee in named if _is_in(callee, details.example)]
    if len(named) != 1:
        return finding
    signature_details = details.model_copy(update={"names": named[0]})
    return finding.model_copy(update={"details": signature_details})


def _is_in(service: str, line: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(service)}(?![\w-])", line) is not None
