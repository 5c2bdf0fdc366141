"""The exports there are: by the name that `faultline export --as` takes, with the file that the
pages offer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from faultline.analysis.vocabulary import Section, Verdict
from faultline.analysis.wording.names import subject_name
from faultline.analysis.wording.phrases import capitalised, plain
from faultline.bot.answer.exports.answered import ExportedAnswer, read_answered, timeline_of
from faultline.bot.answer.exports.coding_agent import hand_off
from faultline.bot.answer.exports.postmortem import postmortem
from faultline.bot.answer.replay import json_of
from faultline.bot.answer.view import AnswerView
from faultline.bot.answer.writer.plain_text import shown

# An answered case as one JSON document: what `investigate --json` prints, with alert, report and
# timeline.


def document(answered: ExportedAnswer) -> str:
    """Sorted keys, so that equal content gives equal bytes. `timings` is empty: it would differ
    each time."""
    case, report = answered.case, answered.report
    whole: dict[str, Any] = json_of(answered.view) | {"timings": {}}
    whole |= {
        "alert": case.alert.model_dump(mode="json"),
        "scope": case.scope.model_dump(mode="json"),
        "evidence": [item.model_dump(mode="json") for item in case.evidence],
        "report": report.model_dump(mode="json"),
        "timeline": [
            {
                "time": m.time.isoformat(),
                "what": m.what,
                "text": m.text,
                "findings": list(m.findings),
                "link": m.link,
            }
            for m in timeline_of(answered)
        ],
        "answered": answered.times.model_dump(mode="json") if answered.times else None,
    }
    return (
        json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False)
        .encode("utf-8", "replace")
        .decode()
        + "\n"
    )


# A status update in three voices: for a status page, for executives, for the next shift.
#
# Built from the answer alone. What the answer does not know stays out: no promise, no fix that
# nobody confirmed, and the status page mentions nothing internal.

MOST_STEPS = 2
MOST_UNSURE = 3
_STATE = {
    Verdict.CAUSE_FOUND: "We have identified a likely cause.",
    Verdict.RECOVERED: "The service has recovered.",
    Verdict.NO_ACTIVE_INCIDENT: "We found no ongoing disruption.",
    Verdict.INSUFFICIENT_EVIDENCE: "We are investigating the cause.",
}


@dataclass(frozen=True)
class StatusUpdate:
    """The three texts; foreign names in them are not escaped."""

    status_page: str
    executives: str
    next_shift: tuple[str, ...]


def status_update(view: AnswerView, *, since: datetime | None) -> StatusUpdate:
    """The texts of one answer."""
    service = plain(subject_name(view.alert.service or view.alert.title), 80)
    began = f" since {since:%H:%M} UTC, {since.day} {since:%b}" if since else ""
    sure = view.how_sure or view.verdict_label
    lines = [f"{first_clause(view.headline)}{began}. {sure}."]
    lines += [claim.text for claim in view.section(Section.WHY)[:MOST_STEPS]]
    steps = (*view.next_steps[:MOST_STEPS], *view.routing)
    lines += [f"To do: {step.text}" for step in steps]
    unsure = [claim.text for claim in view.section(Section.UNSURE)] or list(view.missing)
    lines += [f"Not sure: {text}" for text in unsure[:MOST_UNSURE]]
    return StatusUpdate(
        status_page=_status_page(view, service, began),
        executives=_executives(view, began),
        next_shift=tuple(lines),
    )


def as_markdown(answered: ExportedAnswer) -> str:
    """The export: one section for each reader."""
    view = answered.view
    update = status_update(view, since=view.impact.since)
    shift = "\n".join(f"- {shown(line)}" for line in update.next_shift)
    return (
        f"# Status update: {shown(view.alert.title)}\n\n"
        "> A draft from what was measured. Check it before you send it.\n\n"
        f"## Status page\n\n{shown(update.status_page)}\n\n"
        f"## Executives\n\n{shown(update.executives)}\n\n"
        f"## Next shift\n\n{shift}\n"
    )


def _status_page(view: AnswerView, service: str, began: str) -> str:
    failed = view.impact.numbers.get("failed_percent")
    if view.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return f"{capitalised(service)} works normally. {_STATE[view.verdict]}"
    # Customers may know what fails, not why: the cause stays inside.
    what = f"{capitalised(service)} is impaired{began}."
    share = f" About {failed:.2g} % of requests fail." if failed else ""
    return f"{what}{share} {_STATE[view.verdict]}"


def first_clause(headline: str) -> str:
    """The headline up to its reasons: "v2.3.1 made checkout slow", without ": calls fail ..."."""
    return headline.split(": ")[0].rstrip(". ")


def _executives(view: AnswerView, began: str) -> str:
    sentences = [f"{first_clause(view.headline)}{began}"]
    failed = view.impact.numbers.get("failed_percent")
    if failed:
        sentences.append(f"About {failed:.2g} % of requests failed")
    if view.how_sure:
        # Inside a sentence it loses its capital.
        sentences.append(f"How sure we are: {view.how_sure[0].lower()}{view.how_sure[1:]}")
    if view.next_steps:
        sentences.append(f"Next: {view.next_steps[0].text.split('. ')[0].rstrip('.')}")
    return f"{'. '.join(sentences)}."


@dataclass(frozen=True)
class Format:
    """One export. `file` is its name on the pages and when downloaded."""

    file: str
    media_type: str
    title: str
    write: Callable[[ExportedAnswer], str]


FORMATS: Mapping[str, Format] = {
    "postmortem": Format("postmortem.md", "text/markdown", "Postmortem draft", postmortem),
    "status": Format("status.md", "text/markdown", "Status update", as_markdown),
    "json": Format("investigation.json", "application/json", "JSON", document),
    "agent": Format("agent.md", "text/markdown", "Task for a coding agent", hand_off),
}


def export(folder: Path, name: str) -> bytes:
    """One export of a case folder (blocking). Raises EvidenceError when the case cannot be read."""
    return FORMATS[name].write(read_answered(folder)).encode("utf-8", "replace")
