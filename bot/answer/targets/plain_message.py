"""An answer as lines of plain text, for targets whose messages have no markup of ours.

Pure. Foreign text is cut, and forms neither a separate line nor a link that a client would make of
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from faultline.analysis.vocabulary import Verdict
from faultline.bot.answer.foreign_text import safe_url, sentence, single_line
from faultline.bot.answer.lines import (
    INFERRED,
    SECOND_OPINION,
    AnswerLines,
    CitedLine,
    answer_lines,
    at,
    percent,
)
from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.view import VERDICT_LABELS, AnswerView
from faultline.bot.answer.writer.model_use import model_use_line
from faultline.bot.answer.writer.plain_text import shown
from faultline.bot.policy.values import ENDED
from faultline.bot.store.store import StoredInvestigation

MAX_TEXT = 20_000
"""Characters of a message; what answers say takes a tenth of it."""
GAPS = 3
FINE_LINES = 3
RELATED = 10
RUNBOOK_LINES = 6
MAX_DIGEST_LINES = 20
TITLE, HEADLINE = 80, 140
MEASURED = frozenset({"metrics", "logs", "spans"})
"""Kinds of evidence in which something unusual would show."""


def first_text(investigation: StoredInvestigation, page_url: str) -> str:
    """`Investigating ...`, posted within seconds."""
    alert = investigation.alert
    title = single_line(alert.title, 240) or "an alert without a title"
    lines = [
        f"Investigating: {title}",
        f"Alert: {single_line(alert.source, 40)}, {at(alert.started_at)}",
    ]
    return _with_page(lines, page_url)


def answer_text(outcome: Outcome, page_url: str) -> str:
    """The answer, or that there is none and why."""
    investigation, answer = outcome.investigation, outcome.answer
    if investigation.status == "joined":
        return _with_page([joined_line(investigation)], page_url)
    if answer is None:
        reason = (investigation.headline or "").removeprefix("The investigation failed: ")
        return _with_page([failure_line(reason)], page_url)
    view = answer.view(investigation.alert)
    return _with_page(answer_text_lines(investigation, view, page_url), page_url)


def digest_text(investigations: Sequence[StoredInvestigation], public_url: str) -> str:
    """What came in quiet hours, what was found, and where to read on; the oldest first."""
    count = len(investigations)
    were = "s were" if count != 1 else " was"
    lines = [f"While it was quiet, {count} alert{were} investigated"]
    for investigation in investigations[:MAX_DIGEST_LINES]:
        title = single_line(investigation.alert.title, TITLE)
        page = safe_url(f"{public_url}/investigations/{investigation.id}") or ""
        lines.append(
            f"- {investigation.accepted_at:%d %b %H:%M} UTC  {title}: "
            f"{outcome_line(investigation)} {page}"
        )
    if count > MAX_DIGEST_LINES:
        lines.append(f"and {count - MAX_DIGEST_LINES} more: {safe_url(public_url) or ''}")
    return "\n".join(lines)[:MAX_TEXT]


def failure_line(reason: str) -> str:
    """There is no answer, and why."""
    return f"Investigation failed: {sentence(reason, 400) or 'the reason is not known'}"


def joined_line(investigation: StoredInvestigation) -> str:
    """It has no answer, since another investigation has its alert."""
    return sentence(investigation.headline or "Part of another incident", 400)


def outcome_line(investigation: StoredInvestigation) -> str:
    """How an investigation ended, in one line of a list."""
    if investigation.status not in ENDED:
        return "still being investigated"
    headline = single_line(investigation.headline or "", HEADLINE) or "no answer"
    if investigation.verdict is None:
        return headline
    # The store may hold a verdict of another version.
    try:
        label = VERDICT_LABELS[Verdict(investigation.verdict)]
    except ValueError:
        return headline
    if investigation.confidence is not None and investigation.verdict == Verdict.CAUSE_FOUND:
        return f"{label} ({percent(investigation.confidence)}): {headline}"
    return f"{label}: {headline}"


def answer_text_lines(
    investigation: StoredInvestigation, view: AnswerView, page_url: str
) -> list[str]:
    """The answer in its order, what was checked and is fine, and what could not be collected."""
    answer = answer_lines(view, page_url=page_url)
    lines = [f"{answer.state}: {answer.headline}"]
    if answer.decision:
        lines.append(answer.decision)
    if answer.happening:
        lines.append(f"What's happening: {answer.happening}")
    lines += _listed(answer.why_label, [_cited(line) for line in answer.why])
    lines.append(f"Do next: {answer.steps[0]}")
    lines += [f"- {step}" for step in (*answer.steps[1:], *answer.routing)]
    lines += _listed("Not sure about", [_cited(line) for line in answer.unsure])
    lines += _listed(SECOND_OPINION, [_cited(line) for line in answer.second_opinion])
    lines += _listed(INFERRED, [_cited(line) for line in answer.inferred])
    if answer.confidence:
        lines.append(f"Confidence: {answer.confidence}")
    lines += _listed("Checked, nothing unusual", _fine(view))
    lines += _listed("Earlier", [_cited(line) for line in answer.earlier])
    runbooks = [_with_addresses(line) for line in answer.runbooks[:RUNBOOK_LINES]]
    lines += _listed("Runbooks", runbooks)
    lines += _listed("Also part of it", _related(investigation))
    lines += _listed("What is missing", answer.missing)
    lines += _listed("Evidence we could not collect", _gaps(answer))
    if view.model_use is not None:
        lines.append(f"Model: {model_use_line(view.model_use)}")
    return lines


def _with_page(lines: Sequence[str], page_url: str) -> str:
    url = safe_url(page_url)
    # Cut the text, never the link to the page.
    text = "\n".join(lines)[:MAX_TEXT]
    return f"{text}\nDetails: {url}" if url else text


def _listed(title: str, items: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"- {item}" for item in items)] if items else []


def _fine(view: AnswerView) -> list[str]:
    """Measurements of each source on which no finding rests.

    What merely describes (topology, the state of the monitor that fired) is no sign that anything
    is fine.
    """
    noticed = {item for finding in view.findings.values() for item in finding.evidence}
    calm: Counter[tuple[str, str]] = Counter()
    every: Counter[tuple[str, str]] = Counter()
    for evidence in view.evidence.values():
        # An empty answer does not show that anything is fine.
        if evidence.rows and evidence.kind in MEASURED:
            every[evidence.source, evidence.kind] += 1
            if evidence.id not in noticed:
                calm[evidence.source, evidence.kind] += 1
    lines = []
    for (source, kind), count in calm.most_common(FINE_LINES):
        lines.append(f"{sentence(source, 40)} {kind}: {count} of {every[source, kind]} answers")
    return lines


def _related(investigation: StoredInvestigation) -> list[str]:
    shown = [
        f"{sentence(grouped_alert.alert.title, 160)} ({sentence(grouped_alert.why, 120)})"
        for grouped_alert in investigation.related[:RELATED]
    ]
    left_out = len(investigation.related) - len(shown)
    return [*shown, f"and {left_out} more alerts"] if left_out else shown


def _cited(line: CitedLine) -> str:
    cited = ", ".join(link.title for link in line.links)
    return f"{line.text} [{cited}]" if cited else line.text


def _with_addresses(line: CitedLine) -> str:
    """Links of a runbook lead to what is not on the page: they are written out."""
    return " ".join([line.text, *(f"{link.title} {link.url}" for link in line.links)])


def _gaps(answer: AnswerLines) -> list[str]:
    gap_lines = [f"{gap.label}: {gap.text}" for gap in answer.gaps[:GAPS]]
    left_out = answer.gaps_left_out + len(answer.gaps[GAPS:])
    return [*gap_lines, f"and {left_out} more"] if left_out else gap_lines


# The parts of an answer in plain text, for vendors whose messages have a title or markup.

LONGEST_TITLE = 240
CUT = "…"
LINK = "Details: "
"""How the last line of an answer begins, before the address of its page."""
NO_REFERENCE = "\u2060"
"""A word joiner, which is not seen."""


@dataclass(frozen=True)
class TextParts:
    """The title, the lines below it, and the answer's page."""

    title: str
    lines: tuple[str, ...]
    page: str

    @classmethod
    def of(cls, text: str) -> TextParts:
        """Of an answer in plain text."""
        title, *lines = text.split("\n")
        page = lines.pop().removeprefix(LINK) if lines and lines[-1].startswith(LINK) else ""
        if len(title) > LONGEST_TITLE:
            title = title[: LONGEST_TITLE - 1] + "…"
        return cls(title, tuple(lines), page)

    def markdown_within(self, limit: int) -> str:
        """As Markdown of at most `limit` characters: without the last lines, where it is longer."""
        markdown, lines = self.markdown, self.lines
        # Escapes make Markdown longer than its text, so measure after each cut.
        while len(markdown) > limit and lines:
            lines = lines[:-1]
            markdown = replace(self, lines=(*lines, CUT)).markdown
        return markdown[:limit]

    @property
    def markdown(self) -> str:
        """As Markdown in which foreign text stays text: no markup, mention, reference or quick
        action."""
        markdown_lines: list[str] = []
        for line in self.lines:
            if line.startswith("- "):
                markdown_lines.append(f"- {_inert(line[2:])}")
            elif line.endswith(":"):
                markdown_lines += ["", f"**{_inert(line)}**", ""]
            else:
                markdown_lines += ["", _inert(line)]
        if self.page:
            markdown_lines += ["", f"[The whole answer, with its evidence]({self.page})"]
        return "\n".join(markdown_lines).strip()


def _inert(line: str) -> str:
    # No mention is left in it, but `#12` would still refer to an issue.
    escaped = shown(line).replace("#", "#" + NO_REFERENCE)
    # GitLab does what a line says that begins with a slash.
    return NO_REFERENCE + escaped if escaped.startswith("/") else escaped
