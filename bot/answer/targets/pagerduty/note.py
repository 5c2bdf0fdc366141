"""The note on the PagerDuty incident: the answer's lines as plain text, because notes have no
markup.

Pure. The last line is the marker by which the note is found again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.changes.nearby import RULED_OUT
from analysis.vocabulary import Diagnosis, Evidence, Gap, Report
from bot.answer.foreign_text import safe_url, sentence
from bot.answer.lines import AnswerLines, CitedLine, answer_lines
from bot.answer.writer.model_use import model_use_line
from bot.store.store import Investigation

MAX_NOTE = 25_000
"""PagerDuty's limit on a note."""
EVIDENCE_LINES = 4
GAPS = 3
FINE_LINES = 3
RELATED = 10
MEASURED = frozenset({"metrics", "logs", "spans"})
"""Kinds of evidence in which something unusual would show."""
RUNBOOK_LINES = 6


def note_text(
    investigation: Investigation,
    diagnosis: Diagnosis,
    report: Report,
    gaps: Sequence[Gap],
    page_url: str,
    *,
    evidence: Sequence[Evidence] = (),
) -> str:
    """Six lines, the main evidence, what was looked at and is fine, what could not be had, the
    page."""
    answer = answer_lines(
        investigation.alert, diagnosis, report, gaps, page_url=page_url, evidence=evidence
    )
    lines = [f"{line.label}: {line.text}" for line in answer.six]
    lines += _listed("Evidence", [_cited(line) for line in answer.evidence[:EVIDENCE_LINES]])
    lines += _listed("Speaks against it", [_cited(line) for line in answer.against])
    lines += _listed("Looked at, and nothing unusual", _fine(diagnosis, evidence))
    lines += _listed("Before", [_cited(line) for line in answer.earlier])
    lines += _listed(
        "Runbooks", [_with_addresses(line) for line in answer.runbooks[:RUNBOOK_LINES]]
    )
    lines += _listed("Also part of it", _related(investigation))
    lines += _listed("What is missing", answer.missing)
    lines += _listed("Could not be had", _gaps(answer))
    if report.model_use is not None:
        lines.append(f"Model: {model_use_line(report.model_use)}")
    return _finished(lines, investigation.id, page_url)


def failed_note_text(investigation: Investigation, reason: str, page_url: str) -> str:
    """There is no answer, and why."""
    lines = [f"Investigation failed: {sentence(reason, 400) or 'the reason is not known'}"]
    return _finished(lines, investigation.id, page_url)


def closing_note_text(investigation: Investigation, headline: str, page_url: str) -> str:
    """The incident was resolved before the answer: one line for whoever looks at it again."""
    found = sentence(headline, 400) or "no answer was found"
    return _finished(
        [f"Resolved meanwhile. What the investigation found: {found}"], investigation.id, page_url
    )


def joined_note_text(investigation: Investigation, why: str, headline: str, page_url: str) -> str:
    """On an incident whose alert joined another's investigation: where the answer is."""
    lines = [
        f"Investigated together with “{sentence(investigation.alert.title, 200)}”: "
        f"{sentence(why, 200)}"
    ]
    lines += [f"Found: {said}"] if (said := sentence(headline, 400)) else []
    return _finished(lines, investigation.id, page_url)


def marker(investigation_id: str) -> str:
    """The last line of an investigation's note. Foreign text never holds a line of its own, so it
    cannot forge it."""
    return f"Faultline {investigation_id}"


def bears_marker(content: str, investigation_id: str) -> bool:
    """Whether the note is that investigation's."""
    lines = content.rstrip().splitlines()
    return bool(lines) and lines[-1].strip() == marker(investigation_id)


def _finished(lines: Sequence[str], investigation_id: str, page_url: str) -> str:
    url = safe_url(page_url)
    end = [*([f"Details: {url}"] if url else []), marker(investigation_id)]
    room = MAX_NOTE - sum(len(line) + 1 for line in end) - 1
    return "\n".join([*"\n".join(lines)[:room].splitlines(), *end])


def _listed(title: str, items: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"- {item}" for item in items)] if items else []


def _fine(diagnosis: Diagnosis, evidence: Sequence[Evidence]) -> list[str]:
    """Measurements of each source on which no finding rests; and changes that were ruled out.

    What merely describes (topology, the state of the monitor that fired) is no sign that anything
    is fine.
    """
    noticed = {item for finding in diagnosis.findings for item in finding.evidence}
    answered = [one for one in evidence if one.rows and one.kind in MEASURED]
    calm = Counter((one.source, one.kind) for one in answered if one.id not in noticed)
    every = Counter((one.source, one.kind) for one in answered)
    lines = [
        f"{sentence(source, 40)} {kind}: {count} of {every[source, kind]} answers"
        for (source, kind), count in calm.most_common(FINE_LINES)
    ]
    ruled_out = [sentence(f.sentence, 280) for f in diagnosis.findings if f.kind == RULED_OUT]
    return [*lines, *ruled_out[:FINE_LINES]]


def _related(investigation: Investigation) -> list[str]:
    shown = [
        f"{sentence(one.alert.title, 160)} ({sentence(one.why, 120)})"
        for one in investigation.related[:RELATED]
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
    said = [f"{gap.label}: {gap.text}" for gap in answer.gaps[:GAPS]]
    left_out = answer.gaps_left_out + len(answer.gaps[GAPS:])
    return [*said, f"and {left_out} more"] if left_out else said
