"""What an answer says, each sentence with links to what shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from faultline.analysis.vocabulary import Claim, Finding
from faultline.bot.answer.lines import LINKS_PER_LINE, SHOWN_BY
from faultline.bot.answer.view import AnswerView
from faultline.bot.web.text import safe_href

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
    for claim in answer.next_steps:
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
