"""Training runs that ended, or fell silent, in the time that is looked at."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from analysis.case.folder import Case
from analysis.kinds.finding_details import RunStateDetails
from analysis.kinds.finding_kinds import RUN_ENDED, Analyzer
from analysis.vocabulary import Finding
from analysis.wording.phrases import plain

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
"""A killed run was mostly stopped by a person (own)."""
KIND = RUN_ENDED.name
GRACE = timedelta(minutes=10)
"""A service calls a run crashed some minutes after its last heartbeat, and the alert may come
before it."""


def run_states(case: Case) -> list[Finding]:
    """One finding per run that ended badly between the beginning of the baseline and the end of the
    incident."""
    if not case.monitors.height:
        return []
    rows = case.monitors.filter(
        pl.col("monitor").str.starts_with(RUN_MONITOR) & pl.col("state").is_in(list(ENDED))
    ).sort("since", "monitor")
    incident = case.scope.incident
    first = min((w.start for w in case.scope.baseline), default=None)
    found = [
        _finding(case, row["monitor"], row["service"], row["state"], row["since"])
        for row in rows.iter_rows(named=True)
        if (first <= row["since"] if first else incident.start - row["since"] <= GRACE)
        and row["since"] - incident.end <= GRACE
    ]
    return found[:20]


ANALYZER = Analyzer(run_states, kinds=(RUN_ENDED,))


def _finding(case: Case, monitor: str, service: str | None, state: str, since: datetime) -> Finding:
    name = plain(monitor.removeprefix(RUN_MONITOR), 60)
    early = (case.scope.incident.end - since).total_seconds()
    numbers = {"minutes": round(early / 60)} if early >= 60 else {}
    ago = f", {numbers['minutes']} min before the evidence was collected" if numbers else ""
    return Finding(
        id="",
        kind=KIND,
        subject=service or name,
        signal="run state",
        onset=since,
        strength=STRENGTH[state],
        sentence=f"The run {name} {ENDED[state]}{ago}.",
        numbers={k: float(v) for k, v in numbers.items()},
        evidence=case.evidence_ids("monitors"),
        details=RunStateDetails(
            state=state,
            run=name,
            fix="Read the last lines of the run's output and its exit code; then its memory and "
            "the "
            "node's events.",
        ),
    )
