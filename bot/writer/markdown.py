"""report.md: the whole answer as one document, for people and for pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from analysis.vocabulary import Alert, Claim, Diagnosis, Evidence, Finding, Gap, Guidance, Report, Verdict
from bot.runbooks.guidance import said_by
from bot.writer.model_use import model_use_line
from bot.writer.support import quotable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
VERDICTS = {
    Verdict.CAUSE_FOUND: "cause found",
    Verdict.RECOVERED: "recovered",
    Verdict.NO_ACTIVE_INCIDENT: "no active incident",
    Verdict.INSUFFICIENT_EVIDENCE: "insufficient evidence",
}


def to_markdown(
    report: Report, diagnosis: Diagnosis, alert: Alert, evidence: Sequence[Evidence], gaps: Sequence[Gap]
) -> str:
    """The report with its causes, the findings behind it, their evidence, what is missing and what was removed."""
    known, asked = {f.id: f for f in diagnosis.findings}, diagnosis.next_query
    shown = _shown(report, diagnosis, known)
    parts = [
        [f"# {_text(report.headline)}"],
        _facts(report, diagnosis, alert),
        _section("What we know", (f"- {_claim(c, known)}" for c in report.claims)),
        _section("Next steps", (f"{n}. {_claim(c, known)}" for n, c in enumerate(report.next_steps, start=1))),
        _section("What runbooks say", (f"- {_guidance(line)}" for line in report.guidance)),
        _section("To tell the first two causes apart", [f"- {_text(asked.text)}"] if asked else []),
        _section("What is missing", (f"- {_text(m)}" for m in diagnosis.missing)),
        _causes(diagnosis),
        _section("Findings", (_finding(f) for f in shown)),
        _section("Evidence", (_evidence(e) for e in evidence)),
        _section("Gaps", (f"- {_text(g.kind)} from {_text(g.source)}: {_text(g.reason)}" for g in gaps)),
        _section("Removed from the report", (f"- {_text(d)}" for d in report.dropped)),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _facts(report: Report, diagnosis: Diagnosis, alert: Alert) -> list[str]:
    about = f", on {_text(alert.service)}" if alert.service else ""
    took = f" ({_text(model_use_line(report.model_use))})" if report.model_use else ""
    return [
        f"**{VERDICTS[diagnosis.verdict]}**, confidence {diagnosis.confidence:.0%}  ",
        f"Alert: {_text(alert.title)} ({_text(alert.source)}{about}, {alert.started_at:%Y-%m-%d %H:%M:%S} UTC)  ",
        f"Written by: {_text(report.written_by)}{took}",
    ]


def _causes(diagnosis: Diagnosis) -> list[str]:
    rows = [
        f"| {c.rank} | {_text(c.subject)} | {_words(c.kind)} | {c.confidence:.0%} | {_text(c.summary)} |"
        for c in sorted(diagnosis.causes, key=lambda c: c.rank)
    ]
    head = ["## Causes", "", "| | subject | kind | confidence | why |", "|---|---|---|---|---|"]
    return [*head, *rows] if rows else []


def _words(kind: str) -> str:
    return _text(kind.replace("_", " "))


def _section(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return [f"## {title}", "", *found] if found else []


def _shown(report: Report, diagnosis: Diagnosis, known: dict[str, Finding]) -> list[Finding]:
    """The findings that the report or a cause cites, in the diagnosis's order."""
    cited = {i for c in (*report.claims, *report.next_steps) for i in c.findings} | set(diagnosis.impact.findings)
    cited |= {i for c in diagnosis.causes for i in (*c.findings, *c.contradicting)}
    return [f for f in known.values() if f.id in cited]


def _claim(claim: Claim, known: dict[str, Finding]) -> str:
    ids = " ".join(f"[{_text(i)}](#{i.lower()})" for i in claim.findings if i in known and i.isalnum())
    return f"{_text(claim.text)} {ids}".rstrip()


def _guidance(line: Guidance) -> str:
    return f"{_text(said_by(line))}{_link(line.url)}"


def _finding(finding: Finding) -> str:
    anchor = f'<a id="{finding.id.lower()}"></a>' if finding.id.isalnum() else ""
    since = f" Since {finding.onset:%H:%M:%S} UTC." if finding.onset else ""
    source = f" ({', '.join(_text(e) for e in finding.evidence)})" if finding.evidence else ""
    return f"- {anchor}**{_text(finding.id)}** {_text(finding.sentence)}{since}{source}"


def _evidence(item: Evidence) -> str:
    window = f", {item.window.start:%Y-%m-%d %H:%M:%S} to {item.window.end:%H:%M:%S} UTC" if item.window else ""
    rows = f", {item.rows} rows" if item.rows is not None else ""
    cut = f", cut: {_text(item.cut)}" if item.cut else ""
    what = f"{_text(item.kind)} from {_text(item.source)}: {_text(item.query)}{window}{rows}{cut}"
    return f"- **{_text(item.id)}** {what}{_link(item.link)}"


def _link(url: str | None) -> str:
    if not url or not url.startswith(("https://", "http://")):
        return ""
    return f" ([open]({quote(url, safe=_URL_SAFE)}))"


_URL_SAFE = ":/?#@!$&'*+,;=%-._~"
"""All of a web address but what would end a Markdown link."""


def _text(text: str) -> str:
    """Foreign text that Markdown and HTML show as it is."""
    return _SPECIAL.sub(r"\\\1", quotable(text))
