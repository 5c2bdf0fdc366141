"""What an answer says, line by line, before any vendor's layout: six lines, then evidence, then
what is missing.

Pure. Every sentence is the report's or the diagnosis's own; only labels and the words around
numbers are added here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from analysis.analyzers import fault_kind
from analysis.case.earlier import KIND as EARLIER
from analysis.case.earlier import RECORD
from analysis.changes.nearby import RULED_OUT
from analysis.kinds.finding_details import ChangeDetails, EarlierDetails, change_finding
from analysis.vocabulary import (
    Alert,
    Cause,
    Diagnosis,
    Evidence,
    Finding,
    Gap,
    Link,
    Report,
    Verdict,
)
from bot.answer.foreign_text import one_line, safe_url, sentence
from bot.answer.guidance import told

LINE = 280
QUERY_LINE = 400
"""A line of more characters is not read in an incident."""
CAUSE_LINE = 340
"""The cause may take more: what is wrong, and the change with its title."""
EVIDENCE_LINES = 6
LINKS_PER_LINE = 3
ALTERNATIVES = 2
MORE_STEPS = 2
GAPS = 5
ENOUGH = 2
"""With so many lines of evidence, a finding that only repeats them is left out: it is in the modal
and on the page."""
REPEATED = 0.6
"""Share of a line's words in an earlier line from which it says nothing new."""
HIGH, MEDIUM = 0.75, 0.5
"""Confidence from which it is called high, and medium."""

LABELS: Mapping[Verdict, str] = {
    Verdict.CAUSE_FOUND: "Cause found",
    Verdict.RECOVERED: "Recovered",
    Verdict.NO_ACTIVE_INCIDENT: "No active incident",
    Verdict.INSUFFICIENT_EVIDENCE: "Not enough evidence",
}
_NO_CAUSE: Mapping[Verdict, str] = {
    Verdict.CAUSE_FOUND: "See the evidence below",
    Verdict.RECOVERED: "Not established before it recovered",
    Verdict.NO_ACTIVE_INCIDENT: "None: nothing that was measured left its baseline in a way that "
    "explains the alert",
    Verdict.INSUFFICIENT_EVIDENCE: "Not established",
}
_CAUSE_PREFIX: Mapping[Verdict, str] = {
    Verdict.CAUSE_FOUND: "",
    Verdict.RECOVERED: "",
    Verdict.NO_ACTIVE_INCIDENT: "",
    Verdict.INSUFFICIENT_EVIDENCE: "Not established; first suspect: ",
}
_NO_STEP: Mapping[Verdict, str] = {
    Verdict.CAUSE_FOUND: "Start from the evidence below; no single step follows from it",
    Verdict.RECOVERED: "Nothing now; watch for a repeat",
    Verdict.NO_ACTIVE_INCIDENT: "Nothing now; check the alert's threshold if it repeats",
    Verdict.INSUFFICIENT_EVIDENCE: "Provide what is missing, listed below, and ask again",
}


@dataclass(frozen=True)
class Line:
    """A label and its sentence."""

    label: str
    text: str


@dataclass(frozen=True)
class CitedLine:
    """A sentence and the links under which a reader can check it."""

    text: str
    links: tuple[Link, ...]


@dataclass(frozen=True)
class AnswerLines:
    """An answer. `six` is verdict, cause, impact, since, what to do, confidence, in this order."""

    six: tuple[Line, ...]
    evidence: tuple[CitedLine, ...]
    against: tuple[CitedLine, ...]
    alternatives: tuple[CitedLine, ...]
    earlier: tuple[CitedLine, ...]
    """What memory knows, tested again; no evidence."""
    runbooks: tuple[CitedLine, ...]
    """What the operator's runbooks say; no evidence either."""
    more_steps: tuple[str, ...]
    missing: tuple[str, ...]
    gaps: tuple[Line, ...]
    gaps_left_out: int


def answer_lines(
    alert: Alert,
    diagnosis: Diagnosis,
    report: Report,
    gaps: Sequence[Gap],
    *,
    page_url: str,
    evidence: Sequence[Evidence] = (),
) -> AnswerLines:
    """The answer in lines. Links go to findings on the page and to the vendor's own page of the
    evidence."""
    cite = _Citations(diagnosis, evidence, page_url)
    six = _six(alert, diagnosis, report)
    steps = [sentence(step.text, LINE) for step in report.next_steps]
    top = _top(diagnosis)
    alternatives = tuple(
        cite.line(f"{cause.summary.rstrip('. ')} ({percent(cause.confidence)})", cause.findings)
        for cause in sorted(diagnosis.causes, key=lambda c: c.rank)[1 : 1 + ALTERNATIVES]
    )
    said = {line.text for line in six} | {line.text for line in alternatives}
    return AnswerLines(
        six=six,
        evidence=_evidence(diagnosis, report, cite, said),
        against=tuple(
            cite.finding(f)
            for f in (top.contradicting if top else ())[:ALTERNATIVES]
            if cite.knows(f)
        ),
        alternatives=alternatives,
        earlier=_earlier(report, cite),
        runbooks=tuple(
            CitedLine(sentence(text, LINE), _safe(links)) for text, links in told(report.guidance)
        ),
        more_steps=(*steps[1 : 1 + MORE_STEPS], *_to_tell_apart(diagnosis)),
        missing=tuple(sentence(m, LINE) for m in diagnosis.missing[:GAPS]),
        gaps=tuple(
            Line(one_line(f"{g.source} {g.kind}", 60), sentence(g.reason, 160)) for g in gaps[:GAPS]
        ),
        gaps_left_out=max(0, len(gaps) - GAPS),
    )


def percent(share: float) -> str:
    """`86 %`; certainty is never claimed."""
    return f"{min(99, max(0, round(100 * share)))} %"


def span_of(length: timedelta) -> str:
    """`40 s`, `7 min`, `3 h 20 min`."""
    seconds = round(abs(length.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def at(time: datetime) -> str:
    """`14:02:10 UTC, 20 Nov 2026`."""
    return f"{time:%H:%M:%S} UTC, {time.day} {time:%b %Y}"


def _six(alert: Alert, diagnosis: Diagnosis, report: Report) -> tuple[Line, ...]:
    headline = sentence(report.headline, LINE)
    return (
        Line(LABELS[diagnosis.verdict], headline),
        Line("Cause", _cause(diagnosis, headline)),
        Line("Impact", sentence(diagnosis.impact.sentence, LINE) or "Not measured"),
        Line("Since", _since(alert, diagnosis)),
        Line("Do", _step(diagnosis, report)),
        Line("Confidence", _confidence(diagnosis)),
    )


def _top(diagnosis: Diagnosis) -> Cause | None:
    return min(diagnosis.causes, key=lambda c: c.rank, default=None)


def _cause(diagnosis: Diagnosis, headline: str) -> str:
    top = _top(diagnosis)
    if top is None:
        return _NO_CAUSE[diagnosis.verdict]
    said = sentence(top.summary, CAUSE_LINE)
    if _says_already(headline, said):
        said = _named(top, diagnosis)
    return _CAUSE_PREFIX[diagnosis.verdict] + said


def _says_already(before: str, text: str) -> bool:
    """Whether an earlier line holds most of the words; nothing is said twice."""
    words = set(text.casefold().split())
    return len(words & set(before.casefold().split())) >= REPEATED * max(1, len(words))


def _named(cause: Cause, diagnosis: Diagnosis) -> str:
    """The cause by name: what was changed where, with the change's own title; or what is wrong
    where."""
    if cause.change is None:
        fault = fault_kind(cause.kind)
        if fault.training and cause.subject.startswith("rank "):
            return f"{cause.subject} {fault.description}"
        if fault.training:
            return sentence(cause.summary, CAUSE_LINE)
        parts = dict.fromkeys((cause.subject, cause.kind.replace("_", " "), cause.signal))
        return " · ".join(one_line(p, 80) for p in parts if p)
    about = change_finding(diagnosis.findings, cause.change)
    details = ChangeDetails.of(about) if about else None
    title = details.title if details else None
    kind = (about.signal if about else None) or "change"
    named = f"{one_line(kind, 20)} {sentence(cause.change, 60)} of {one_line(cause.subject, 80)}"
    return f"{named}: “{one_line(title, 100)}”" if title and title.strip() else named


def _since(alert: Alert, diagnosis: Diagnosis) -> str:
    top = _top(diagnosis)
    onset = diagnosis.impact.since or (top.onset if top else None)
    if onset is None:
        return f"{at(alert.started_at)}, when the alert fired; the onset itself was not found"
    before = alert.started_at - onset
    if abs(before) < timedelta(seconds=1):
        return f"{at(onset)}, when the alert fired"
    return (
        f"{at(onset)}, {span_of(before)} {'before' if before > timedelta(0) else 'after'} the alert"
    )


def _step(diagnosis: Diagnosis, report: Report) -> str:
    top = _top(diagnosis)
    if report.next_steps:
        return sentence(report.next_steps[0].text, LINE)
    if top is not None and top.next_step:
        return sentence(top.next_step, LINE)
    return _NO_STEP[diagnosis.verdict]


def _to_tell_apart(diagnosis: Diagnosis) -> list[str]:
    """The question that would separate the first two causes."""
    return [sentence(diagnosis.next_query.text, QUERY_LINE)] if diagnosis.next_query else []


def _confidence(diagnosis: Diagnosis) -> str:
    share = diagnosis.confidence
    word = "High" if share >= HIGH else "Medium" if share >= MEDIUM else "Low"
    said = f"{word}, {percent(share)}"
    top = _top(diagnosis)
    if top is None:
        return said
    ruled_out = {
        f.id for f in diagnosis.findings if f.kind == RULED_OUT
    }  # of other explanations, not of this one
    pro, contra = len(top.findings), len(set(top.contradicting) - ruled_out)
    said += f" · {pro} finding{'s' if pro != 1 else ''} for it"
    said = f"{said}, {contra} against" if contra else f"{said}, none against"
    record = next((f for f in diagnosis.findings if f.kind == RECORD), None)
    return f"{said} · {sentence(record.sentence, LINE)}" if record else said


def _evidence(
    diagnosis: Diagnosis, report: Report, cite: _Citations, said: set[str]
) -> tuple[CitedLine, ...]:
    """The report's claims that no other line says already; then the first cause's findings not
    cited by them."""
    lines: list[CitedLine] = []
    cited: set[str] = set()
    for claim in report.claims:
        line = cite.line(claim.text, claim.findings)
        if cite.kinds(claim.findings[:1]) & {EARLIER, RECORD}:
            continue
        if line.links and not any(_says_already(before, line.text) for before in said):
            lines.append(line)
            said = said | {line.text}
            cited.update(claim.findings)
    top = _top(diagnosis)
    for finding in top.findings if top else ():
        if finding not in cited and cite.knows(finding):
            line = cite.finding(finding)
            told = any(_says_already(before, line.text) for before in said)
            if not told:
                lines.append(line)
            elif len(lines) < ENOUGH:
                lines.append(cite.named(finding))
    return tuple(lines[:EVIDENCE_LINES])


def _safe(links: Sequence[Link]) -> tuple[Link, ...]:
    shown = [link for link in links if safe_url(link.url)][:LINKS_PER_LINE]
    return tuple(Link(title=one_line(link.title, 60), url=link.url) for link in shown)


def _earlier(report: Report, cite: _Citations) -> tuple[CitedLine, ...]:
    """The claims about earlier investigations, each with a link to the one it speaks of."""
    lines = []
    for claim in report.claims:
        if EARLIER in cite.kinds(claim.findings[:1]):
            line, then = (
                cite.line(claim.text, claim.findings),
                cite.investigation(claim.findings[0]),
            )
            lines.append(CitedLine(line.text, (*line.links, then) if then else line.links))
    return tuple(lines)


class _Citations:
    """Turns finding ids into links: to the finding on the page, and to the evidence at its
    vendor."""

    def __init__(self, diagnosis: Diagnosis, evidence: Sequence[Evidence], page_url: str) -> None:
        self._findings: dict[str, Finding] = {f.id: f for f in diagnosis.findings}
        self._evidence = {e.id: e for e in evidence}
        self._page_url = page_url

    def knows(self, finding_id: str) -> bool:
        return finding_id in self._findings

    def kinds(self, finding_ids: Sequence[str]) -> set[str]:
        return {self._findings[i].kind for i in finding_ids if i in self._findings}

    def investigation(self, finding_id: str) -> Link | None:
        """The page of the earlier investigation that the finding speaks of: beside this one's
        page."""
        details = EarlierDetails.of(self._findings[finding_id])
        earlier = details.investigation if details else ""
        if not earlier:
            return None
        url = safe_url(f"{self._page_url.rpartition('/')[0]}/{quote(earlier, safe='')}")
        return Link(title="earlier investigation", url=url) if url else None

    def named(self, finding_id: str) -> CitedLine:
        """The finding by name alone, where its sentence stands above."""
        finding = self._findings[finding_id]
        return self.line(
            f"{finding.signal or finding.kind.replace('_', ' ')} of {finding.subject}",
            (finding_id,),
        )

    def finding(self, finding_id: str) -> CitedLine:
        return self.line(self._findings[finding_id].sentence, (finding_id,))

    def line(self, text: str, finding_ids: Sequence[str]) -> CitedLine:
        known = [f for f in dict.fromkeys(finding_ids) if f in self._findings]
        links = [self._on_page(f) for f in known[:LINKS_PER_LINE]]
        deep = next(filter(None, (self._at_vendor(f) for f in known)), None)
        return CitedLine(sentence(text, LINE), tuple(filter(None, [*links, deep])))

    def _on_page(self, finding_id: str) -> Link | None:
        url = safe_url(f"{self._page_url}#{quote(finding_id, safe='')}")
        return Link(title=one_line(finding_id, 12), url=url) if url else None

    def _at_vendor(self, finding_id: str) -> Link | None:
        for item in (self._evidence.get(e) for e in self._findings[finding_id].evidence):
            url = safe_url(item.link) if item else None
            if item and url:
                return Link(title=one_line(f"{item.source} {item.kind}", 40), url=url)
        return None
