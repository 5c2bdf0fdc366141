"""The cluster that every line names goes without saying: "in cluster-a" tells a reader
something only where an answer also speaks of another one."""

from __future__ import annotations

from faultline.analysis.phrasing.clauses import place_phrase
from faultline.analysis.vocabulary import Diagnosis, Finding

_LABELS = "labels"


def without_the_only_place(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis, without the place of its findings where all that it cites are of one."""
    cited = set(diagnosis.impact.findings)
    for cause in diagnosis.causes:
        cited.update(cause.findings)
    places = {place_phrase(finding) for finding in diagnosis.findings if finding.id in cited} - {""}
    if len(places) != 1:
        return diagnosis
    return diagnosis.model_copy(
        update={"findings": tuple(_without_place(finding) for finding in diagnosis.findings)}
    )


def _without_place(finding: Finding) -> Finding:
    if not place_phrase(finding):
        return finding
    series = {key: value for key, value in finding.series.items() if key != _LABELS}
    return finding.model_copy(update={"series": series})
