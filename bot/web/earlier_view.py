"""What memory knows, as the page shows it: its sentences, and the earlier investigations with
links."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.analysis.kinds.finding_details import EarlierDetails
from faultline.analysis.vocabulary import Diagnosis, Finding
from faultline.bot.answer.writer.earlier import is_memory

MAX_ROWS = 10


@dataclass(frozen=True)
class EarlierRow:
    """One earlier investigation: when, its alert, the cause it named, and whether this alert
    has it too."""

    id: str
    when: str
    alert: str
    cause: str
    outcome: str


@dataclass(frozen=True)
class EarlierView:
    """The findings that memory made, and the investigations behind them."""

    findings: tuple[Finding, ...]
    rows: tuple[EarlierRow, ...]


NOTHING_EARLIER = EarlierView((), ())


def earlier_view(diagnosis: Diagnosis) -> EarlierView:
    """The section of a diagnosis; rows that name no investigation are left out."""
    findings = tuple(f for f in diagnosis.findings if is_memory(f))
    rows: dict[str, EarlierRow] = {}
    for finding in findings:
        details = EarlierDetails.of(finding)
        for row in details.tested if details else ():
            if row.investigation:
                rows[row.investigation] = EarlierRow(
                    row.investigation, row.when, row.alert, row.cause, row.outcome
                )
    return EarlierView(findings, tuple(rows.values())[:MAX_ROWS])
