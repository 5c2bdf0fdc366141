"""One finding as the page shows it: its evidence items, its recorded lines, and its details."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from faultline.analysis.vocabulary import Evidence, Finding
from faultline.analysis.wording.amounts import unit_of
from faultline.bot.answer.lines import SHOWN_BY
from faultline.bot.web.detail_quantities import quantity_of, value_text
from faultline.bot.web.detail_tables import DetailTable, detail_tables
from faultline.bot.web.series import can_chart

RECORDED = ("example", "examples", "lines", "stack", "code", "source_line")
"""Details that are text as it was recorded."""
MAX_EXAMPLES = 5
INTERNAL = frozenset(
    {
        "agreement",
        "bearing",
        "class",
        "direction",
        "is_error",
        "own",
        "place",
        "quiet_share",
        "signature",
        "sigmas",
    }
)
"""Details that later steps of the analysis read, and that say nothing to people."""
OF_THE_SIGNAL = ("baseline", "incident", "threshold")
"""Numbers in the unit of the finding's signal."""


@dataclass(frozen=True)
class FindingView:
    """A finding with its evidence items and what its details hold."""

    finding: Finding
    shown_by: str
    """What a reader finds behind it: "graph", "logs", "change"."""
    evidence: tuple[Evidence, ...]
    unknown_evidence: tuple[str, ...]
    examples: tuple[str, ...]
    tables: tuple[DetailTable, ...]
    facts: tuple[tuple[str, str], ...]
    chart: bool


def finding_view(finding: Finding, items: Mapping[str, Evidence]) -> FindingView:
    """Arrange one finding; `items` is the case's evidence by id."""
    written = finding.details.written()
    evidence = tuple(items[i] for i in finding.evidence if i in items)
    examples: list[str] = []
    for key in RECORDED:
        value = written.get(key)
        texts = value if isinstance(value, list) else [value]
        examples += [text for text in texts if isinstance(text, str) and text]
    return FindingView(
        finding=finding,
        shown_by=SHOWN_BY.get(evidence[0].kind, "evidence") if evidence else "finding",
        evidence=evidence,
        unknown_evidence=tuple(i for i in finding.evidence if i not in items),
        examples=tuple(dict.fromkeys(examples))[:MAX_EXAMPLES],
        tables=detail_tables(written, finding.subject),
        facts=_facts(finding),
        chart=can_chart(finding),
    )


def _facts(finding: Finding) -> tuple[tuple[str, str], ...]:
    """The numbers and the plain details, as name and value."""
    facts: dict[str, object] = dict(finding.numbers)
    written = finding.details.written()
    for name, value in written.items():
        # Recorded text is shown in full among the examples.
        is_example = name in RECORDED and isinstance(value, str)
        is_plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if is_plain and not is_example and name not in INTERNAL:
            facts[name] = value
    shown = []
    for name, fact in facts.items():
        quantity = quantity_of(name, [fact])
        if name in OF_THE_SIGNAL and finding.signal:
            unit = unit_of(finding.signal, _text(written.get("unit")))
            quantity = replace(quantity, unit=unit)
        if fact != "":
            shown.append((quantity.label, value_text(fact, quantity)))
    return tuple(shown)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
