"""A claim of the built-in writer: a sentence with the findings that its parts are of."""

from __future__ import annotations

from collections.abc import Sequence

from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.phrase import Phrase
from faultline.analysis.vocabulary import Claim, Diagnosis, Finding, Section
from faultline.bot.answer.writer.quotable import quotable

CITED = 6
"""Findings cited by one sentence at most: more links than that nobody follows at night."""


def claim_of(text: Phrase, section: Section, findings: Sequence[str]) -> Claim:
    """The claim; it cites these findings and those that the phrase names."""
    ids = dict.fromkeys([*findings, *text.findings])
    return Claim(text=quotable(text.sentence), findings=tuple(ids), section=section)


def finding_claim(finding: Finding, section: Section = Section.WHY) -> Claim:
    """A finding by itself, where none is blamed."""
    return claim_of(statement(finding).clause(), section, (finding.id,))


def findings_by_id(ids: Sequence[str], diagnosis: Diagnosis) -> list[Finding]:
    """Those of the diagnosis, in the order of their ids."""
    findings = {finding.id: finding for finding in diagnosis.findings}
    return [findings[finding_id] for finding_id in ids if finding_id in findings]


def closed(text: str) -> str:
    """The text with a full stop, where it has none."""
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."


def continued(text: str) -> str:
    """A sentence that goes on behind a lead: in small letters, unless a name or an abbreviation
    begins it."""
    return f"{text[:1].lower()}{text[1:]}" if text[1:2].islower() else text
