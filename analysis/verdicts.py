"""What the investigation may conclude, and how sure it may be.

- `insufficient_evidence`: too little was seen to say anything: no signal could be compared with a baseline, the
  alerting service is in no table, or its signal moved and nothing clear enough explains it.
- `no_active_incident`: signals were compared, the alerting one too where it is known, and none left its baseline.
- `recovered`: something left its baseline and the alerting signal is back; causes are still listed.
- `cause_found`: otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from analysis.case_folder import Case
from analysis.explanations import TRAINING
from analysis.recovery import PERSISTS, AlertState
from analysis.vocabulary import Cause, Finding, Verdict
from analysis.windows import log_windows, metric_windows, span_windows
from analysis.wording import plain

WEAK = 0.25
"""Below this the first suspect is not told from noise."""
QUIET = 0.75
"""Confidence in "nothing is wrong" when the alerting signal itself was seen; half of it otherwise."""
DISPUTED = 0.6
HEALTHY, INCONCLUSIVE = "training_healthy", "traces_inconclusive"
HOW_TO_GET = {
    "metrics": "metrics of the affected services over the incident and a baseline before it",
    "logs": "logs of the affected services over the incident and a baseline before it",
    "spans": "spans of the affected requests over the incident and a baseline before it",
}


@dataclass(frozen=True)
class Conclusion:
    """Verdict, confidence in it, and for insufficient evidence what is missing."""

    verdict: Verdict
    confidence: float
    missing: tuple[str, ...] = ()


def conclude(
    case: Case, causes: Sequence[Cause], findings: Sequence[Finding], state: AlertState, top: float
) -> Conclusion:
    """The verdict by the rules above; `top` is the first suspect's score."""
    compared = comparable(case) | ({"traces"} if case.trace_files and findings else set())
    strong = top >= WEAK and bool(causes)
    if not compared and not strong:
        return Conclusion(Verdict.INSUFFICIENT_EVIDENCE, 0.0, missing_evidence(case, compared, findings))
    clear = any(f.strength >= PERSISTS for f in state.findings)
    if causes and (strong or clear) and state.recovered:
        return Conclusion(Verdict.RECOVERED, causes[0].confidence)
    if state.never_left and not _disputed(case, findings):
        return Conclusion(Verdict.NO_ACTIVE_INCIDENT, QUIET)
    if strong:
        return Conclusion(Verdict.CAUSE_FOUND, causes[0].confidence)
    if any(f.kind == HEALTHY for f in findings) and not state.findings:
        return Conclusion(Verdict.NO_ACTIVE_INCIDENT, QUIET / 2)
    unseen = (case.alert.signal and not state.known) or not service_seen(case)
    if case.gaps or unseen or (state.findings and not state.recovered) or "metrics" not in compared:
        return Conclusion(Verdict.INSUFFICIENT_EVIDENCE, 0.0, missing_evidence(case, compared, findings))
    return Conclusion(Verdict.NO_ACTIVE_INCIDENT, QUIET / 2)


def comparable(case: Case) -> set[str]:
    """The tables that have rows in both the baseline and the incident window."""
    tables = {
        "metrics": (case.metrics.filter(pl.col("value").is_finite()), metric_windows, "time"),
        "logs": (case.logs, log_windows, "time"),
        "spans": (case.spans, span_windows, "start"),
    }
    found = set()
    for name, (table, windows_of, time) in tables.items():
        if table.height:
            windows = windows_of(case)
            seen = table.select(windows.in_baseline(time).any().alias("a"), windows.in_search(time).any().alias("b"))
            if all(seen.row(0)):
                found.add(name)
    return found


def service_seen(case: Case) -> bool:
    """Whether any row that was collected is about the alerting service; true for an alert that names none."""
    service = case.alert.service
    if service is None or case.trace_files:
        return True
    return any((table["service"] == service).any() for table in (case.metrics, case.logs, case.spans))


def missing_evidence(case: Case, compared: set[str], findings: Sequence[Finding] = ()) -> tuple[str, ...]:
    """What would be needed, one sentence each; gaps with their reasons first."""
    said = [f"{g.kind} from {plain(g.source)} are missing: {plain(g.reason, 160)}." for g in case.gaps]
    said += [
        f"{f.sentence.rstrip('.')}. {f.details.get('fix', '')}".rstrip() for f in findings if f.kind == INCONCLUSIVE
    ]
    if compared and not service_seen(case):
        said.append(f"Nothing that was collected is about {plain(case.alert.service or '')}, which alerts.")
    named = {g.kind for g in case.gaps}
    wanted = {k: text for k, text in HOW_TO_GET.items() if k != "spans" or not case.trace_files}
    said += [f"Needed: {text}." for kind, text in wanted.items() if kind not in compared and kind not in named]
    if not case.scope.baseline and not compared:
        said.append("Needed: a baseline window from before the incident.")
    return tuple(said)


def _disputed(case: Case, findings: Sequence[Finding]) -> bool:
    """The alerting signal is calm, yet something is clearly wrong: then the alert's name for it may differ."""
    return any(
        f.strength >= DISPUTED and (f.details.get("bad") or f.kind in TRAINING) and not f.details.get("recovered")
        for f in findings
    )
