"""One finding as the page shows it: its evidence items, its recorded lines, and its details."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.vocabulary import Evidence, Finding
from bot.web.detail_tables import DetailTable, cell_text, detail_tables
from bot.web.series import can_chart
from bot.web.text import effect, words

RECORDED = ("example", "examples", "lines", "stack", "code", "source_line")
"""Details that are text as it was recorded."""
MAX_EXAMPLES = 5


@dataclass(frozen=True)
class FindingView:
    """A finding with its evidence items and what its details hold; `cited` when the answer rests on
    it."""

    finding: Finding
    effect: str | None
    evidence: tuple[Evidence, ...]
    unknown_evidence: tuple[str, ...]
    examples: tuple[str, ...]
    tables: tuple[DetailTable, ...]
    facts: tuple[tuple[str, str], ...]
    chart: bool
    cited: bool


def finding_view(finding: Finding, items: Mapping[str, Evidence], *, cited: bool) -> FindingView:
    """Arrange one finding; `items` is the case's evidence by id."""
    written = finding.details.written()
    return FindingView(
        finding=finding,
        effect=effect(finding),
        evidence=tuple(items[i] for i in finding.evidence if i in items),
        unknown_evidence=tuple(i for i in finding.evidence if i not in items),
        examples=_examples(written),
        tables=detail_tables(written, finding.subject),
        facts=_facts(finding),
        chart=can_chart(finding),
        cited=cited,
    )


def _examples(details: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for key in RECORDED:
        value = details.get(key)
        texts = value if isinstance(value, list) else [value]
        found += [text for text in texts if isinstance(text, str) and text]
    return tuple(dict.fromkeys(found))[:MAX_EXAMPLES]


def _facts(finding: Finding) -> tuple[tuple[str, str], ...]:
    """The numbers and the plain details, as name and value."""
    facts: dict[str, object] = dict(finding.numbers)
    for name, value in finding.details.written().items():
        # Recorded text is shown in full among the examples.
        is_example = name in RECORDED and isinstance(value, str)
        if isinstance(value, (str, int, float, bool)) and not is_example:
            facts[name] = value
    return tuple((words(name), cell_text(value)) for name, value in facts.items() if value != "")
