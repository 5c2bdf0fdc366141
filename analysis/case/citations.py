"""Which items of evidence a finding cites: those that its own rows came with."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.vocabulary import Evidence, Finding


def citing_own_rows(finding: Finding, evidence: Mapping[str, Evidence]) -> Finding:
    """The finding with those of its citations that may hold the rows it is about, by the service
    and the signal of its series; with all of them where none may, and where it has no series.

    `evidence` is every item by its id.
    """
    about = finding.series
    service, signal = about.get("service"), about.get("signal")
    if service is None and signal is None:
        return finding
    own = []
    for item_id in finding.evidence:
        item = evidence.get(item_id)
        # Only rows of the table that a chart of the finding shows have these names.
        if item is None or item.kind != about.get("table") or item.may_show(service, signal):
            own.append(item_id)
    shown = [evidence[one] for one in own if one in evidence]
    if not any(item.kind == about.get("table") for item in shown):
        return finding
    return finding.model_copy(update={"evidence": tuple(own)})
