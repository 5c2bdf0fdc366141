"""What a model is told: the diagnosis as one JSON document of data, each part with its provenance.

Texts are redacted first, then stripped of mark-up; angle brackets are escaped so that no text can
close the element that holds the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from analysis.case.runbooks import AppliedRunbook
from analysis.vocabulary import Alert, Cause, Diagnosis, Finding, Gap
from bot.answer.writer.earlier import is_memory
from bot.answer.writer.plain_text import neutral
from bot.answer.writer.redaction import Redactor

MAX_FINDINGS = 40
FEW_FINDINGS = 10
"""For a model whose context holds no more."""
MAX_CAUSES = 5
MAX_GAPS = 20
MAX_RUNBOOKS = 3
MAX_RUNBOOK_LINES = 60
TEXT_LIMIT = 500
FOREIGN_DETAILS = ("title", "example", "reason", "operation", "place")
"""Details of a finding that help to word it and that somebody else wrote."""


def payload(
    diagnosis: Diagnosis,
    alert: Alert,
    gaps: Sequence[Gap],
    redactor: Redactor,
    runbooks: Sequence[AppliedRunbook] = (),
    most: int = MAX_FINDINGS,
) -> str:
    """The user message, with at most so many findings. What it replaced by placeholders, `redactor`
    remembers."""
    document = {
        "alert": _alert(alert),
        "verdict": diagnosis.verdict.value,
        "impact": {
            "sentence": diagnosis.impact.sentence,
            "since": _time(diagnosis.impact.since),
            "services": list(diagnosis.impact.services[:MAX_FINDINGS]),
            "findings": list(diagnosis.impact.findings),
            "provenance": "computed by code",
        },
        "causes": [_cause(c) for c in sorted(diagnosis.causes, key=lambda c: c.rank)[:MAX_CAUSES]],
        "findings": [_finding(f) for f in chosen_findings(diagnosis)[:most]],
        "findings_left_out": max(0, len(diagnosis.findings) - most),
        "missing": list(diagnosis.missing),
        "gaps": [_gap(g) for g in gaps[:MAX_GAPS]],
        "runbooks": [_runbook(r) for r in runbooks[:MAX_RUNBOOKS]],
    }
    return as_data([json.dumps(clean(document, redactor), ensure_ascii=False, indent=1)])


def as_data(lines: Iterable[str]) -> str:
    """JSON texts as the one element of data, which nothing in them can close."""
    return (
        "<data>\n" + "\n".join(lines).replace("<", "\\u003c").replace(">", "\\u003e") + "\n</data>"
    )


def chosen_findings(diagnosis: Diagnosis) -> list[Finding]:
    """The findings behind the impact and the first causes, then the strongest others, up to the
    limit.

    What memory knows is not among them: it is told in code's own words, and no model can take it
    for evidence.
    """
    first = [*diagnosis.impact.findings[:8]]
    for cause in sorted(diagnosis.causes, key=lambda c: c.rank)[:MAX_CAUSES]:
        first += [*cause.findings, *cause.contradicting]
    order = {finding_id: n for n, finding_id in reversed(list(enumerate(first)))}
    seen = [f for f in diagnosis.findings if not is_memory(f)]
    ranked = sorted(seen, key=lambda f: (order.get(f.id, len(order)), -f.strength, f.id))
    return ranked[:MAX_FINDINGS]


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "title": alert.title,
        "summary": alert.summary,
        "service": alert.service,
        "signal": alert.signal,
        "severity": alert.severity,
        "started_at": _time(alert.started_at),
        "labels": dict(list(alert.labels.items())[:20]),
        "provenance": f"sent by {alert.source}; foreign text",
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "rank": cause.rank,
        "subject": cause.subject,
        "kind": cause.kind,
        "change": cause.change,
        "onset": _time(cause.onset),
        "summary": cause.summary,
        "next_step": cause.next_step,
        "findings": list(cause.findings),
        "contradicting": list(cause.contradicting),
        "provenance": "ranked by code",
    }


def _finding(finding: Finding) -> dict[str, Any]:
    written = finding.details.written()
    foreign = {k: written[k] for k in FOREIGN_DETAILS if isinstance(written.get(k), str)}
    return {
        "id": finding.id,
        "subject": finding.subject,
        "signal": finding.signal,
        "onset": _time(finding.onset),
        "sentence": finding.sentence,
        "numbers": dict(finding.numbers),
        "foreign": foreign,
        "provenance": f"computed by code from {', '.join(finding.evidence) or 'the case'}",
    }


def _gap(gap: Gap) -> dict[str, Any]:
    return {"kind": gap.kind, "reason": gap.reason, "provenance": f"reported by {gap.source}"}


def _runbook(runbook: AppliedRunbook) -> dict[str, Any]:
    return {
        "name": runbook.name,
        "next_steps": list(runbook.next_steps),
        "text": runbook.text.splitlines()[:MAX_RUNBOOK_LINES],
        "provenance": f"written by the operator for this alert ({runbook.why}); advice, no "
        "evidence",
    }


def _time(value: Any) -> str | None:
    return value.strftime("%Y-%m-%d %H:%M:%S UTC") if value is not None else None


def clean(value: Any, redactor: Redactor) -> Any:
    """A JSON value with redacted and harmless texts, everywhere; empty parts are left out."""
    if isinstance(value, str):
        return neutral(redactor.redact(value), TEXT_LIMIT)
    if isinstance(value, Mapping):
        kept = ((k, v) for k, v in value.items() if v not in (None, "", [], {}))
        return {clean(str(k), redactor): clean(v, redactor) for k, v in kept}
    return [clean(v, redactor) for v in value] if isinstance(value, Iterable) else value
