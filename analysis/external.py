"""What tools outside said: text that nobody here weighs, as findings that accuse nobody.

The evidence's kind is `external`. A finding cites the call and holds the first words, so that an
answer can show them; the whole of it is in the case.
"""

from __future__ import annotations

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.kinds.finding_kinds import FindingKind
from faultline.analysis.vocabulary import Evidence, EvidenceKind, Finding
from faultline.analysis.wording.phrases import plain

KIND: EvidenceKind = "external"
RESULT = "result"
"""The part of an item's details that holds the text."""
STRENGTH = 0.05
"""Below every finding that was measured."""
MOST = 20
QUOTED = 300
EXTERNAL_REPORT = FindingKind(
    "external_report",
    how="What a tool outside answered, quoted. Nothing weighs it",
    details=ObservationDetails,
    tables=("external",),
    label="said by a tool",
    always_listed=True,
)


def external_reports(case: Case) -> list[Finding]:
    """One finding for each result, in the order of the evidence, at most twenty."""
    findings = []
    for item in case.evidence:
        text = item.details.get(RESULT, "").strip()
        if item.kind == KIND and text:
            findings.append(_finding(item, text))
    return findings[:MOST]


def _finding(item: Evidence, text: str) -> Finding:
    tool = plain(item.query.partition(" ")[0], 60)
    # The words stand in the details: a number in them is no number that code established.
    return Finding(
        id="",
        kind=EXTERNAL_REPORT.name,
        subject=plain(item.source, 60),
        strength=STRENGTH,
        sentence=f"{plain(item.source, 60)} answered a call of {tool}.",
        evidence=(item.id,),
        details=ObservationDetails(about=KIND, quote=plain(text, QUOTED)),
    )


ANALYZER = Analyzer(external_reports, kinds=(EXTERNAL_REPORT,))
