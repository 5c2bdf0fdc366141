"""A postmortem draft in Markdown that a person edits: what is known is written out, each sentence
with its evidence, and what only people can know is a marked blank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from faultline.analysis.kinds.finding_kinds import SIGNAL_RECOVERED
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.vocabulary import Claim, Evidence, Finding, Link, Section, Verdict
from faultline.analysis.wording.names import subject_name
from faultline.bot.answer.exports.answered import ExportedAnswer, TimelineEntry, timeline_of
from faultline.bot.answer.guidance import guidance_text
from faultline.bot.answer.lines import SHOWN_BY, percent, span_of
from faultline.bot.answer.writer.plain_text import opened, shown

BLANK = "**To fill in:**"
MOST_MOMENTS = 14
MOST_RIVALS = 2
MOST_LINKS = 2
MOST_SERVICES = 12
MOST_GAPS = 10
LATE = timedelta(minutes=10)
"""An alert that comes later than this after the onset is worth an action: half of the thirty
minutes of full outage that a month at 99.9 % allows are gone by the time somebody has read it."""
OWNER = "(owner: ____, due: ____)"


def postmortem(answered: ExportedAnswer) -> str:
    """The draft. The same case gives the same text."""
    draft = _Draft(answered)
    parts = [
        draft.head(),
        _section("Summary", draft.summary()),
        _section("Impact", draft.impact()),
        _section("Timeline (UTC)", draft.timeline()),
        _section("Root cause", draft.root_cause()),
        _section("Contributing factors", draft.contributing()),
        _section("What went well", draft.went_well()),
        _section("What went badly", draft.went_badly()),
        _section("Action items", draft.actions()),
        _section("What runbooks say", draft.runbooks()),
        _section("Evidence", draft.evidence()),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _section(title: str, lines: Iterable[str]) -> list[str]:
    section_lines = list(lines)
    return [f"## {title}", "", *section_lines] if section_lines else []


class _Draft:
    """The sections, each a list of lines. Evidence is numbered as it is first cited, so the last
    section is written last."""

    def __init__(self, answered: ExportedAnswer) -> None:
        self.answered = answered
        self.view = answered.view
        self.cited: dict[str, int] = {}

    def head(self) -> list[str]:
        alert, times = self.answered.case.alert, self.answered.times
        facts = [f"Alert: {shown(alert.title)} ({shown(alert.source)}{self._links(alert.links)})"]
        if alert.severity:
            facts.append(f"Severity: {shown(alert.severity)}")
        facts.append(f"Began: {self._began()}")
        facts.append(f"Over: {self._over()}")
        services = self._services()
        if services:
            facts.append(f"Services: {services}")
        if times is not None:
            facts.append(f"Investigation: {shown(times.id)}{opened(times.page)}")
        return [
            f"# Postmortem draft: {shown(self.view.headline)}",
            "",
            f"> Written from what was measured. What only people know is marked {BLANK}",
            "",
            *(f"- {fact}" for fact in facts),
        ]

    def summary(self) -> list[str]:
        claim_texts = [self._claim_text(claim) for claim in self.view.section(Section.HAPPENING)]
        sure = self.view.how_sure or self.view.verdict_label
        headline = shown(self.view.headline)
        return [" ".join([headline, *claim_texts]), "", f"Confidence: {shown(sure)}."]

    def impact(self) -> list[str]:
        """Of each affected service its symptom, and what only people know."""
        lines = []
        for finding in self.view.findings_of(self.view.impact.findings):
            # `_over` says when a signal came back.
            if finding.kind != SIGNAL_RECOVERED.name:
                lines.append(f"- {self._stated(finding)}")
        return [
            *(lines or ["- No effect on a user-facing signal was measured."]),
            f"- {BLANK} who was affected, how many, and what it cost them.",
        ]

    def timeline(self) -> list[str]:
        rows = [self._row(moment) for moment in self._moments()]
        people = f"| | {BLANK} who noticed, who decided what, when it was mitigated |"
        return ["| time | what happened |", "|---|---|", *rows, people]

    def root_cause(self) -> list[str]:
        lines = [f"- {self._claim_text(claim)}" for claim in self.view.section(Section.WHY)]
        cause = self.view.cause
        if cause is None or not self.view.established:
            lines = [f"Not established ({self.view.verdict_label.lower()}).", "", *lines]
            return [*lines, "", f"{BLANK} the root cause."]
        return [*lines, "", f"{BLANK} whether this is right, and why it could happen."]

    def contributing(self) -> list[str]:
        """Evidence against the cause, and the other explanations that were checked."""
        claims = (*self.view.section(Section.UNSURE), *self.view.section(Section.CHECKED))
        lines = [f"- {self._claim_text(claim)}" for claim in claims]
        for cause in self.view.other_causes[:MOST_RIVALS]:
            phrase = f"Also weighed ({percent(cause.confidence)}): {shown(cause.summary)}"
            lines.append(f"- {phrase}{self.cite(cause.findings[:1])}")
        return [*lines, f"- {BLANK} what else made it possible, or worse."]

    def went_well(self) -> list[str]:
        alert, times = self.answered.case.alert, self.answered.times
        lines = []
        began = self.view.began
        # An alert from before the onset says nothing of how fast this was detected.
        if began is not None and timedelta() <= alert.started_at - began < LATE:
            lines.append(f"- The alert fired {span_of(alert.started_at - began)} after the onset.")
        if times is not None and times.finished_at is not None:
            took = span_of(times.finished_at - times.accepted_at)
            lines.append(f"- The answer stood {took} after the alert was accepted.")
        return [*lines, f"- {BLANK} what helped: a person, a safeguard, luck."]

    def went_badly(self) -> list[str]:
        alert, began = self.answered.case.alert, self.view.began
        lines = []
        if began is not None and alert.started_at - began >= LATE:
            lines.append(f"- The alert fired {span_of(alert.started_at - began)} after the onset.")
        lines += [f"- Unknown: {shown(sentence)}" for sentence in self.view.missing]
        for gap in self.view.gaps[:MOST_GAPS]:
            lines.append(
                f"- Not collected: {shown(gap.kind)} from {shown(gap.source)}: {shown(gap.reason)}"
            )
        return [*lines, f"- {BLANK} what went badly: detection, response, safeguards."]

    def actions(self) -> list[str]:
        steps = []
        for step in (*self.view.next_steps, *self.view.routing):
            steps.append(f"- [ ] {shown(step.text)}{self.cite(step.findings[:1])} {OWNER}")
        if self.view.to_tell_apart:
            steps.append(f"- [ ] {shown(self.view.to_tell_apart)} {OWNER}")
        return [*steps, f"- [ ] {BLANK} what keeps it from happening again {OWNER}"]

    def runbooks(self) -> list[str]:
        return [f"- {shown(guidance_text(line))}{opened(line.url)}" for line in self.view.guidance]

    def evidence(self) -> list[str]:
        """What the sections above cite."""
        lines = []
        for finding_id, number in self.cited.items():
            finding = self.view.findings[finding_id]
            links = self._opened(finding)
            # Markdown gives list items no anchor, so set one for the citations above.
            lines.append(
                f'{number}. <a id="evidence-{number}"></a>{shown(finding.sentence)}{links}'
            )
        return lines

    def cite(self, ids: Sequence[str]) -> str:
        """Links to the evidence below."""
        text = ""
        for finding_id in dict.fromkeys(ids):
            if finding_id in self.view.findings:
                number = self.cited.setdefault(finding_id, len(self.cited) + 1)
                text += f" [[{number}]](#evidence-{number})"
        return text

    def _claim_text(self, claim: Claim) -> str:
        return f"{shown(claim.text)}{self.cite(claim.findings)}"

    def _stated(self, finding: Finding) -> str:
        return f"{shown(statement(finding).clause().sentence)}{self.cite((finding.id,))}"

    def _began(self) -> str:
        began = self.view.began
        return f"{began:%Y-%m-%d %H:%M:%S} UTC" if began else f"{BLANK} when"

    def _over(self) -> str:
        for finding in self.view.findings.values():
            back = finding.kind == SIGNAL_RECOVERED.name
            if back and finding.onset is not None and self.view.verdict is Verdict.RECOVERED:
                return f"{finding.onset:%Y-%m-%d %H:%M:%S} UTC{self._lasted(finding.onset)}"
        return f"{BLANK} when"

    def _lasted(self, end: datetime) -> str:
        began = self.view.began
        return f", after {span_of(end - began)}" if began is not None and end > began else ""

    def _services(self) -> str:
        names = [shown(subject_name(service)) for service in self.view.impact.services]
        more = len(names) - MOST_SERVICES
        return ", ".join(names[:MOST_SERVICES]) + (f" and {more} more" if more > 0 else "")

    def _moments(self) -> list[TimelineEntry]:
        """The alert, the bot's own steps, the blamed change and what the answer speaks of. Changes
        that were ruled out are no part of what happened."""
        findings = set(self.view.impact.findings)
        for claim in (*self.view.section(Section.WHY), *self.view.section(Section.HAPPENING)):
            findings.update(claim.findings)
        findings -= {finding.id for finding in self.view.ruled_out}
        moments = []
        for moment in timeline_of(self.answered):
            always = moment.what in ("alert", "investigation")
            if always or findings.intersection(moment.findings):
                moments.append(moment)
        return moments[-MOST_MOMENTS:]

    def _row(self, moment: TimelineEntry) -> str:
        text = shown(moment.text)
        if moment.what == "alert":
            text = f"Alert: {text}"
        findings = [self.view.findings[finding] for finding in moment.findings]
        if moment.what == "onset" and findings:
            text = shown(statement(findings[0]).clause().sentence)
        cited = self.cite(moment.findings)
        return f"| {moment.time:%Y-%m-%d %H:%M:%S} | {text}{cited}{opened(moment.link)} |"

    def _opened(self, finding: Finding) -> str:
        """Links to the vendor's own page of the evidence."""
        cited_evidence = [
            self.view.evidence[e] for e in finding.evidence if e in self.view.evidence
        ]
        # One link for all evidence that is shown on the same page.
        links: dict[str, Evidence] = {item.link: item for item in cited_evidence if item.link}
        return "".join(
            opened(link, SHOWN_BY.get(item.kind, "evidence"))
            for link, item in list(links.items())[:MOST_LINKS]
        )

    def _links(self, links: Sequence[Link]) -> str:
        return "".join(opened(link.url, link.title) for link in links[:MOST_LINKS])
