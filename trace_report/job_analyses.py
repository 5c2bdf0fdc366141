"""Analyses that need all ranks, as rows of JSON values, ns in names that end in `_ns`."""

from __future__ import annotations

from faultline.analysis.traces.across_ranks.comparison import RankComparison
from faultline.analysis.traces.across_ranks.kernel_speed import DURATIONS, kernel_distribution
from faultline.analysis.traces.across_ranks.step_breakdown import PARTS
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
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
        INT("rank", "step", "step_ns", *(f"{part.replace(' ', '_')}_ns" for part in PARTS))
    ),
    "blame": RowTable(
        INT("rank", "blame_ns"),
        rounded(3, "blame_percent"),
        INT("last_arrivals", "steps_held_up", "steps"),
    ),
    "collectives": RowTable(OF_ALL_RANKS.columns, TEXT("split_by")),
    "exposed_collectives": RowTable(
        INT("rank"),
        TEXT("operation"),
        INT("count"),
        rounded(0, "per_step_ns", "exposed_per_step_ns"),
        rounded(2, "hidden_percent", "of_step_percent"),
    ),
    "slow_steps": RowTable(INT("step"), rounded(0, "median_ns", "usual_ns"), rounded(3, "ratio")),
    "idle_together": RowTable(
        INT("start_ns", "length_ns", "step"),
        TEXT(host_call="host"),
        INT(ranks_doing_that="hosts_alike"),
    ),
    "kernels_by_rank": DURATIONS,
    "kernel_speed": RowTable(
        INT("rank", "kernels"), rounded(4, "ratio"), rounded(2, "slower_percent")
    ),
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
