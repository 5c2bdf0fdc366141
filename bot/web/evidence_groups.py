"""Findings in the groups in which a person asks for them: for the cause, against it, affected by
it, checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from faultline.analysis.kinds.finding_kinds import CHANGE_RULED_OUT
from faultline.analysis.vocabulary import Finding, Section, Verdict
from faultline.analysis.wording.names import subject_name
from faultline.bot.answer.view import AnswerView
from faultline.bot.answer.writer.earlier import is_memory
from faultline.bot.web.finding_view import FindingView, finding_view

FULL = 30
"""Findings of a group that are shown whole: a page of hundreds takes long to draw."""


@dataclass(frozen=True)
class EvidenceGroup:
    """Findings that answer one question; of those in `lines` only the sentence is shown."""

    title: str
    short: str
    """For the summary: "3 for it"."""
    findings: tuple[FindingView, ...]
    lines: tuple[Finding, ...] = ()

    @property
    def count(self) -> int:
        """All of them."""
        return len(self.findings) + len(self.lines)


def evidence_groups(answer: AnswerView) -> tuple[EvidenceGroup, ...]:
    """Every finding but memory's in the first group that it belongs to; empty groups are left
    out."""
    named = []
    left = {f.id: f for f in answer.findings.values() if not is_memory(f)}
    for title, short, ids in _questions(answer):
        members = [left.pop(finding_id) for finding_id in dict.fromkeys(ids) if finding_id in left]
        if members:
            named.append(_group(title, short, members, answer))
    if left:
        title = "Also seen; the answer does not rest on it"
        named.append(_group(title, "more", list(left.values()), answer))
    return tuple(named)


def summary_of(groups: Iterable[EvidenceGroup]) -> str:
    """`3 for it, 1 against, 12 checked`."""
    return ", ".join(group.short for group in groups)


def _questions(answer: AnswerView) -> Iterable[tuple[str, str, Iterable[str]]]:
    first = answer.suspects[0] if answer.suspects else None
    if first is not None:
        yield f"For {subject_name(first.subject)}", "for the cause", first.findings
        yield "Against it", "against it", [finding.id for finding in answer.really_against]
    affected = list(answer.impact.findings)
    for claim in answer.section(Section.HAPPENING):
        affected += claim.findings
    # Without an incident nothing is affected.
    if answer.verdict is Verdict.NO_ACTIVE_INCIDENT:
        yield "What moved", "moved", affected
    else:
        yield "Affected by it", "on what is affected", affected
    findings: list[str] = []
    for cause in answer.suspects[1:]:
        findings += cause.findings
    yield "For other candidates", "for other candidates", findings
    ruled_out = [f.id for f in answer.findings.values() if f.kind == CHANGE_RULED_OUT.name]
    yield "Checked, and not the cause", "checked and ruled out", ruled_out


def _group(title: str, short: str, members: list[Finding], answer: AnswerView) -> EvidenceGroup:
    whole = tuple(finding_view(member, answer.evidence) for member in members[:FULL])
    return EvidenceGroup(title, f"{len(members)} {short}", whole, tuple(members[FULL:]))


def linkable_ids(groups: Iterable[EvidenceGroup]) -> frozenset[str]:
    """Ids that a link on the page may lead to."""
    ids: set[str] = set()
    for group in groups:
        ids.update(shown.finding.id for shown in group.findings)
        ids.update(finding.id for finding in group.lines)
    return frozenset(ids)
