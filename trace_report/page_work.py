"""The page's sections about the work: idle time, kernels, operators, memory by category."""

from __future__ import annotations

from analysis.traces.per_rank.idle import CATEGORIES
from trace_report.job_report import JobReport
from trace_report.kernel_lines import KernelLine, kernel_lines, kernel_time, operator_lines
from trace_report.page_model import Block, Section, section_of
from trace_report.page_parts import (
    Bar,
    Bars,
    Cell,
    Column,
    Curves,
    Segment,
    count_cell,
    ms_cell,
    number_cell,
    stacked,
    table,
    text_cell,
)

MAX_BARS = 12


def idle_section(report: JobReport) -> Section:
    """Idle time of each rank, and times in which all are idle at once."""
    compared = report.compared
    together = compared.idle.intervals if compared and len(report.lines) > 1 else ()
    first = report.result.summaries[0]
    columns = (
        Column("ms"),
        Column("at ms", hint="from the start of the first rank's trace"),
        Column("step"),
        Column("the hosts meanwhile", "name"),
        Column("ranks doing that"),
    )
    rows = [
        (
            ms_cell(i.length_ns),
            ms_cell(i.start_ns - first.start_ns),
            count_cell(i.step),
            text_cell(i.host),
            count_cell(i.hosts_alike),
        )
        for i in sorted(together, key=lambda i: -i.length_ns)
    ]
    lead = "Their cause is shared: storage, checkpoint, loader."
    blocks = (
        Block(
            "Why streams are idle",
            "Gaps between pieces of work on one stream, by what they wait for.",
            bars=idle_bars(report),
        ),
        Block("All ranks idle at once", lead, table=table(columns, rows)),
    )
    return section_of("idle", "Idle", "", blocks)


def idle_bars(report: JobReport) -> Bars | None:
    """Idle time of each rank's streams: the host was late, one kernel waits for the next, or
    something else."""
    chosen = {s.rank for s in report.shown()}
    rows, values = {}, {}
    for result in report.result.ranks:
        found = [row for row in result.rows.get("idle", ()) if "idle_ns" in row]
        if found and result.summary.rank in chosen:
            label = f"rank {result.summary.rank}"
            own = [sum(r["idle_ns"] for r in found if r["category"] == c) / 1e6 for c in CATEGORIES]
            rows[label], values[label] = own, f"{sum(own):,.1f} ms"
    parts = {"the host is late": 8, "the kernel before": 1, "other": 7}
    return stacked(parts, rows, values, frozenset(f"rank {rank}" for rank in report.blamed))


def memory_section(report: JobReport) -> Section:
    """Raw memory timelines: bytes by category."""
    blocks = []
    for number, (file, rows) in enumerate(report.result.timelines.items()):
        keys = (
            [k for k in rows[0] if k.endswith("_bytes") and any(row[k] for row in rows)]
            if rows
            else []
        )
        series = [
            (k.removesuffix("_bytes").replace("_", " "), tuple(float(row[k]) for row in rows))
            for k in keys
        ]
        x = tuple((row["ts_ns"] - rows[0]["ts_ns"]) / 1e6 for row in rows)
        curves = (
            Curves(f"timeline{number}", x, "ms", "B", tuple(series), stepped=True)
            if series
            else None
        )
        blocks.append(Block(text_cell(file).text, curves=curves))
    return section_of("memory", "Memory by category", "", blocks)


def kernels_section(report: JobReport) -> Section:
    """Computation kernels of all ranks, by total time."""
    kernels = kernel_lines(report.result.summaries)
    whole = max(kernel_time(report.result.summaries), 1)  # kernels may all have taken no time
    longest = max(kernels[0].total, 1) if kernels else 1
    bars = tuple(
        Bar(
            text_cell(k.name).text,
            (
                Segment(
                    0,
                    0.0,
                    100 * k.total / longest,
                    f"{k.count:,} calls, median {k.median / 1e3:,.1f} µs",
                ),
            ),
            f"{k.total / 1e6:,.1f} ms  {100 * k.total / whole:.1f} %",
        )
        for k in kernels[:MAX_BARS]
    )
    columns = (
        Column("kernel", "name"),
        Column("time ms"),
        Column("%"),
        Column("calls"),
        Column("median µs"),
        Column("longest µs"),
        Column("slowest rank"),
        Column("slower by %", hint="median on that rank against the fastest rank's"),
    )
    many = len(report.lines) > 1
    rows = [_kernel_cells(k, whole)[: 8 if many else 6] for k in kernels]
    blocks = (
        Block("Most time", bars=Bars(("time",), bars, True) if bars else None),
        Block("All", table=table(columns[: 8 if many else 6], rows, filter=len(rows) > 12)),
    )
    return section_of(
        "kernels",
        "Kernels",
        "Computation on the device, all ranks; a kernel is its name and launch shape.",
        blocks,
    )


def operators_section(report: JobReport) -> Section:
    """Operators by their own time, for jobs in which nothing ran on a device."""
    if any(s.has_accelerator for s in report.result.summaries):
        return section_of("operators", "Operators", "", ())
    operators = operator_lines(report.result.summaries)[:MAX_BARS]
    longest = operators[0][1] if operators else 0
    bars = tuple(
        Bar(
            text_cell(name).text,
            (Segment(0, 0.0, 100 * ns / longest, f"{ns / 1e6:,.3f} ms"),),
            f"{ns / 1e6:,.2f} ms",
        )
        for name, ns in operators
        if longest > 0
    )
    lead = "Own time on the host per step, mean over ranks."
    return section_of(
        "operators",
        "Operators",
        lead,
        (Block("", bars=Bars(("time",), bars, True) if bars else None),),
    )


def _kernel_cells(k: KernelLine, whole: int) -> tuple[Cell, ...]:
    slower = 100 * (k.slowest_rank / k.fastest_rank - 1) if k.fastest_rank else None
    return (
        text_cell(k.name),
        ms_cell(k.total),
        number_cell(100 * k.total / whole),
        count_cell(k.count),
        number_cell(k.median / 1e3),
        number_cell(k.longest / 1e3),
        count_cell(k.slowest),
        number_cell(slower),
    )
