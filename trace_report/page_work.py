"""The page's sections about the work: idle time, kernels, operators, memory by category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultline.analysis.traces.per_rank.idle import CATEGORIES
from faultline.trace_report.job_report import JobReport
from faultline.trace_report.page_model import ReportBlock, ReportSection, section_of
from faultline.trace_report.page_parts import (
    Bars,
    ChartBar,
    Column,
    Curves,
    Segment,
    Table,
    TableCell,
    count_cell,
    ms_cell,
    number_cell,
    stacked,
    table,
    text_cell,
)
from faultline.trace_report.terminal import (
    KernelLine,
    kernel_lines,
    kernel_time,
    operator_lines,
)

MAX_BARS = 12


def idle_section(report: JobReport) -> ReportSection:
    """Idle time of each rank, and times in which all are idle at once."""
    gaps = ReportBlock(
        "Why streams are idle",
        "Gaps between pieces of work on one stream, by what they wait for.",
        bars=idle_bars(report),
    )
    sentence = "Their cause is shared: storage, checkpoint, loader."
    together = ReportBlock("All ranks idle at once", sentence, table=_idle_together(report))
    return section_of("idle", "Idle", "", (gaps, together))


def _idle_together(report: JobReport) -> Table | None:
    columns = (
        Column("ms"),
        Column("at ms", hint="from the start of the first rank's trace"),
        Column("step"),
        Column("the hosts meanwhile", "name"),
        Column("ranks doing that"),
    )
    rows = []
    if report.compared and len(report.lines) > 1:
        # Intervals are in the first rank's time.
        begin_ns = report.result.summaries[0].start_ns
        intervals = sorted(report.compared.idle.intervals, key=lambda idle: -idle.length_ns)
        for idle in intervals:
            rows.append(
                (
                    ms_cell(idle.length_ns),
                    ms_cell(idle.start_ns - begin_ns),
                    count_cell(idle.step),
                    text_cell(idle.host),
                    count_cell(idle.hosts_alike),
                )
            )
    return table(columns, rows)


def idle_bars(report: JobReport) -> Bars | None:
    """Idle time of each rank's streams: the host was late, one kernel waits for the next, or
    something else."""
    chosen = {summary.rank for summary in report.shown()}
    rows, values = {}, {}
    for result in report.result.ranks:
        rank = result.summary.rank
        idles = [row for row in result.rows.get("idle", ()) if "idle_ns" in row]
        if not idles or rank not in chosen:
            continue
        paths = []
        for category in CATEGORIES:
            idle_ns = sum(row["idle_ns"] for row in idles if row["category"] == category)
            paths.append(idle_ns / 1e6)
        rows[f"rank {rank}"] = paths
        values[f"rank {rank}"] = f"{sum(paths):,.1f} ms"
    # In the order of CATEGORIES.
    parts = {"the host is late": 8, "the kernel before": 1, "other": 7}
    return stacked(parts, rows, values, frozenset(f"rank {rank}" for rank in report.blamed))


def memory_section(report: JobReport) -> ReportSection:
    """Raw memory timelines: bytes by category."""
    blocks = []
    for number, (file, rows) in enumerate(report.result.timelines.items()):
        curves = _memory_curves(f"timeline{number}", rows)
        blocks.append(ReportBlock(text_cell(file).text, curves=curves))
    return section_of("memory", "Memory by category", "", blocks)


def _memory_curves(name: str, rows: Sequence[dict[str, Any]]) -> Curves | None:
    if not rows:
        return None
    series = []
    for key in rows[0]:
        if not key.endswith("_bytes"):
            continue
        sizes = tuple(float(row[key]) for row in rows)
        if any(sizes):
            series.append((key.removesuffix("_bytes").replace("_", " "), sizes))
    if not series:
        return None
    times = tuple((row["ts_ns"] - rows[0]["ts_ns"]) / 1e6 for row in rows)
    return Curves(name, times, "ms", "B", tuple(series), stepped=True)


def kernels_section(report: JobReport) -> ReportSection:
    """Computation kernels of all ranks, by total time."""
    kernels = kernel_lines(report.result.summaries)
    # Kernels may all have taken no time.
    whole = max(kernel_time(report.result.summaries), 1)
    columns: tuple[Column, ...] = (
        Column("kernel", "name"),
        Column("time ms"),
        Column("%"),
        Column("calls"),
        Column("median µs"),
        Column("longest µs"),
    )
    rows = [_kernel_cells(kernel, whole) for kernel in kernels]
    if len(report.lines) > 1:
        columns += (
            Column("slowest rank"),
            Column("slower by %", hint="median on that rank against the fastest rank's"),
        )
        rows = [cells + _rank_cells(kernel) for cells, kernel in zip(rows, kernels, strict=True)]
    blocks = (
        ReportBlock("Most time", bars=_kernel_bars(kernels[:MAX_BARS], whole)),
        ReportBlock("All", table=table(columns, rows, filter=len(rows) > 12)),
    )
    return section_of(
        "kernels",
        "Kernels",
        "On the device, communication included, all ranks; a kernel is its name and launch shape.",
        blocks,
    )


def _kernel_bars(kernels: Sequence[KernelLine], whole: int) -> Bars | None:
    if not kernels:
        return None
    longest = max(kernels[0].total, 1)
    bars = []
    for kernel in kernels:
        hint = f"{kernel.count:,} calls, median {kernel.median / 1e3:,.1f} µs"
        length = Segment(0, 0.0, 100 * kernel.total / longest, hint)
        value = f"{kernel.total / 1e6:,.1f} ms  {100 * kernel.total / whole:.1f} %"
        bars.append(ChartBar(text_cell(kernel.name).text, (length,), value))
    return Bars(("time",), tuple(bars), True)


def operators_section(report: JobReport) -> ReportSection:
    """Operators by their own time, for jobs in which nothing ran on a device."""
    if any(summary.has_accelerator for summary in report.result.summaries):
        return section_of("operators", "Operators", "", ())
    operators = operator_lines(report.result.summaries)[:MAX_BARS]
    sentence = "Own time on the host per step, mean over ranks."
    operator_bars: Bars | None
    # The first is the longest; where it took no time, there is nothing to draw.
    if not operators or operators[0][1] <= 0:
        operator_bars = None
    else:
        longest = operators[0][1]
        bars = []
        for name, ns in operators:
            length = Segment(0, 0.0, 100 * ns / longest, f"{ns / 1e6:,.3f} ms")
            bars.append(ChartBar(text_cell(name).text, (length,), f"{ns / 1e6:,.2f} ms"))
        operator_bars = Bars(("time",), tuple(bars), True)
    blocks = (ReportBlock("", bars=operator_bars),)
    return section_of("operators", "Operators", sentence, blocks)


def _kernel_cells(kernel: KernelLine, whole: int) -> tuple[TableCell, ...]:
    return (
        text_cell(kernel.name),
        ms_cell(kernel.total),
        number_cell(100 * kernel.total / whole),
        count_cell(kernel.count),
        number_cell(kernel.median / 1e3),
        number_cell(kernel.longest / 1e3),
    )


def _rank_cells(kernel: KernelLine) -> tuple[TableCell, ...]:
    slower = None
    if kernel.fastest_rank:
        slower = 100 * (kernel.slowest_rank / kernel.fastest_rank - 1)
    return count_cell(kernel.slowest), number_cell(slower)
