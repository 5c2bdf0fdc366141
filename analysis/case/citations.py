"""Which items of evidence a finding cites: those that its own rows came with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from analysis.vocabulary import Evidence, Finding


def citing_own_rows(findings: Iterable[Finding], evidence: Iterable[Evidence]) -> list[Finding]:
    """Each finding with those of its citations that may hold the rows it is about, by the service
    and the signal of its series, or by the change; with all of them where none may, and where it
    has no series.

    `evidence` is every item of the case.
    """
    items = {item.id: item for item in evidence}
    return [_citing_own_rows(finding, items) for finding in findings]


def _citing_own_rows(finding: Finding, evidence: Mapping[str, Evidence]) -> Finding:
    about = finding.series
    service, signal = about.get("service"), about.get("signal")
    change = about.get("id") if about.get("table") == "changes" else None
    if service is None and signal is None and change is None:
        return finding
    own = []
    for item_id in finding.evidence:
        item = evidence.get(item_id)
        # Only rows of the table that a chart of the finding shows have these names.
        is_own_kind = item is not None and item.kind == about.get("table")
        if item is None or not is_own_kind or item.may_show(service, signal, change):
            own.append(item_id)
    shown = [evidence[one] for one in own if one in evidence]
    if not any(item.kind == about.get("table") for item in shown):
        return finding
    return finding.model_copy(update={"evidence": tuple(own)})
