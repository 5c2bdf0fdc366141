"""The modal behind `Evidence`: findings for and against each cause with links and log templates,
then the others, then what could not be collected. Pure; in pages, because a modal holds 100
blocks and 250 kB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faultline.analysis.vocabulary import Cause, Diagnosis, Evidence, Finding, Gap
from faultline.bot.answer.foreign_text import safe_url, single_line
from faultline.bot.answer.lines import percent
from faultline.bot.answer.targets.slack.blocks import (
    Block,
    actions,
    bold,
    button,
    context,
    header,
    link,
    modal,
    paragraph,
    preformatted,
    rich,
    section,
    spoken,
    text,
)
from faultline.bot.answer.view import VERDICT_LABELS
from faultline.bot.store.store import StoredInvestigation

CALLBACK = "faultline_evidence_view"
PAGE_ACTIONS = ("faultline_page_back", "faultline_page_on")
PER_PAGE = 10
"""Findings on one page: what a phone scrolls through in a few movements, far below the limits of a
modal."""
CAUSES = 3
SENTENCE, TEMPLATE = 700, 400
LINKS = 3
RECORDED = ("template", "example", "stack", "code")
"""Details of a finding that are text as it was recorded; shown unless its sentence quotes them."""
MAX_RECORDED = 2
MAX_FINDINGS = 300
"""More findings than this are on the page alone."""


@dataclass(frozen=True)
class EvidenceShown:
    """What the modal shows."""

    diagnosis: Diagnosis
    evidence: Sequence[Evidence]
    gaps: Sequence[Gap]


@dataclass(frozen=True)
class _Entry:
    """One thing on a page, and the title it stands under."""

    title: str
    block: Block


def evidence_modal(
    investigation: StoredInvestigation, answered: EvidenceShown, page_url: str, page: int = 0
) -> Block:
    """One page of it, counted from 0; a page that does not exist is the nearest one that does."""
    entries = list(_entries(answered, page_url))
    pages = max(1, -(-len(entries) // PER_PAGE))
    page = min(max(page, 0), pages - 1)
    shown = entries[page * PER_PAGE : (page + 1) * PER_PAGE]
    blocks: list[Block] = [_first(investigation, answered.diagnosis)] if page == 0 else []
    # Each page repeats the title that its first finding stands under.
    title = ""
    for entry in shown:
        if entry.title != title:
            blocks.append(header(entry.title))
            title = entry.title
        blocks.append(entry.block)
    if not entries:
        blocks.append(
            paragraph("There is no finding: nothing that was measured left its baseline.")
        )
    blocks += _turn(investigation.id, page, pages)
    total = len(answered.diagnosis.findings)
    where = f"page {page + 1} of {pages} · " if pages > 1 else ""
    blocks.append(
        context(f"{where}{total} finding{'s' if total != 1 else ''} · {investigation.id}", page_url)
    )
    return modal(CALLBACK, "Evidence", blocks, metadata=investigation.id)


def reading_modal(investigation: StoredInvestigation, page_url: str) -> Block:
    """Shown while the case is fetched."""
    return modal(
        CALLBACK,
        "Evidence",
        [paragraph("Reading the case ..."), context(investigation.id, page_url)],
        metadata=investigation.id,
    )


def no_evidence_modal(investigation: StoredInvestigation, reason: str, page_url: str) -> Block:
    """The case cannot be read, and why."""
    phrase = f"The evidence cannot be shown: {single_line(reason, 400)}"
    return modal(
        CALLBACK,
        "Evidence",
        [paragraph(phrase), context(investigation.id, page_url)],
        metadata=investigation.id,
    )


def _first(investigation: StoredInvestigation, diagnosis: Diagnosis) -> Block:
    label = VERDICT_LABELS[diagnosis.verdict]
    phrase = (
        f"{label}, {percent(diagnosis.confidence)}: "
        f"{single_line(investigation.headline or '', 300)}"
    )
    return rich(section(text(phrase)))


def _entries(answered: EvidenceShown, page_url: str) -> Iterator[_Entry]:
    diagnosis = answered.diagnosis
    findings = {f.id: f for f in diagnosis.findings[:MAX_FINDINGS]}
    items = {e.id: e for e in answered.evidence}
    shown: set[str] = set()

    def of(title: str, ids: Sequence[str]) -> Iterator[_Entry]:
        for finding_id in dict.fromkeys(ids):
            # Show a finding once, where it counts most.
            if finding_id in findings and finding_id not in shown:
                shown.add(finding_id)
                finding = findings[finding_id]
                sentence = single_line(finding.sentence, SENTENCE)
                elements = [bold(f"{single_line(finding.id, 12)}  "), *spoken(sentence)]
                for url, name in _links(finding, items, page_url):
                    elements += [text("  "), link(url, name)]
                written = finding.details.written()
                values = (v for key in RECORDED if isinstance(v := written.get(key), str))
                recorded = [
                    line
                    for v in values
                    if (line := single_line(v, TEMPLATE)) and line not in sentence
                ]
                boxes = [
                    preformatted(line) for line in list(dict.fromkeys(recorded))[:MAX_RECORDED]
                ]
                yield _Entry(title, rich(section(*elements), *boxes))

    for cause in sorted(diagnosis.causes, key=lambda c: c.rank)[:CAUSES]:
        yield from of(_title("For", cause), cause.findings)
        yield from of(_title("Against", cause), cause.contradicting)
    yield from of("Impact", diagnosis.impact.findings)
    yield from of("Other findings", tuple(findings))
    for gap in answered.gaps[:MAX_FINDINGS]:
        where = single_line(f"{gap.source} {gap.kind}", 60)
        yield _Entry(
            "Could not be collected",
            rich(section(bold(where), text(f"  {single_line(gap.reason, SENTENCE)}"))),
        )


def _title(side: str, cause: Cause) -> str:
    return (
        f"{side} {single_line(cause.subject, 60)}, {cause.kind.replace('_', ' ')} "
        f"({percent(cause.confidence)})"
    )


def _links(finding: Finding, items: dict[str, Evidence], page_url: str) -> list[tuple[str, str]]:
    links = [(safe_url(f"{page_url}#{finding.id}"), "on the page")]
    for item in (items[e] for e in finding.evidence if e in items):
        links.append((safe_url(item.link), single_line(f"{item.source} {item.kind}", 40)))
    names = {url: name for url, name in links if url}
    return list(names.items())[:LINKS]


def _turn(investigation_id: str, page: int, pages: int) -> list[Block]:
    back, on = PAGE_ACTIONS
    shown = []
    if page > 0:
        shown.append(button(back, "Previous", f"{page - 1} {investigation_id}"))
    if page < pages - 1:
        shown.append(button(on, "Next", f"{page + 1} {investigation_id}"))
    return [actions(f"page_{page}", shown)] if shown else []


def read_page(value: str) -> tuple[int, str] | None:
    """Page and investigation from a button's value."""
    number, _, investigation = value.partition(" ")
    # The value comes back from outside: anything but a small number is nothing.
    return (
        (int(number), investigation)
        if number.isascii() and number.isdigit() and len(number) <= 4
        else None
    )
