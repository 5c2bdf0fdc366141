"""report.md: the whole answer as one document, for people and for pull requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.vocabulary import (
    Alert,
    Claim,
    Diagnosis,
    Evidence,
    Finding,
    Gap,
    Guidance,
    Report,
    Verdict,
)
from bot.answer.guidance import said_by
from bot.answer.writer.markdown_text import opened, shown
from bot.answer.writer.model_use import model_use_line

VERDICTS = {
    Verdict.CAUSE_FOUND: "cause found",
    Verdict.RECOVERED: "recovered",
    Verdict.NO_ACTIVE_INCIDENT: "no active incident",
    Verdict.INSUFFICIENT_EVIDENCE: "insufficient evidence",
}


def to_markdown(
    report: Report,
    diagnosis: Diagnosis,
    alert: Alert,
    evidence: Sequence[Evidence],
    gaps: Sequence[Gap],
) -> str:
    """The report with its causes, the findings behind it, their evidence, what is missing and what
    was removed."""
    known, asked = {f.id: f for f in diagnosis.findings}, diagnosis.next_query
    cited = _shown(report, diagnosis, known)
    parts = [
        [f"# {shown(report.headline)}"],
        _facts(report, diagnosis, alert),
        _section("What we know", (f"- {_claim(c, known)}" for c in report.claims)),
        _section(
            "Next steps",
            (f"{n}. {_claim(c, known)}" for n, c in enumerate(report.next_steps, start=1)),
        ),
        _section("What runbooks say", (f"- {_guidance(line)}" for line in report.guidance)),
        _section("To tell the first two causes apart", [f"- {shown(asked.text)}"] if asked else []),
        _section("What is missing", (f"- {shown(m)}" for m in diagnosis.missing)),
        _causes(diagnosis),
        _section("Findings", (_finding(f) for f in cited)),
        _section("Evidence", (_evidence(e) for e in evidence)),
        _section(
            "Gaps", (f"- {shown(g.kind)} from {shown(g.source)}: {shown(g.reason)}" for g in gaps)
        ),
        _section("Removed from the report", (f"- {shown(d)}" for d in report.dropped)),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _facts(report: Report, diagnosis: Diagnosis, alert: Alert) -> list[str]:
    about = f", on {shown(alert.service)}" if alert.service else ""
    took = f" ({shown(model_use_line(report.model_use))})" if report.model_use else ""
    return [
        f"**{VERDICTS[diagnosis.verdict]}**, confidence {diagnosis.confidence:.0%}  ",
        f"Alert: {shown(alert.title)} ({shown(alert.source)}{about}, "
        f"{alert.started_at:%Y-%m-%d %H:%M:%S} UTC)  ",
        f"Written by: {shown(report.written_by)}{took}",
    ]


def _causes(diagnosis: Diagnosis) -> list[str]:
    rows = [
        f"| {c.rank} | {shown(c.subject)} | {_words(c.kind)} | {c.confidence:.0%} | "
        f"{shown(c.summary)} |"
        for c in sorted(diagnosis.causes, key=lambda c: c.rank)
    ]
    head = ["## Causes", "", "| | subject | kind | confidence | why |", "|---|---|---|---|---|"]
    return [*head, *rows] if rows else []


def _words(kind: str) -> str:
    return shown(kind.replace("_", " "))


def _section(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return [f"## {title}", "", *found] if found else []


def _shown(report: Report, diagnosis: Diagnosis, known: dict[str, Finding]) -> list[Finding]:
    """The findings that the report or a cause cites, in the diagnosis's order."""
    cited = {i for c in (*report.claims, *report.next_steps) for i in c.findings} | set(
        diagnosis.impact.findings
    )
    cited |= {i for c in diagnosis.causes for i in (*c.findings, *c.contradicting)}
    return [f for f in known.values() if f.id in cited]


def _claim(claim: Claim, known: dict[str, Finding]) -> str:
    ids = " ".join(
        f"[{shown(i)}](#{i.lower()})" for i in claim.findings if i in known and i.isalnum()
    )
    return f"{shown(claim.text)} {ids}".rstrip()


def _guidance(line: Guidance) -> str:
    return f"{shown(said_by(line))}{opened(line.url)}"


def _finding(finding: Finding) -> str:
    anchor = f'<a id="{finding.id.lower()}"></a>' if finding.id.isalnum() else ""
    since = f" Since {finding.onset:%H:%M:%S} UTC." if finding.onset else ""
    source = f" ({', '.join(shown(e) for e in finding.evidence)})" if finding.evidence else ""
    return f"- {anchor}**{shown(finding.id)}** {shown(finding.sentence)}{since}{source}"


def _evidence(item: Evidence) -> str:
    window = (
        f", {item.window.start:%Y-%m-%d %H:%M:%S} to {item.window.end:%H:%M:%S} UTC"
        if item.window
        else ""
    )
    rows = f", {item.rows} rows" if item.rows is not None else ""
    cut = f", cut: {shown(item.cut)}" if item.cut else ""
    what = f"{shown(item.kind)} from {shown(item.source)}: {shown(item.query)}{window}{rows}{cut}"
    return f"- **{shown(item.id)}** {what}{opened(item.link)}"
