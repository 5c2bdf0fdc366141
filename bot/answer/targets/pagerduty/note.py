"""The note on the PagerDuty incident: the answer's lines as plain text, because notes have no
markup.

Pure. The last line is the marker by which the note is found again.
"""

from __future__ import annotations

from collections.abc import Sequence

from faultline.bot.answer.foreign_text import safe_url, sentence
from faultline.bot.answer.targets.plain_message import answer_text_lines, failure_line
from faultline.bot.answer.view import AnswerView
from faultline.bot.store.store import StoredInvestigation

MAX_NOTE = 25_000
"""PagerDuty's limit on a note."""


def note_text(investigation: StoredInvestigation, view: AnswerView, page_url: str) -> str:
    """The answer as plain lines, the page, the marker."""
    lines = answer_text_lines(investigation, view, page_url)
    return _finished(lines, investigation.id, page_url)


def failed_note_text(investigation: StoredInvestigation, reason: str, page_url: str) -> str:
    """There is no answer, and why."""
    return _finished([failure_line(reason)], investigation.id, page_url)


def closing_note_text(investigation: StoredInvestigation, headline: str, page_url: str) -> str:
    """The incident was resolved before the answer: one line for whoever looks at it again."""
    headline_text = sentence(headline, 400) or "no answer was found"
    return _finished(
        [f"Resolved meanwhile. What the investigation found: {headline_text}"],
        investigation.id,
        page_url,
    )


def joined_note_text(
    investigation: StoredInvestigation, why: str, headline: str, page_url: str
) -> str:
    """On an incident whose alert joined another's investigation: where the answer is."""
    lines = [
        f"Investigated together with “{sentence(investigation.alert.title, 200)}”: "
        f"{sentence(why, 200)}"
    ]
    lines += [f"Found: {summary}"] if (summary := sentence(headline, 400)) else []
    return _finished(lines, investigation.id, page_url)


def marker(investigation_id: str) -> str:
    """The last line of an investigation's note. Foreign text never fills a whole line, so it
    cannot forge it."""
    return f"Faultline {investigation_id}"


def bears_marker(content: str, investigation_id: str) -> bool:
    """Whether the note is that investigation's."""
    lines = content.rstrip().splitlines()
    return bool(lines) and lines[-1].strip() == marker(investigation_id)


def _finished(lines: Sequence[str], investigation_id: str, page_url: str) -> str:
    url = safe_url(page_url)
    end = [*([f"Details: {url}"] if url else []), marker(investigation_id)]
    # Cut the lines, never the marker: without it the note would be written a second time.
    room = MAX_NOTE - sum(len(line) + 1 for line in end) - 1
    return "\n".join([*"\n".join(lines)[:room].splitlines(), *end])
