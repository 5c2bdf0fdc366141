"""An answer in short lines with links, for chats and incidents: what is wrong and why, what is
happening, what shows it, what to do, and what is not sure.

Pure. `faultline.bot.answer.view` decides what is said; how long a line may be is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from faultline.analysis.case.earlier import KIND as EARLIER
from faultline.analysis.case.gap_groups import GapGroup, grouped
from faultline.analysis.kinds.finding_details import EarlierDetails
from faultline.analysis.vocabulary import (
    BUILT_IN_WRITER,
    Claim,
    Evidence,
    Finding,
    Link,
    Section,
    Verdict,
)
from faultline.bot.answer.foreign_text import safe_url, sentence, single_line
from faultline.bot.answer.guidance import guidance_lines
from faultline.bot.answer.view import AnswerView
from faultline.bot.answer.view import percent as percent

LINE = 280
QUERY_LINE = 400
"""A line of more characters is not read in an incident."""
WHY_LINES = 4
LINKS_PER_LINE = 2
UNSURE_LINES = 4
INFERRED_LINES = 4
OPINION_LINES = 4
ADDED_LINES = 2
"""What a model adds to code's own reasons."""
INFERRED = "Inferred by the model, not shown by evidence"
SECOND_OPINION = "The model disagrees"
HEDGED_STATES = ("Likely cause", "Possible cause")
HEDGES = (
    (", probably because ", " because "),
    (", possibly because ", " because "),
    (" probably made ", " made "),
    (" probably raised ", " raised "),
    (" probably lowered ", " lowered "),
)
"""Words of the built-in headline that say what the state before it says."""
STATES_IN_HEADLINES = ("No active incident", "Over")
"""States with which the built-in headlines begin."""
STEPS = 3
GAPS = 5
SHOWN_BY: Mapping[str, str] = {
    "metrics": "graph",
    "logs": "logs",
    "spans": "trace",
    "traces": "trace",
    "changes": "change",
    "topology": "calls",
    "monitors": "monitor",
    "states": "state",
    "alert": "alert",
    "alert_query": "graph",
    "external": "answer",
}
"""What a link to evidence of each kind is called."""
NO_STEP: Mapping[Verdict, str] = {
    Verdict.CAUSE_FOUND: "No single step follows from this; start with the evidence above.",
    Verdict.RECOVERED: "Nothing now; watch for a repeat.",
    Verdict.NO_ACTIVE_INCIDENT: "Nothing now; check the alert's threshold if it repeats.",
    Verdict.INSUFFICIENT_EVIDENCE: "Connect what is missing (below), and ask again.",
}
"""What to do where no step follows from the cause."""


@dataclass(frozen=True)
class Line:
    """A label and its sentence."""

    label: str
    text: str


@dataclass(frozen=True)
class CitedLine:
    """A sentence and the links under which a reader can check it."""

    text: str
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class AnswerLines:
    """An answer in the order in which it is read."""

    state: str
    """The verdict in words that follow the confidence."""
    headline: str
    decision: str
    """Who decided, where a model gave a verdict; empty otherwise."""
    happening: str
    """One paragraph; empty where nothing happens."""
    why_label: str
    """What `why` is: of a cause that is not established it only says what was seen."""
    why: tuple[CitedLine, ...]
    """The decisive line first."""
    steps: tuple[str, ...]
    """At least one."""
    routing: tuple[str, ...]
    """The relabel rule of an alert whose labels name an exporter; never cut."""
    unsure: tuple[CitedLine, ...]
    second_opinion: tuple[CitedLine, ...]
    """What a model would rather say, and its reasons."""
    inferred: tuple[CitedLine, ...]
    """What a model concludes in its own words."""
    confidence: str
    """Empty where nothing is blamed."""
    earlier: tuple[CitedLine, ...]
    """What memory knows, tested again; no evidence."""
    runbooks: tuple[CitedLine, ...]
    """What the operator's runbooks say; no evidence either."""
    missing: tuple[str, ...]
    gaps: tuple[Line, ...]
    gaps_left_out: int


def answer_lines(view: AnswerView, *, page_url: str) -> AnswerLines:
    """The answer in lines. Links go to the vendor's own page of the evidence, or to the finding on
    ours."""
    cite = _Citations(view, page_url)
    happening = " ".join(claim.text for claim in view.section(Section.HAPPENING))
    guidance = guidance_lines(view.guidance)
    state, headline = _state_and_headline(view)
    gaps = grouped(view.gaps)
    steps = tuple(sentence(step.text, LINE) for step in view.next_steps[:STEPS])
    lines = list(cite.claims(view.section(Section.UNSURE)[:UNSURE_LINES]))
    if view.to_tell_apart:
        lines.append(CitedLine(sentence(view.to_tell_apart, QUERY_LINE)))
    why_lines = WHY_LINES if view.written_by == BUILT_IN_WRITER else WHY_LINES + ADDED_LINES
    return AnswerLines(
        state=state,
        headline=headline,
        decision=sentence(view.decision_line, LINE),
        happening=sentence(happening, QUERY_LINE),
        why_label="Why" if view.established else "What I see",
        why=cite.claims(view.section(Section.WHY)[:why_lines]),
        steps=steps or (_no_step(view),),
        routing=tuple(sentence(step.text, QUERY_LINE) for step in view.routing),
        unsure=tuple(lines),
        second_opinion=cite.claims(view.section(Section.SECOND_OPINION)[:OPINION_LINES]),
        inferred=cite.claims(view.section(Section.INFERRED)[:INFERRED_LINES]),
        confidence=_confidence(view),
        earlier=_earlier(view, cite),
        runbooks=tuple(CitedLine(sentence(text, LINE), _safe(links)) for text, links in guidance),
        missing=tuple(sentence(text, LINE) for text in view.missing[:GAPS]),
        gaps=tuple(_gap(group) for group in gaps[:GAPS]),
        gaps_left_out=max(0, len(gaps) - GAPS),
    )


def _state_and_headline(view: AnswerView) -> tuple[str, str]:
    """The state once: some headlines begin with it."""
    headline = sentence(view.headline, LINE)
    state, _, rest = headline.partition(": ")
    if rest and state.startswith(STATES_IN_HEADLINES):
        return state, rest
    if view.state_label in HEDGED_STATES:
        for hedge, plainly in HEDGES:
            headline = headline.replace(hedge, plainly, 1)
    return view.state_label, headline


def _no_step(view: AnswerView) -> str:
    # Nothing is missing, so there is nothing to connect.
    if view.verdict is Verdict.INSUFFICIENT_EVIDENCE and not view.missing:
        return "Ask again in a few minutes, or name a service to look at."
    return NO_STEP[view.verdict]


def _gap(group: GapGroup) -> Line:
    label = f"{group.source} {', '.join(group.kinds).replace('_', ' ')}"
    return Line(single_line(label, 60), sentence(group.reason, 160))


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


def _confidence(view: AnswerView) -> str:
    if not view.how_sure:
        return ""
    sentences = [sentence(view.how_sure, LINE)]
    if view.record:
        sentences.append(sentence(view.record.sentence, LINE))
    sentences += [sentence(claim.text, LINE) for claim in view.section(Section.CHECKED)]
    return ". ".join(sentences)


def _safe(links: Sequence[Link]) -> tuple[Link, ...]:
    # A runbook may hold any address: only plain ones become links.
    shown = [link for link in links if safe_url(link.url)][:LINKS_PER_LINE]
    return tuple(Link(title=single_line(link.title, 60), url=link.url) for link in shown)


def _earlier(view: AnswerView, cite: _Citations) -> tuple[CitedLine, ...]:
    """The claims about earlier investigations, each with a link to the one it speaks of."""
    lines = []
    for claim in view.remembered:
        if view.findings[claim.findings[0]].kind == EARLIER:
            (line,) = cite.claims([claim])
            then = cite.investigation(claim.findings[0])
            lines.append(CitedLine(line.text, (*line.links, then) if then else line.links))
    return tuple(lines)


class _Citations:
    """Turns finding ids into links to what shows them."""

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
        # Escaped, because it becomes part of an address.
        url = safe_url(f"{self._page_url.rpartition('/')[0]}/{quote(earlier, safe='')}")
        return Link(title="earlier investigation", url=url) if url else None

    def claims(self, claims: Iterable[Claim]) -> tuple[CitedLine, ...]:
        """Each claim with links to what shows it."""
        return tuple(self._line(claim) for claim in claims)

    def _line(self, claim: Claim) -> CitedLine:
        links: dict[str, Link] = {}
        for finding_id in dict.fromkeys(claim.findings):
            finding = self._findings.get(finding_id)
            link = self._shown_by(finding) if finding is not None else None
            if link is not None:
                # Several findings may rest on one page: link it once.
                links.setdefault(link.url, link)
        return CitedLine(sentence(claim.text, LINE), tuple(links.values())[:LINKS_PER_LINE])

    def _shown_by(self, finding: Finding) -> Link | None:
        """The vendor's own page of the evidence, or else the finding on ours."""
        items = [
            self._evidence[evidence_id]
            for evidence_id in finding.evidence
            if evidence_id in self._evidence
        ]
        called = SHOWN_BY.get(items[0].kind, "evidence") if items else "finding"
        for item in items:
            link = _at_vendor(item)
            if link is not None:
                return link
        url = safe_url(f"{self._page_url}#{quote(finding.id, safe='')}")
        return Link(title=called, url=url) if url else None


def _at_vendor(item: Evidence) -> Link | None:
    url = safe_url(item.link)
    return Link(title=SHOWN_BY.get(item.kind, "evidence"), url=url) if url else None
