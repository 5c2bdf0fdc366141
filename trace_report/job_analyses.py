"""Analyses that need all ranks, as rows of JSON values, ns in names that end in `_ns`."""

from __future__ import annotations

from faultline.analysis.traces.across_ranks.comparison import RankComparison
from faultline.analysis.traces.across_ranks.kernel_speed import DURATIONS, kernel_distribution
from faultline.analysis.traces.across_ranks.step_breakdown import PARTS
from faultline.analysis.traces.columns.row_table import Rows, RowTable
from faultline.analysis.traces.per_rank.collective_bandwidth import OF_ALL_RANKS

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


TABLES: dict[str, RowTable] = {
    "steps_by_rank": RowTable(
        "rank:int step:int step_ns:int "
        + " ".join(f"{part.replace(' ', '_')}_ns:int" for part in PARTS)
    ),
    "blame": RowTable(
        "rank:int blame_ns:int blame_percent:3 last_arrivals:int steps_held_up:int steps:int"
    ),
    "collectives": RowTable(OF_ALL_RANKS.columns + " split_by:text"),
    "exposed_collectives": RowTable(
        "rank:int operation:text count:int per_step_ns:0 exposed_per_step_ns:0 "
        "hidden_percent:2 of_step_percent:2"
    ),
    "slow_steps": RowTable("step:int median_ns:0 usual_ns:0 ratio:3"),
    "idle_together": RowTable(
        "start_ns:int length_ns:int step:int host_call:text=host ranks_doing_that:int=hosts_alike"
    ),
    "kernels_by_rank": DURATIONS,
    "kernel_speed": RowTable("rank:int kernels:int ratio:4 slower_percent:2"),
}


def job_analyses(compared: RankComparison) -> dict[str, Rows]:
    """All of ACROSS_RANKS, with all their rows."""
    longest = sorted(compared.idle.intervals, key=lambda i: -i.length_ns)
    rows = []
    for steps in compared.steps:
        parts = [steps.parts[part].tolist() for part in PARTS]
        columns = (steps.number.tolist(), steps.length.tolist(), *parts)
        rows += [(steps.rank, *values) for values in zip(*columns, strict=True)]
    if compared.why_not is not None:
        # Where ranks do not compare, nobody is blamed.
        blame = []
    else:
        whole = compared.blame.step_count
        blame = TABLES["blame"].of(
            (b.rank, b.blame_ns, 100 * b.share, b.last_arrivals, b.steps_blamed, whole)
            for b in compared.blame.ranks
        )
    return {
        "steps_by_rank": TABLES["steps_by_rank"].of(rows),
        "blame": blame,
        "collectives": _collectives(compared),
        "exposed_collectives": _exposed(compared),
        "slow_steps": TABLES["slow_steps"].rows(compared.outlier_steps),
        "idle_together": TABLES["idle_together"].rows(longest),
        "kernels_by_rank": kernel_distribution(compared.job.ranks),
        "kernel_speed": _speeds(compared),
    }


def _collectives(compared: RankComparison) -> Rows:
    table = compared.collectives
    return [row | {"split_by": table.by} for row in OF_ALL_RANKS.rows(table.rows)]


def _exposed(compared: RankComparison) -> Rows:
    return TABLES["exposed_collectives"].of(
        (e.rank, e.operation, e.count, e.total, e.exposed, e.hidden_percent, 100 * e.step_share)
        for exposure in compared.exposures
        for e in exposure
    )


def _speeds(compared: RankComparison) -> Rows:
    return TABLES["kernel_speed"].of(
        (s.rank, s.kernels, s.ratio, 100 * s.slower_share) for s in compared.speeds
    )
