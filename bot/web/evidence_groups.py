"""Findings in the groups in which a person asks for them: for the cause, against it, affected by
it, checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from faultline.analysis.kinds.finding_kinds import CHANGE_RULED_OUT
from faultline.analysis.vocabulary import Claim, Finding, Section, Verdict
from faultline.analysis.wording.names import subject_name
from faultline.bot.answer.lines import LINKS_PER_LINE, SHOWN_BY
from faultline.bot.answer.view import AnswerView
from faultline.bot.answer.writer.built_in import is_memory
from faultline.bot.web.finding_view import FindingView, finding_view
from faultline.bot.web.text import safe_href

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


# What an answer says, each sentence with links to what shows it.

CHECK = " It worked if "
"""Begins the part of a next step that says how to see its success."""


@dataclass(frozen=True)
class ShownBy:
    """A link under one word: "graph", "logs", "change"."""

    label: str
    href: str
    outside: bool
    finding: str

    @property
    def about(self) -> str:
        """The link for those who hear it without the sentence before."""
        where = "at its source" if self.outside else "finding"
        return f"{where} {self.finding}"


@dataclass(frozen=True)
class CitedClaim:
    """A sentence and its links."""

    text: str
    links: tuple[ShownBy, ...]


@dataclass(frozen=True)
class NextStep:
    """What to do, and how to see that it worked."""

    action: str
    check: str
    links: tuple[ShownBy, ...]


def cited_claims(claims: Iterable[Claim], answer: AnswerView, home: str) -> tuple[CitedClaim, ...]:
    """Each claim with links; `home` is the address of the investigation."""
    return tuple(CitedClaim(claim.text, _links(claim, answer, home)) for claim in claims)


def next_steps(answer: AnswerView, home: str) -> tuple[NextStep, ...]:
    """What to do, the first thing first."""
    steps = []
    for claim in (*answer.next_steps, *answer.routing):
        action, _, check = claim.text.partition(CHECK)
        check = f"{CHECK.strip()} {check}" if check else ""
        steps.append(NextStep(action, check, _links(claim, answer, home)))
    return tuple(steps)


def _links(claim: Claim, answer: AnswerView, home: str) -> tuple[ShownBy, ...]:
    links: dict[str, ShownBy] = {}
    for finding_id in dict.fromkeys(claim.findings):
        finding = answer.findings.get(finding_id)
        if finding is not None:
            link = shown_by(finding, answer, home)
            # Two graphs beside each other differ in nothing that a reader sees.
            links.setdefault(link.label, link)
    return tuple(links.values())[:LINKS_PER_LINE]


def shown_by(finding: Finding, answer: AnswerView, home: str) -> ShownBy:
    """The vendor's own page of the evidence, or else the finding on ours."""
    items = [
        answer.evidence[evidence_id]
        for evidence_id in finding.evidence
        if evidence_id in answer.evidence
    ]
    for item in items:
        # Foreign text: a link may be a script.
        href = safe_href(item.link)
        if href is not None:
            label = SHOWN_BY.get(item.kind, "evidence")
            return ShownBy(label, href, outside=True, finding=finding.id)
    label = SHOWN_BY.get(items[0].kind, "evidence") if items else "finding"
    page = f"{home}/findings/{quote(finding.id, safe='')}"
    return ShownBy(label, page, outside=False, finding=finding.id)
