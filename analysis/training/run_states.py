"""Training runs that ended, or fell silent, during the incident or its baseline."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import RunStateDetails
from faultline.analysis.kinds.finding_kinds import RUN_ENDED
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import plain

RUN_MONITOR = "training run "
"""How a connector names the monitor of a run's state, before the run's name."""
ENDED = {
    "crashed": "stopped sending heartbeats without ending properly (crashed)",
    "failed": "ended with an error (failed)",
    "killed": "was stopped before it was done (killed)",
    "silent": "says that it is running, but has sent no heartbeat",
}
"""States that say something went wrong, in words (wandb's:
docs.wandb.ai/models/runs/run-states)."""
STRENGTH = {"crashed": 0.7, "failed": 0.7, "silent": 0.6, "killed": 0.4}
"""A killed run was mostly stopped by a person, so it weighs less. The figures are assumptions."""
KIND = RUN_ENDED.name
MAX_RUNS = 20
GRACE = timedelta(minutes=10)
"""A service calls a run crashed some minutes after its last heartbeat, and the alert may come
before it."""


def run_states(case: Case) -> list[Finding]:
    """One finding per run that ended badly between the beginning of the baseline and the end of the
    incident."""
    if not case.monitors.height:
        return []
    is_run = pl.col("monitor").str.starts_with(RUN_MONITOR)
    has_ended = pl.col("state").is_in(list(ENDED))
    rows = case.monitors.filter(is_run, has_ended).sort("since", "monitor")
    findings = []
    for row in rows.iter_rows(named=True):
        since = row["since"]
        incident = case.scope.incident
        if since - incident.end > GRACE:
            is_in_case = False
        else:
            begins = [window.start for window in case.scope.baseline]
            # Without a baseline only a run that ended about now belongs to this alert.
            is_in_case = since >= min(begins) if begins else incident.start - since <= GRACE
        if is_in_case:
            findings.append(
                _finding(case, row["monitor"], row["service"], row["state"], row["since"])
            )
    return findings[:MAX_RUNS]


ANALYZER = Analyzer(run_states, kinds=(RUN_ENDED,))


def _finding(case: Case, monitor: str, service: str | None, state: str, since: datetime) -> Finding:
    name = plain(monitor.removeprefix(RUN_MONITOR), 60)
    seconds = (case.scope.incident.end - since).total_seconds()
    numbers: dict[str, float] = {}
    sentence = f"The run {name} {ENDED[state]}"
    # Below a minute the end is as good as the moment of collecting.
    if seconds >= 60:
        minutes = round(seconds / 60)
        numbers["minutes"] = float(minutes)
        sentence += f", {minutes} min before the evidence was collected"
    return Finding(
        id="",
        kind=KIND,
        subject=service or name,
        signal="run state",
        onset=since,
        strength=STRENGTH[state],
        sentence=sentence + ".",
        numbers=numbers,
        evidence=case.evidence_ids("monitors"),
        details=RunStateDetails(
            state=state,
            run=name,
            fix="Read the last lines of the run's output and its exit code; then its memory and "
            "the "
            "node's events.",
        ),
    )
