"""An answer in short lines with links, for chats and incidents: six lines, then evidence, then what
is missing.

Pure. `bot.answer.view` decides what is said; labels and the words around numbers are added here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from analysis.analyzers import fault_kind
from analysis.case.earlier import KIND as EARLIER
from analysis.kinds.finding_details import ChangeDetails, EarlierDetails, change_finding
from analysis.vocabulary import Cause, Gap, Link, Verdict
from bot.answer.foreign_text import one_line, safe_url, sentence
from bot.answer.guidance import told
from bot.answer.view import AnswerView

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
_NO_CAUSE: Mapping[Verdict, str] = {
    Verdict.CAUSE_FOUND: "See the evidence below",
    Verdict.RECOVERED: "Not established before it recovered",
    Verdict.NO_ACTIVE_INCIDENT: "None: nothing that was measured left its baseline in a way that "
    "explains the alert",
    Verdict.INSUFFICIENT_EVIDENCE: "Not established",
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


def answer_lines(view: AnswerView, *, page_url: str) -> AnswerLines:
    """The answer in lines. Links go to findings on the page and to the vendor's own page of the
    evidence."""
    cite = _Citations(view, page_url)
    six = _six(view)
    alternatives = []
    for cause in view.other_causes[:ALTERNATIVES]:
        text = f"{cause.summary.rstrip('. ')} ({percent(cause.confidence)})"
        alternatives.append(cite.line(text, cause.findings))
    before = {line.text for line in six} | {line.text for line in alternatives}
    steps = [sentence(step.text, LINE) for step in view.next_steps]
    guidance = told(view.guidance)
    return AnswerLines(
        six=six,
        evidence=_evidence(view, cite, before),
        against=tuple(cite.finding(found.id) for found in view.against[:ALTERNATIVES]),
        alternatives=tuple(alternatives),
        earlier=_earlier(view, cite),
        runbooks=tuple(CitedLine(sentence(text, LINE), _safe(links)) for text, links in guidance),
        more_steps=(*steps[1 : 1 + MORE_STEPS], *_to_tell_apart(view)),
        missing=tuple(sentence(said, LINE) for said in view.missing[:GAPS]),
        gaps=tuple(_gap(gap) for gap in view.gaps[:GAPS]),
        gaps_left_out=max(0, len(view.gaps) - GAPS),
    )


def _gap(gap: Gap) -> Line:
    return Line(one_line(f"{gap.source} {gap.kind}", 60), sentence(gap.reason, 160))


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


def _six(view: AnswerView) -> tuple[Line, ...]:
    headline = sentence(view.headline, LINE)
    return (
        Line(view.verdict_label, headline),
        Line("Cause", _cause(view, headline)),
        Line("Impact", sentence(view.impact.sentence, LINE) or "Not measured"),
        Line("Since", _since(view)),
        Line("Do", _step(view)),
        Line("Confidence", _confidence(view)),
    )


def _cause(view: AnswerView, headline: str) -> str:
    if view.cause is None:
        return _NO_CAUSE[view.verdict]
    said = sentence(view.cause.summary, CAUSE_LINE)
    if _says_already(headline, said):
        said = _named(view.cause, view)
    return f"Not established; first suspect: {said}" if view.suspected_only else said


def _says_already(before: str, text: str) -> bool:
    """Whether an earlier line holds most of the words; nothing is said twice."""
    words = set(text.casefold().split())
    return len(words & set(before.casefold().split())) >= REPEATED * max(1, len(words))


def _named(cause: Cause, view: AnswerView) -> str:
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
    about = change_finding(view.findings.values(), cause.change)
    details = ChangeDetails.of(about) if about else None
    title = details.title if details else None
    kind = (about.signal if about else None) or "change"
    named = f"{one_line(kind, 20)} {sentence(cause.change, 60)} of {one_line(cause.subject, 80)}"
    return f"{named}: “{one_line(title, 100)}”" if title and title.strip() else named


def _since(view: AnswerView) -> str:
    started = view.alert.started_at
    onset = view.impact.since or (view.cause.onset if view.cause else None)
    if onset is None:
        return f"{at(started)}, when the alert fired; the onset itself was not found"
    before = started - onset
    if abs(before) < timedelta(seconds=1):
        return f"{at(onset)}, when the alert fired"
    side = "before" if before > timedelta(0) else "after"
    return f"{at(onset)}, {span_of(before)} {side} the alert"


def _step(view: AnswerView) -> str:
    if view.next_steps:
        return sentence(view.next_steps[0].text, LINE)
    return _NO_STEP[view.verdict]


def _to_tell_apart(view: AnswerView) -> list[str]:
    return [sentence(view.to_tell_apart, QUERY_LINE)] if view.to_tell_apart else []


def _confidence(view: AnswerView) -> str:
    said = f"{view.confidence_word}, {percent(view.confidence)}"
    if view.cause is None:
        return said
    count, contra = len(view.cause.findings), len({found.id for found in view.really_against})
    said += f" · {count} finding{'s' if count != 1 else ''} for it"
    said = f"{said}, {contra} against" if contra else f"{said}, none against"
    return f"{said} · {sentence(view.record.sentence, LINE)}" if view.record else said


def _evidence(view: AnswerView, cite: _Citations, said: set[str]) -> tuple[CitedLine, ...]:
    """The report's claims that no other line says already; then the first cause's findings not
    cited by them."""
    lines: list[CitedLine] = []
    cited: set[str] = set()
    for claim in view.claims:
        line = cite.line(claim.text, claim.findings)
        if line.links and not any(_says_already(before, line.text) for before in said):
            lines.append(line)
            said = said | {line.text}
            cited.update(claim.findings)
    for finding in view.known(view.cause.findings) if view.cause else ():
        if finding.id not in cited:
            line = cite.finding(finding.id)
            repeated = any(_says_already(before, line.text) for before in said)
            if not repeated:
                lines.append(line)
            elif len(lines) < ENOUGH:
                lines.append(cite.named(finding.id))
    return tuple(lines[:EVIDENCE_LINES])


def _safe(links: Sequence[Link]) -> tuple[Link, ...]:
    shown = [link for link in links if safe_url(link.url)][:LINKS_PER_LINE]
    return tuple(Link(title=one_line(link.title, 60), url=link.url) for link in shown)


def _earlier(view: AnswerView, cite: _Citations) -> tuple[CitedLine, ...]:
    """The claims about earlier investigations, each with a link to the one it speaks of."""
    lines = []
    for claim in view.remembered:
        if view.findings[claim.findings[0]].kind == EARLIER:
            line = cite.line(claim.text, claim.findings)
            then = cite.investigation(claim.findings[0])
            lines.append(CitedLine(line.text, (*line.links, then) if then else line.links))
    return tuple(lines)


class _Citations:
    """Turns finding ids into links: to the finding on the page, and to the evidence at its
    vendor."""

    def __init__(self, view: AnswerView, page_url: str) -> None:
        self._findings = view.findings
        self._evidence = view.evidence
        self._page_url = page_url

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
