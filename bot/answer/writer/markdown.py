"""report.md: the whole answer as one document, for people and for pull requests."""

from __future__ import annotations

from collections.abc import Iterable

from faultline.analysis.vocabulary import Claim, Evidence, Finding, Section
from faultline.bot.answer.guidance import guidance_text
from faultline.bot.answer.lines import INFERRED, SECOND_OPINION
from faultline.bot.answer.view import AnswerView
from faultline.bot.answer.writer.model_use import model_use_line
from faultline.bot.answer.writer.plain_text import opened, shown


def to_markdown(view: AnswerView) -> str:
    """The report with its causes, the findings behind it, their evidence, what is missing and what
    was removed."""
    lines = [f"- {shown(view.to_tell_apart)}"] if view.to_tell_apart else []
    steps = enumerate((*view.next_steps, *view.routing), start=1)
    parts = [
        [f"# {shown(view.headline)}"],
        _facts(view),
        _section("What's happening", _claims(view.section(Section.HAPPENING), view)),
        _section("Why", _claims(view.section(Section.WHY), view)),
        _section("Do next", (f"{n}. {_claim(c, view)}" for n, c in steps)),
        _section("Not sure about", _claims(view.section(Section.UNSURE), view)),
        _section(SECOND_OPINION, _claims(view.section(Section.SECOND_OPINION), view)),
        _section(INFERRED, _claims(view.section(Section.INFERRED), view)),
        _section("Ruled out", _claims(view.section(Section.CHECKED), view)),
        _section("Earlier", _claims(view.remembered, view)),
        _section(
            "What runbooks say",
            (f"- {shown(guidance_text(line))}{opened(line.url)}" for line in view.guidance),
        ),
        _section("To tell the first two causes apart", lines),
        _section("What is missing", (f"- {shown(m)}" for m in view.missing)),
        _causes(view),
        _section("Findings", (_finding(f) for f in view.named)),
        _section("Evidence", (_evidence(e) for e in view.evidence.values())),
        _section(
            "Evidence we could not collect",
            (
                f"- {shown(gap.kind).replace('_', ' ')} from {shown(gap.source)}: "
                f"{shown(gap.reason)}"
                for gap in view.gaps
            ),
        ),
        _section("Removed from the report", (f"- {shown(d)}" for d in view.removed)),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _facts(view: AnswerView) -> list[str]:
    alert = view.alert
    about = f", on {shown(alert.service)}" if alert.service else ""
    took = f" ({shown(model_use_line(view.model_use))})" if view.model_use else ""
    # Two spaces at the end of a line break it in Markdown.
    return [
        f"**{view.state_label}**{f': {shown(view.how_sure)}' if view.how_sure else ''}  ",
        *([f"{shown(view.decision_line)}  "] if view.decision_line else []),
        f"Alert: {shown(alert.title)} ({shown(alert.source)}{about}, "
        f"{alert.started_at:%Y-%m-%d %H:%M:%S} UTC)  ",
        f"Written by: {shown(view.written_by)}{took}",
    ]


def _claims(claims: Iterable[Claim], view: AnswerView) -> Iterable[str]:
    return (f"- {_claim(claim, view)}" for claim in claims)


def _causes(view: AnswerView) -> list[str]:
    rows = [
        f"| {c.rank} | {shown(c.subject)} | {shown(c.kind.replace('_', ' '))} | "
        f"{c.confidence:.0%} | {shown(c.summary)} |"
        for c in view.causes
    ]
    head = ["## Causes", "", "| | subject | kind | confidence | why |", "|---|---|---|---|---|"]
    return [*head, *rows] if rows else []


def _section(title: str, lines: Iterable[str]) -> list[str]:
    section_lines = list(lines)
    return [f"## {title}", "", *section_lines] if section_lines else []


def _claim(claim: Claim, view: AnswerView) -> str:
    cited = [
        # An id with other characters could break the link or its anchor.
        finding
        for finding in claim.findings
        if finding in view.findings and finding.isalnum()
    ]
    ids = " ".join(f"[{shown(finding_id)}](#{finding_id.lower()})" for finding_id in cited)
    return f"{shown(claim.text)} {ids}".rstrip()


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
