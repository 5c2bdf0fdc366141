"""What memory knows, in the report: earlier causes that were tested again, and how often such
answers were right."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.analysis.analyzers import finding_kind
from faultline.analysis.case.earlier import FLEET, KIND, RECORD
from faultline.analysis.kinds.finding_details import EarlierDetails
from faultline.analysis.vocabulary import Claim, Diagnosis, Finding, Section
from faultline.bot.answer.writer.quotable import quotable


def is_memory(finding: Finding) -> bool:
    """Whether it says what memory knows, and is no evidence."""
    return finding_kind(finding.kind).is_memory


def memory_claims(diagnosis: Diagnosis) -> list[Claim]:
    """The machine that was to blame before, the first earlier cause, the record, then a second
    earlier cause; each cites the findings that show it again."""
    findings_by_id = {f.id: f for f in diagnosis.findings}
    earlier = [_claim(f, findings_by_id) for f in diagnosis.findings if f.kind == KIND]
    record = [_claim(f, findings_by_id) for f in diagnosis.findings if f.kind == RECORD]
    fleet = [_claim(f, findings_by_id) for f in diagnosis.findings if f.kind == FLEET]
    return [*fleet, *earlier[:1], *record, *earlier[1:]]


def _claim(finding: Finding, findings: Mapping[str, Finding]) -> Claim:
    details = EarlierDetails.of(finding)
    ids = [i for i in details.shows_in if i in findings] if details else []
    cited = (finding.id, *ids)
    return Claim(text=quotable(finding.sentence), findings=cited, section=Section.EARLIER)
