"""A postmortem draft in Markdown: what the investigation can say, each sentence with its findings
and links, and clearly marked blanks for what only people can know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from analysis.vocabulary import Evidence, Finding
from bot.answer.exports.answered import ExportedAnswer, timeline_of
from bot.answer.guidance import said_by
from bot.answer.lines import percent, span_of
from bot.answer.writer.markdown_text import opened, shown

BLANK = "**To fill in:**"
MOST_FINDINGS = 8
"""For a cause and against it, each."""
MOST_OTHERS = 3
MOST_LINKS = 2


def postmortem(answered: ExportedAnswer) -> str:
    """The draft. The same case gives the same text."""
    draft = _Draft(answered)
    parts = [
        draft.head(),
        _section("Summary", draft.summary()),
        _section("Impact", draft.impact()),
        _section("Timeline", draft.timeline()),
        _section("Root cause", draft.root_cause()),
        _section("Other explanations that were weighed", draft.others()),
        _section(
            "What went well", [f"- {BLANK} what helped: an alert, a person, a safeguard, luck."]
        ),
        _section("What was missing", draft.missing()),
        _section("Action items", draft.actions()),
        _section("What runbooks say", draft.runbooks()),
        _section("Findings", draft.findings()),
        _section("Evidence", draft.evidence()),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _section(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return [f"## {title}", "", *found] if found else []


class _Draft:
    """The sections, each a list of lines."""

    def __init__(self, answered: ExportedAnswer) -> None:
        self.answered = answered
        self.view = answered.view
        self.known = self.view.findings
        self.items = self.view.evidence
        self.cited: dict[str, None] = {}

    def head(self) -> list[str]:
        alert, times = self.answered.case.alert, self.answered.times
        page = f"  \nInvestigation: {shown(times.id)}{opened(times.page)}" if times else ""
        links = "".join(opened(link.url, link.title) for link in alert.links[:MOST_LINKS])
        about = f", on {shown(alert.service)}" if alert.service else ""
        severity = f", severity {shown(alert.severity)}" if alert.severity else ""
        return [
            f"# Postmortem draft: {shown(alert.title)}",
            "",
            f"Alert: {shown(alert.source)}{about}{severity}, {alert.started_at:%Y-%m-%d %H:%M:%S} "
            f"UTC{links}{page}",
            "",
            "> A draft of what the investigation found. Sentences name the findings they rest on, "
            "which are listed",
            f"> below. What only people can know is marked {BLANK}",
        ]

    def summary(self) -> list[str]:
        said = f"{self.view.verdict_label}, confidence {percent(self.view.confidence)}."
        claims = [f"- {shown(c.text)}{self.cite(c.findings)}" for c in self.view.said]
        return [f"{shown(self.view.headline)} {said}", "", *claims]

    def impact(self) -> list[str]:
        impact = self.view.impact
        said = shown(impact.sentence) or "Not measured."
        lines = [f"- {said}{self.cite(impact.findings)}"]
        if impact.since:
            lines.append(f"- Since {impact.since:%Y-%m-%d %H:%M:%S} UTC.")
        if impact.services:
            lines.append(f"- Services: {', '.join(shown(s) for s in impact.services[:20])}.")
        return [
            *lines,
            f"- {BLANK} who was affected, how many, and what it cost them.",
            f"- {BLANK} when it was over.",
        ]

    def timeline(self) -> list[str]:
        at = self.answered.case.alert.started_at
        rows = [
            f"| {m.time:%Y-%m-%d %H:%M:%S} | {_from(m.time - at)} | {m.what} | "
            f"{shown(m.text)}{self.cite(m.findings)}{opened(m.link)} |"
            for m in timeline_of(self.answered)
        ]
        blank = f"| | | people | {BLANK} who noticed, who decided what, when it was mitigated |"
        return ["| time (UTC) | from the alert | | |", "|---|---|---|---|", *rows, blank]

    def root_cause(self) -> list[str]:
        cause = self.view.cause
        if cause is None or not self.view.established:
            suspect = (
                f" First suspect: {shown(cause.summary)}{self.cite(cause.findings)}"
                if cause
                else ""
            )
            return [
                f"Not established ({self.view.verdict_label.lower()}).{suspect}",
                "",
                f"{BLANK} the root cause.",
            ]
        since = f" Since {cause.onset:%H:%M:%S} UTC." if cause.onset else ""
        change = f" Change: {shown(cause.change)}." if cause.change else ""
        lines = [f"{shown(cause.summary)}{self.cite(cause.findings)}", ""]
        lines.append(f"Confidence {percent(cause.confidence)}, decided by code.{since}{change}")
        lines += self._listed("For it", cause.findings)
        lines += self._listed("Against it", cause.contradicting)
        return [*lines, "", f"{BLANK} whether this is right, and why it could happen."]

    def _listed(self, title: str, ids: Sequence[str]) -> list[str]:
        found = self.view.known(ids)
        rest = [f"- and {len(found) - MOST_FINDINGS} more"] if len(found) > MOST_FINDINGS else []
        lines = [f"- {shown(f.sentence)}{self.cite((f.id,))}" for f in found[:MOST_FINDINGS]]
        return ["", f"### {title}", "", *(lines or ["- nothing that was found"]), *rest]

    def others(self) -> list[str]:
        causes = self.view.other_causes[:MOST_OTHERS]
        return [
            f"- {shown(c.summary)} ({percent(c.confidence)}){self.cite(c.findings)}" for c in causes
        ]

    def missing(self) -> list[str]:
        lines = [f"- {shown(m)}" for m in self.view.missing]
        lines += [
            f"- {shown(g.kind)} from {shown(g.source)}: {shown(g.reason)}"
            for g in self.view.gaps[:20]
        ]
        return [*lines, f"- {BLANK} what went badly: detection, response, safeguards."]

    def actions(self) -> list[str]:
        who = "owner: ____, due: ____"
        steps = [
            f"- [ ] {shown(s.text)}{self.cite(s.findings)} ({who})" for s in self.view.next_steps
        ]
        asked = self.view.to_tell_apart
        steps += [f"- [ ] {shown(asked)} ({who})"] if asked else []
        return [*steps, f"- [ ] {BLANK} what keeps it from happening again ({who})"]

    def runbooks(self) -> list[str]:
        return [f"- {shown(said_by(line))}{opened(line.url)}" for line in self.view.guidance]

    def findings(self) -> list[str]:
        """Those that the sections above cite; after all of them."""
        return [self._finding(f) for f in self.known.values() if f.id in self.cited]

    def _finding(self, finding: Finding) -> str:
        anchor = f'<a id="{finding.id.lower()}"></a>' if finding.id.isalnum() else ""
        items = ", ".join(shown(e) for e in finding.evidence)
        return (
            f"- {anchor}**{shown(finding.id)}** "
            f"{shown(finding.sentence)}{f' ({items})' if items else ''}"
        )

    def evidence(self) -> list[str]:
        ids = {e for i in self.cited for e in self.known[i].evidence}
        return [
            f"- **{shown(e.id)}** {shown(e.kind)} from {shown(e.source)}: "
            f"{shown(e.query)}{opened(e.link)}"
            for e in self.items.values()
            if e.id in ids
        ]

    def cite(self, ids: Sequence[str]) -> str:
        """Links to the findings below, and to the page of their evidence at its vendor."""
        known = [i for i in dict.fromkeys(ids) if i in self.known and i.isalnum()]
        self.cited.update(dict.fromkeys(known))
        links = {e.link: e for i in known for e in self._items(i) if e.link}
        pages = "".join(opened(e.link, e.source) for e in list(links.values())[:MOST_LINKS])
        return "".join(f" [{i}](#{i.lower()})" for i in known) + pages

    def _items(self, finding: str) -> list[Evidence]:
        return [self.items[e] for e in self.known[finding].evidence if e in self.items]


def _from(distance: timedelta) -> str:
    """`+4 min`, `-38 s`, `0 s`."""
    seconds = distance.total_seconds()
    return "0 s" if abs(seconds) < 1 else f"{'+' if seconds > 0 else '-'}{span_of(distance)}"
