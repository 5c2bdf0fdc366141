"""What memory knows, as the page shows it: its sentences, and the earlier investigations with
links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.vocabulary import Diagnosis, Finding
from bot.answer.writer.earlier import is_memory

MAX_ROWS = 10


@dataclass(frozen=True)
class EarlierRow:
    """One earlier investigation: when, its alert, the cause it named, and whether that shows
    again."""

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
    """The section of a diagnosis; rows of another shape than ours, in a case from elsewhere, are
    left out."""
    findings = tuple(f for f in diagnosis.findings if is_memory(f))
    listed = [row for f in findings for row in _rows(f.details.get("tested"))]
    return EarlierView(findings, tuple({row.id: row for row in listed}.values())[:MAX_ROWS])


def _rows(tested: object) -> list[EarlierRow]:
    rows = tested if isinstance(tested, (list, tuple)) else ()
    return [_row(row) for row in rows if isinstance(row, Mapping) and row.get("investigation")]


def _row(row: Mapping[str, Any]) -> EarlierRow:
    texts = (row.get(name, "") for name in ("investigation", "when", "alert", "cause", "outcome"))
    return EarlierRow(*(str(text) for text in texts))
