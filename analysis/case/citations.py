"""Which items of evidence a finding cites: those that its own rows came with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.tables import ORIGIN
from faultline.analysis.vocabulary import Evidence, Finding

_Rows = tuple[str, str | None, str | None]
"""Table, service, and of spans the operation; None for all operations."""


def citing_matching_rows(findings: Iterable[Finding], case: Case) -> list[Finding]:
    """Each finding with those of its citations that may hold the rows it is about, by the service
    and the signal of its series, by the change, and by what its log lines and spans say of where
    they are from; with all of them where none may, and where it has no series.

    What reaches into the incident comes first, because an answer links to the first.
    """
    citations: _Citations | None = case.derived.get("citations")
    if citations is None:
        since = case.scope.incident.start
        places: dict[str, int] = {}
        for number, item in enumerate(case.evidence):
            is_before = item.window is not None and item.window.end <= since
            places[item.id] = number + len(case.evidence) * is_before
        citations = _Citations({item.id: item for item in case.evidence}, places)
        for table, by in (("logs", ["service"]), ("spans", ["service", "operation"])):
            # Of a single item there is nothing to choose.
            if len(case.evidence_ids(table)) > 1:
                _add_rows(citations.origins, table, getattr(case, table), by)
        case.derived["citations"] = citations
    return [citations.narrow(finding) for finding in findings]


@dataclass
class _Citations:
    """The items of a case, and which of them brought whose log lines and spans."""

    items: Mapping[str, Evidence]
    places: Mapping[str, int]
    """Where each item stands among the others, those of the baseline alone behind them."""
    origins: dict[_Rows, set[str | None]] = field(default_factory=dict)
    """None stands for rows that do not say where they are from."""

    def narrow(self, finding: Finding) -> Finding:
        """The finding with the citations of its own rows."""
        about = finding.series
        if not {"service", "signal"} & set(about) and about.get("table") != "changes":
            return finding
        # Rows of a folder that somebody wrote may name items that are not there.
        evidence = [item_id for item_id in finding.evidence if item_id in self.items]
        matching_evidence = [
            item_id for item_id in evidence if self._may_hold(self.items[item_id], about)
        ]
        if not any(self.items[item_id].kind == about.get("table") for item_id in matching_evidence):
            matching_evidence = evidence
        matching_evidence.sort(key=lambda item_id: self.places.get(item_id, 0))
        return finding.model_copy(update={"evidence": tuple(matching_evidence)})

    def _may_hold(self, item: Evidence, about: Mapping[str, str]) -> bool:
        # Only rows of the table that a chart of the finding shows have these names.
        if item.kind != about.get("table"):
            return True
        service = about.get("service")
        origin = self.origins.get((item.kind, service, about.get("operation")))
        if origin:
            # A row that several queries brought is that of the first.
            return item.id in origin or (None in origin and item.services is None)
        change = about.get("id") if item.kind == "changes" else None
        return item.may_show(service, about.get("signal"), change)


def _add_rows(
    origins: dict[_Rows, set[str | None]], table: str, rows: pl.DataFrame, by: Sequence[str]
) -> None:
    if rows[ORIGIN].null_count() == rows.height:
        return
    for service, *operation, item_id in rows.select(*by, ORIGIN).unique().iter_rows():
        origins.setdefault((table, service, None), set()).add(item_id)
        for name in operation:
            origins.setdefault((table, service, name), set()).add(item_id)
