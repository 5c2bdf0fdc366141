"""The page's sections that compare ranks: the table, where each step goes, communication."""

from __future__ import annotations

from analysis.traces.across_ranks.wait_transfer import CollectiveRow
from trace_report.job_report import MAX_SHOWN, JobReport
from trace_report.page_model import Block, Section, section_of
from trace_report.page_parts import (
    Bars,
    Cell,
    Column,
    Curves,
    Table,
    count_cell,
    ms_cell,
    number_cell,
    stacked,
    table,
    text_cell,
)
from trace_report.page_work import idle_section, kernels_section, memory_section, operators_section

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
MAX_CURVES = 8


def job_sections(report: JobReport) -> tuple[Section, ...]:
    """The sections that have something to show."""
    if not report.lines:
        return tuple(s for s in (memory_section(report),) if s.blocks)
    found = [
        ranks_section(report),
        communication_section(report),
        idle_section(report),
        kernels_section(report),
        operators_section(report),
        memory_section(report),
    ]
    return tuple(s for s in found if s.blocks)


def ranks_section(report: JobReport) -> Section:
    """The table of ranks, the stacked step of each, the length of each step."""
    blocks = (
        Block("", table=ranks_table(report)),
        Block(
            "A step of each rank, by what it goes to",
            bars=step_bars(report),
            note=_bars_note(report),
        ),
        Block("Length of each step", curves=step_curves(report)),
    )
    return section_of("ranks", "Ranks", report.how_ranks_were_told.capitalize() + ".", blocks)


def ranks_table(report: JobReport) -> Table | None:
    """One row per rank; ranks that a diagnosis names are marked."""
    columns = [
        Column("rank"),
        Column("step ms", hint="mean length of a step"),
        Column("compute %", hint="computation runs"),
        Column("comm %", hint="communication runs"),
        Column("exposed %", hint="communication runs, and no computation"),
        Column("idle %", hint="nothing runs on the device"),
        Column("data ms", hint="data loading that nothing hides, per step"),
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
    return table(
        [columns[i] for i in kept], [[row[i] for i in kept] for row in rows], marked=marked
    )


def step_bars(report: JobReport) -> Bars | None:
    """The mean step of each rank, stacked."""
    wanted = {s.rank for s in report.shown()}
    parts = {rank: own for rank, own in report.step_parts.items() if rank in wanted and own}
    if not parts:
        return None
    used = [
        part for part in next(iter(parts.values())) if any(own[part] > 0 for own in parts.values())
    ]
    rows = {f"rank {rank}": [own[part] for part in used] for rank, own in parts.items()}
    values = {label: f"{sum(row):,.1f} ms" for label, row in rows.items()}
    marked = frozenset(f"rank {rank}" for rank in report.blamed)
    return stacked({part: PART_COLOURS.get(part, 8) for part in used}, rows, values, marked)


def step_curves(report: JobReport) -> Curves | None:
    """The length of each step, a line per rank; None for a single step."""
    shown = report.shown()[:MAX_CURVES]
    numbers = sorted({n for s in shown for n in s.steps.number.tolist()})
    if len(numbers) < 2:
        return None
    series = []
    for s in shown:
        lengths = ((s.steps.end - s.steps.start) / 1e6).round(3).tolist()
        ms = dict(zip(s.steps.number.tolist(), lengths, strict=True))
        series.append((f"rank {s.rank}", tuple(ms.get(n) for n in numbers)))
    bold = frozenset(f"rank {rank}" for rank in report.blamed)
    return Curves(
        "steps", tuple(map(float, numbers)), "step", " ms", tuple(series), bold=bold, whole_x=True
    )


def communication_section(report: JobReport) -> Section:
    """How much of each rank's communication computation hides; every collective, waiting apart from
    transfer."""
    rows, values = {}, {}
    for s in report.shown():
        device = s.time_on_device
        if device.communication:
            hidden = device.hidden_communication
            rows[f"rank {s.rank}"] = [hidden / 1e6, (device.communication - hidden) / 1e6]
            values[f"rank {s.rank}"] = f"{100 * hidden / device.communication:.0f} % hidden"
    marked = frozenset(f"rank {rank}" for rank in report.blamed)
    bars = stacked({"hidden behind computation": 0, "exposed": 3}, rows, values, marked)
    blocks = (
        Block(
            "Overlap: communication of each rank",
            "Exposed communication makes the step longer.",
            bars=bars,
        ),
        Block(
            "Collectives",
            _SPLIT[report.compared.collectives.by] if report.compared else "",
            table=_collectives(report),
        ),
    )
    return section_of("communication", "Communication", "", blocks)


_SPLIT = {
    "arrival": "Waiting ends when the last rank arrives; the rest is transfer. Bandwidths as "
    "nccl-tests counts them.",
    "shortest duration": "The clocks do not agree: the shortest duration of a collective counts "
    "as its transfer.",
    "duration": "One rank's trace cannot tell waiting from transfer: bandwidths are at least "
    "these.",
}


def _bandwidth_cell(row: CollectiveRow) -> Cell:
    cell = number_cell(row.bus_bandwidth, 2)
    return Cell(f"≥ {cell.text}", cell.value) if row.at_least and cell.value is not None else cell


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
        Column(
            "bus GB/s", hint="comparable with the hardware's bandwidth whatever the number of ranks"
        ),
    )
    rows = [
        (
            text_cell(r.operation),
            text_cell(r.group[:40]),
            count_cell(r.ranks),
            number_cell(r.bytes / 1e6 if r.bytes else None, 2),
            count_cell(r.count),
            ms_cell(
                r.wait if report.compared and report.compared.collectives.by != "duration" else None
            ),
            ms_cell(
                r.worst_wait
                if report.compared and report.compared.collectives.by != "duration"
                else None
            ),
            ms_cell(r.transfer),
            ms_cell(r.median_transfer),
            _bandwidth_cell(r),
        )
        for r in (report.compared.collectives.rows if report.compared else ())
    ]
    return table(columns, rows)


def _bars_note(report: JobReport) -> str:
    left = len(report.lines) - MAX_SHOWN
    return f"{left} more ranks are in the table above." if left > 0 else ""
