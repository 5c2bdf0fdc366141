"""The page's sections about all ranks: the table, where each step goes, overlap, kernels."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.traces.rank_summary import RankSummary
from bot.traces.job_report import JobReport
from bot.traces.kernel_lines import KernelLine, kernel_lines
from bot.traces.page_model import Block, Section
from bot.traces.page_parts import (
    Bar,
    Bars,
    Cell,
    Column,
    Curves,
    Segment,
    Table,
    count_cell,
    ms_cell,
    number_cell,
    stacked,
    table,
    text_cell,
)

PART_COLOURS = {
    "backward pass": 0,
    "forward pass": 1,
    "optimizer": 2,
    "communication wait": 4,
    "communication transfer": 3,
    "data loading": 5,
    "copies": 6,
    "idle": 7,
    "other": 8,
}
"""Colours of a step's parts in the style sheet."""
MAX_BARS = 32
MAX_CURVES = 8
MAX_KERNEL_BARS = 12


def job_sections(report: JobReport) -> tuple[Section, ...]:
    """The sections that have something to show."""
    if not report.lines:
        return tuple(s for s in (memory_section(report),) if s.blocks)
    found = [
        ranks_section(report),
        communication_section(report),
        idle_section(report),
        kernels_section(report),
        memory_section(report),
    ]
    return tuple(s for s in found if s.blocks)


def ranks_section(report: JobReport) -> Section:
    """The table of ranks, the stacked step of each, the length of each step."""
    blocks = (
        Block("", table=ranks_table(report)),
        Block("A step of each rank, by what it goes to", bars=step_bars(report), note=_bars_note(report)),
        Block("Length of each step", curves=step_curves(report)),
    )
    return _section("ranks", "Ranks", report.how_ranks_were_told.capitalize() + ".", blocks)


def ranks_table(report: JobReport) -> Table | None:
    """One row per rank; ranks that a diagnosis names are marked."""
    columns = [
        Column("rank"),
        Column("step ms", hint="mean length of a step"),
        Column("compute %", hint="computation runs"),
        Column("comm %", hint="communication runs"),
        Column("exposed %", hint="communication runs, and no computation"),
        Column("idle %", hint="nothing runs on the device"),
        Column("data ms", hint="data loading, per step"),
        Column("wait ms", hint="in collectives, before the last rank had come, per step"),
        Column("blame %", hint="of a step that the others wait for this rank"),
        Column("host", ""),
        Column("file", "name"),
    ]
    rows = [
        (
            count_cell(r.rank),
            number_cell(r.step_ms if r.step_ms is not None else r.window_ms, 2),
            number_cell(r.compute_percent),
            number_cell(r.communication_percent),
            number_cell(r.exposed_communication_percent),
            number_cell(r.idle_percent),
            number_cell(r.data_ms, 2),
            number_cell(r.wait_ms, 2),
            number_cell(r.blame_percent),
            text_cell(r.host or ""),
            text_cell(r.file),
        )
        for r in report.lines
    ]
    kept = [i for i in range(len(columns)) if any(row[i].text not in ("–", "") for row in rows)]
    marked = frozenset(i for i, r in enumerate(report.lines) if r.rank in report.blamed)
    return table([columns[i] for i in kept], [[row[i] for i in kept] for row in rows], marked=marked)


def step_bars(report: JobReport) -> Bars | None:
    """The mean step of each rank, stacked."""
    wanted = {s.rank for s in _shown(report)}
    parts = {rank: own for rank, own in report.step_parts.items() if rank in wanted and own}
    if not parts:
        return None
    used = [part for part in next(iter(parts.values())) if any(own[part] > 0 for own in parts.values())]
    rows = {f"rank {rank}": [own[part] for part in used] for rank, own in parts.items()}
    values = {label: f"{sum(row):,.1f} ms" for label, row in rows.items()}
    marked = frozenset(f"rank {rank}" for rank in report.blamed)
    return stacked({part: PART_COLOURS.get(part, 8) for part in used}, rows, values, marked)


def step_curves(report: JobReport) -> Curves | None:
    """The length of each step, a line per rank; None for a single step."""
    shown = _shown(report)[:MAX_CURVES]
    numbers = sorted({n for s in shown for n in s.steps.number.tolist()})
    if len(numbers) < 2:
        return None
    series = []
    for s in shown:
        lengths = ((s.steps.end - s.steps.start) / 1e6).round(3).tolist()
        ms = dict(zip(s.steps.number.tolist(), lengths, strict=True))
        series.append((f"rank {s.rank}", tuple(ms.get(n) for n in numbers)))
    bold = frozenset(f"rank {rank}" for rank in report.blamed)
    return Curves("steps", tuple(map(float, numbers)), "step", " ms", tuple(series), bold=bold, whole_x=True)


def communication_section(report: JobReport) -> Section:
    """How much of each rank's communication computation hides; every collective, waiting apart from transfer."""
    rows, values = {}, {}
    for s in _shown(report):
        device = s.time_on_device
        if device.communication:
            hidden = device.hidden_communication
            rows[f"rank {s.rank}"] = [hidden / 1e6, (device.communication - hidden) / 1e6]
            values[f"rank {s.rank}"] = f"{100 * hidden / device.communication:.0f} % hidden"
    marked = frozenset(f"rank {rank}" for rank in report.blamed)
    bars = stacked({"hidden behind computation": 0, "exposed": 3}, rows, values, marked)
    blocks = (
        Block("Overlap: communication of each rank", "Exposed communication makes the step longer.", bars=bars),
        Block(
            "Collectives", _SPLIT[report.compared.collectives.by] if report.compared else "", table=_collectives(report)
        ),
    )
    return _section("communication", "Communication", "", blocks)


_SPLIT = {
    "arrival": "Waiting ends when the last rank arrives; the rest is transfer. Bandwidths as nccl-tests counts them.",
    "shortest duration": "The clocks do not agree: the shortest duration of a collective counts as its transfer.",
    "duration": "One rank's trace cannot tell waiting from transfer.",
}


def _collectives(report: JobReport) -> Table | None:
    columns = (
        Column("operation", ""),
        Column("group", ""),
        Column("ranks"),
        Column("size MB"),
        Column("calls"),
        Column("wait ms", hint="mean over ranks, all calls"),
        Column("worst wait ms", hint="of the rank that waits longest, all calls"),
        Column("transfer ms", hint="all calls"),
        Column("median transfer ms"),
        Column("bus GB/s", hint="comparable with the hardware's bandwidth whatever the number of ranks"),
    )
    rows = [
        (
            text_cell(r.operation),
            text_cell(r.group[:40]),
            count_cell(r.ranks),
            number_cell(r.bytes / 1e6 if r.bytes else None, 2),
            count_cell(r.count),
            ms_cell(r.wait if report.compared and report.compared.collectives.by != "duration" else None),
            ms_cell(r.worst_wait if report.compared and report.compared.collectives.by != "duration" else None),
            ms_cell(r.transfer),
            ms_cell(r.median_transfer),
            number_cell(r.bus_bandwidth, 2),
        )
        for r in (report.compared.collectives.rows if report.compared else ())
    ]
    return table(columns, rows)


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
    block = Block(
        "All ranks idle at once", "Their cause is shared: storage, checkpoint, loader.", table=table(columns, rows)
    )
    return _section("idle", "Idle together", "", (block,))


def memory_section(report: JobReport) -> Section:
    """Raw memory timelines: bytes by category."""
    blocks = []
    for number, (file, rows) in enumerate(report.result.timelines.items()):
        keys = [k for k in rows[0] if k.endswith("_bytes") and any(row[k] for row in rows)] if rows else []
        series = [(k.removesuffix("_bytes").replace("_", " "), tuple(float(row[k]) for row in rows)) for k in keys]
        x = tuple((row["ts_ns"] - rows[0]["ts_ns"]) / 1e6 for row in rows)
        curves = Curves(f"timeline{number}", x, "ms", "B", tuple(series), stepped=True) if series else None
        blocks.append(Block(text_cell(file).text, curves=curves))
    return _section("memory", "Memory by category", "", blocks)


def kernels_section(report: JobReport) -> Section:
    """Computation kernels of all ranks, by total time."""
    kernels = kernel_lines(report.result.summaries)
    whole = sum(k.total for k in kernels) or 1
    longest = kernels[0].total if kernels else 1
    bars = tuple(
        Bar(
            k.name,
            (Segment(0, 0.0, 100 * k.total / longest, f"{k.count:,} calls, median {k.median / 1e3:,.1f} µs"),),
            f"{k.total / 1e6:,.1f} ms  {100 * k.total / whole:.1f} %",
        )
        for k in kernels[:MAX_KERNEL_BARS]
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
    return _section(
        "kernels", "Kernels", "Computation on the device, all ranks; a kernel is its name and launch shape.", blocks
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


def _shown(report: JobReport) -> list[RankSummary]:
    """All ranks where they are few; else those that are named, and as many others as fit."""
    summaries = report.result.summaries
    if len(summaries) <= MAX_BARS:
        return summaries
    wanted = sorted(summaries, key=lambda s: (s.rank not in report.blamed, s.rank))[:MAX_BARS]
    return sorted(wanted, key=lambda s: s.rank)


def _bars_note(report: JobReport) -> str:
    left = len(report.lines) - MAX_BARS
    return f"{left} more ranks are in the table above." if left > 0 else ""


def _section(key: str, heading: str, lead: str, blocks: Sequence[Block]) -> Section:
    return Section(key, heading, lead, tuple(block for block in blocks if block))
