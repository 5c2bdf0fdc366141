"""Answers and findings from a case folder, as the API gives them.

Blocking: callers on an event loop use `in_thread`.
"""

from __future__ import annotations

from pathlib import Path

from faultline.analysis.case.folder import Case, read_case, read_diagnosis, read_report
from faultline.analysis.errors import EvidenceError
from faultline.analysis.vocabulary import Finding, Report
from faultline.bot.answer.replay import json_of
from faultline.bot.answer.view import answer_view
from faultline.bot.api.models import Answer, Findings, FindingWithEvidence, Values
from faultline.bot.web.investigation_view import read_changes
from faultline.bot.web.series import can_chart, chart_data


def read_answer(investigation_id: str, folder: Path) -> Answer:
    """The stored answer. Raises EvidenceError."""
    case, diagnosis = read_case(folder), read_diagnosis(folder)
    view = answer_view(
        case.alert, diagnosis, _report(folder), gaps=case.gaps, evidence=case.evidence
    )
    return Answer.model_validate({"id": investigation_id, **json_of(view)})


def read_findings(folder: Path) -> Findings:
    """All findings. Raises EvidenceError."""
    return Findings(findings=read_diagnosis(folder).findings)


def read_finding(folder: Path, finding_id: str) -> FindingWithEvidence | None:
    """One finding with what it rests on; None where there is none of this id. Raises
    EvidenceError."""
    case, diagnosis = read_case(folder), read_diagnosis(folder)
    finding = next((finding for finding in diagnosis.findings if finding.id == finding_id), None)
    if finding is None:
        return None
    items = {evidence.id: evidence for evidence in case.evidence}
    return FindingWithEvidence(
        finding=finding,
        evidence=tuple(items[name] for name in finding.evidence if name in items),
        unknown_evidence=tuple(name for name in finding.evidence if name not in items),
        values=_values(case, finding),
    )


def _values(case: Case, finding: Finding) -> Values | None:
    if not can_chart(finding):
        return None
    try:
        return Values.model_validate(chart_data(case, finding, read_changes(case)))
    except EvidenceError:
        return None


def _report(folder: Path) -> Report | None:
    try:
        return read_report(folder)
    except EvidenceError:
        # A case may have lost its report: then the diagnosis speaks for itself.
        return None
