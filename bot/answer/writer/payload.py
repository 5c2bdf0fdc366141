"""What a model gets: the diagnosis in short lines of data, each beginning with its id.

Texts are redacted first, then stripped of mark-up; angle brackets are escaped so that no text can
close the element that holds the document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from faultline.analysis.case.runbooks import AppliedRunbook
from faultline.analysis.vocabulary import Alert, Cause, Diagnosis, Finding, Gap
from faultline.bot.answer.asserted.steps import offered_steps
from faultline.bot.answer.writer.earlier import is_memory
from faultline.bot.answer.writer.plain_text import neutral
from faultline.bot.answer.writer.redaction import Redactor

MAX_FINDINGS = 40
FEW_FINDINGS = 10
"""For a model whose context holds no more."""
MAX_CAUSES = 5
MAX_GAPS = 20
MAX_RUNBOOKS = 3
MAX_RUNBOOK_LINES = 60
TEXT_LIMIT = 500
NAMED = 20
"""Services and labels of a list."""
FOREIGN_DETAILS = ("title", "reason")
"""Details of a finding that help to understand it, that somebody else wrote, and that its sentence
may lack."""
WORTH_TELLING_S = 5.0
"""A smaller uncertainty of an onset is left out."""
TIME = "%H:%M:%S"


def payload(
    diagnosis: Diagnosis,
    alert: Alert,
    gaps: Sequence[Gap],
    redactor: Redactor,
    runbooks: Sequence[AppliedRunbook] = (),
    most: int = MAX_FINDINGS,
) -> str:
    """The user message, with at most `most` findings. What it replaced by placeholders, `redactor`
    remembers."""
    lines = [
        *_alert(alert),
        f"verdict: {diagnosis.verdict.value}, confidence {diagnosis.confidence:.2f}",
        *_impact(diagnosis),
        *_causes(diagnosis),
        *_findings(diagnosis, most),
        *_missing(diagnosis, gaps),
        *_steps(diagnosis, alert),
        *_runbooks(runbooks[:MAX_RUNBOOKS]),
    ]
    return as_data(neutral(redactor.redact(line), TEXT_LIMIT) for line in lines)


def as_data(lines: Iterable[str]) -> str:
    """Lines as the one element of data, which nothing in them can close."""
    return (
        "<data>\n" + "\n".join(lines).replace("<", "\\u003c").replace(">", "\\u003e") + "\n</data>"
    )


def chosen_findings(diagnosis: Diagnosis) -> list[Finding]:
    """The findings behind the impact and the first causes, then the strongest others, up to the
    limit.

    What memory knows is not among them: code words it, and no model can take it
    for evidence.
    """
    first = [*diagnosis.impact.findings[:8]]
    for cause in sorted(diagnosis.causes, key=lambda c: c.rank)[:MAX_CAUSES]:
        first += [*cause.findings, *cause.contradicting]
    # Reversed, so that the first place of a finding that is cited twice counts.
    order = {finding_id: n for n, finding_id in reversed(list(enumerate(first)))}
    findings = [f for f in diagnosis.findings if not is_memory(f)]
    ranked = sorted(findings, key=lambda f: (order.get(f.id, len(order)), -f.strength, f.id))
    return ranked[:MAX_FINDINGS]


def _alert(alert: Alert) -> Iterator[str]:
    about = " ".join(
        f"{name}={value}"
        for name, value in (
            ("service", alert.service),
            ("signal", alert.signal),
            ("severity", alert.severity),
        )
        if value
    )
    yield (
        f'alert from {alert.source}, {alert.started_at:%Y-%m-%d %H:%M:%S} UTC: "{alert.title}" '
        f"{about}"
    )
    if alert.summary and alert.summary != alert.title:
        yield f'alert says: "{alert.summary}"'
    labels = ", ".join(f"{k}={str(v)[:60]}" for k, v in list(alert.labels.items())[:NAMED])
    if labels:
        yield f"alert labels: {labels}"


def _impact(diagnosis: Diagnosis) -> Iterator[str]:
    impact = diagnosis.impact
    if impact.sentence:
        ids = " ".join(impact.findings[:8])
        yield f"impact{_since(impact.since)}: {impact.sentence} [{ids}]"
    if impact.services:
        yield f"affected: {', '.join(impact.services[:NAMED])}"


def _causes(diagnosis: Diagnosis) -> Iterator[str]:
    ranked = sorted(diagnosis.causes, key=lambda cause: cause.rank)[:MAX_CAUSES]
    if ranked:
        yield "causes, ranked by code: rank, subject, onset, confidence, findings, findings against"
    for cause in ranked:
        yield _cause(cause)


def _cause(cause: Cause) -> str:
    change = f" change {cause.change}" if cause.change else ""
    against = f" against {' '.join(cause.contradicting[:8])}" if cause.contradicting else ""
    return (
        f"{cause.rank} {cause.subject}{change}{_since(cause.onset)} {cause.confidence:.2f} "
        f"{' '.join(cause.findings[:10])}{against}"
    )


def _findings(diagnosis: Diagnosis, most: int) -> Iterator[str]:
    chosen = chosen_findings(diagnosis)
    yield "findings, computed by code: id, onset, what it says, (subject, signal) where not named"
    for finding in chosen[:most]:
        yield _finding(finding)
    left = len(diagnosis.findings) - min(most, len(chosen))
    if left > 0:
        yield f"{left} more findings are left out"


def _finding(finding: Finding) -> str:
    onset = f" {finding.onset.strftime(TIME)}" if finding.onset else ""
    uncertain = finding.onset_uncertainty_s or 0.0
    if onset and uncertain >= WORTH_TELLING_S:
        onset += f"±{uncertain:.0f}s"
    sentence = finding.sentence
    about = [] if finding.subject in sentence else [finding.subject]
    # "p99 latency" says what "latency_p99" is called.
    if finding.signal and not all(part in sentence for part in finding.signal.split("_")):
        about.append(finding.signal)
    named = f" ({', '.join(about)})" if about else ""
    written = finding.details.written()
    foreign = [
        f'{key} "{text}"'
        for key in FOREIGN_DETAILS
        if isinstance(text := written.get(key), str) and text and text not in sentence
    ]
    return " ".join([f"{finding.id}{onset} {sentence}{named}", *foreign])


def _missing(diagnosis: Diagnosis, gaps: Sequence[Gap]) -> Iterator[str]:
    # The relation `missing` counts them in the same order.
    for number, sentence in enumerate(diagnosis.missing, start=1):
        yield f"M{number} missing: {sentence}"
    for gap in gaps[:MAX_GAPS]:
        yield f"{gap.id} {gap.source} gave no {gap.kind}: {gap.reason}"


def _steps(diagnosis: Diagnosis, alert: Alert) -> Iterator[str]:
    for step in offered_steps(diagnosis, alert):
        yield f"{step.id} step: {step.text}"


def _runbooks(runbooks: Sequence[AppliedRunbook]) -> Iterator[str]:
    for runbook in runbooks:
        yield (
            f"runbook {runbook.name} ({runbook.why}), written by the operator; advice, no evidence:"
        )
        yield from (f"- {step}" for step in runbook.next_steps)
        yield from (line for line in runbook.text.splitlines()[:MAX_RUNBOOK_LINES] if line.strip())


def _since(time: datetime | None) -> str:
    return f" since {time.strftime(TIME)}" if time else ""


def clean(value: Any, redactor: Redactor) -> Any:
    """A JSON value with redacted and harmless texts, everywhere; empty parts are left out."""
    if isinstance(value, str):
        return neutral(redactor.redact(value), TEXT_LIMIT)
    if isinstance(value, Mapping):
        pairs = ((k, v) for k, v in value.items() if v not in (None, "", [], {}))
        return {clean(str(k), redactor): clean(v, redactor) for k, v in pairs}
    return [clean(v, redactor) for v in value] if isinstance(value, Iterable) else value
