"""What was checked for a case on request, observations.json: series, logs or spans that somebody
asked for.

An observation is computed by code, as a finding is, and may be cited. It never weighs in ranking,
verdict or confidence: it is added to the findings after all of that is settled.
"""

from __future__ import annotations

from faultline.analysis.kinds.finding_kinds import OBSERVATION
from faultline.analysis.vocabulary import Finding, Frozen

OBSERVATIONS_FILE = "observations.json"
KIND = OBSERVATION.name
"""Kind of the findings that say what was looked at on request."""
MAX_OBSERVATIONS = 1000
"""25 calls of 40 rows. A row is about 700 bytes of JSON, so the file stays below 1 MB; only rows
that an answer cites are kept with the case."""


class Observations(Frozen):
    """With their own ids: L1, L2, ..."""

    findings: tuple[Finding, ...] = ()


def observed(observations: Observations) -> tuple[Finding, ...]:
    """Its findings, as they may stand beside the others: none has the strength to accuse."""
    findings = []
    for finding in observations.findings[:MAX_OBSERVATIONS]:
        # The file may have been written by hand: an id such as F1 would hide a finding.
        if finding.kind == KIND and finding.id.startswith("L"):
            findings.append(finding.model_copy(update={"strength": 0.0}))
    return tuple(findings)
