"""Analyses that need all ranks, as rows of JSON values, ns in names that end in `_ns`."""

from __future__ import annotations

from analysis.traces.across_ranks.comparison import RankComparison
from analysis.traces.across_ranks.kernel_speed import kernel_distribution
from analysis.traces.across_ranks.wait_transfer import rows_of
from trace_report.registry import Rows

ACROSS_RANKS: dict[str, str] = {
    "steps_by_rank": "where each step of each rank goes, communication told apart into waiting "
    "and transfer",
    "blame": "how long the others wait for each rank",
    "collectives": "collectives by operation, group and size: waiting, transfer, bandwidth",
    "exposed_collectives": "collectives of each rank that no computation hides",
    "slow_steps": "steps that are longer than the others",
    "idle_together": "times in which all ranks are idle at once",
    "kernels_by_rank": "durations of the kernels with the most time on each rank",
    "kernel_speed": "how fast each rank's device runs the same kernels",
}


def job_analyses(compared: RankComparison) -> dict[str, Rows]:
    """All of ACROSS_RANKS, with all their rows."""
    return {
        "steps_by_rank": _steps(compared),
        "blame": _blame(compared),
        "collectives": rows_of(compared.collectives),
        "exposed_collectives": _exposed(compared),
        "slow_steps": _slow_steps(compared),
        "idle_together": _idle(compared),
        "kernels_by_rank": kernel_distribution(compared.job.ranks),
        "kernel_speed": _speeds(compared),
    }


def _steps(compared: RankComparison) -> Rows:
    rows = []
    for steps in compared.steps:
        lengths, numbers = steps.length.tolist(), steps.number.tolist()
        columns = {
            f"{part.replace(' ', '_')}_ns": values.tolist() for part, values in steps.parts.items()
        }
        for i, (number, length) in enumerate(zip(numbers, lengths, strict=True)):
            own = {name: values[i] for name, values in columns.items()}
            rows.append({"rank": steps.rank, "step": number, "step_ns": length, **own})
    return rows


def _blame(compared: RankComparison) -> Rows:
    if compared.why_not is not None:
        return []
    return [
        {
            "rank": b.rank,
            "blame_ns": b.blame_ns,
            "blame_percent": round(100 * b.share, 3),
            "last_arrivals": b.last_arrivals,
            "steps_held_up": b.steps_blamed,
            "steps": compared.blame.step_count,
        }
        for b in compared.blame.ranks
    ]


def _exposed(compared: RankComparison) -> Rows:
    return [
        {
            "rank": e.rank,
            "operation": e.operation,
            "count": e.count,
            "per_step_ns": round(e.total),
            "exposed_per_step_ns": round(e.exposed),
            "hidden_percent": round(e.hidden_percent, 2),
            "of_step_percent": round(100 * e.step_share, 2),
        }
        for own in compared.exposures
        for e in own
    ]


def _slow_steps(compared: RankComparison) -> Rows:
    return [
        {
            "step": s.step,
            "median_ns": round(s.median_ns),
            "usual_ns": round(s.usual_ns),
            "ratio": round(s.ratio, 3),
        }
        for s in compared.outlier_steps
    ]


def _idle(compared: RankComparison) -> Rows:
    return [
        {
            "start_ns": i.start_ns,
            "length_ns": i.length_ns,
            "step": i.step,
            "host_call": i.host,
            "ranks_doing_that": i.hosts_alike,
        }
        for i in sorted(compared.idle.intervals, key=lambda i: -i.length_ns)
    ]


def _speeds(compared: RankComparison) -> Rows:
    return [
        {
            "rank": s.rank,
            "kernels": s.kernels,
            "ratio": round(s.ratio, 4),
            "slower_percent": round(100 * s.slower_share, 2),
        }
        for s in compared.speeds
    ]
