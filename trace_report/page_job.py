"""The page's sections that compare ranks: the table, where each step goes, communication."""

from __future__ import annotations

from faultline.analysis.traces.across_ranks.wait_transfer import CollectiveTable
from faultline.analysis.traces.per_rank.collective_bandwidth import CollectiveRow
from faultline.trace_report.job_report import MAX_SHOWN, JobReport
from faultline.trace_report.page_model import ReportBlock, ReportSection, section_of
from faultline.trace_report.page_parts import (
    Bars,
    Column,
    Curves,
    Table,
    TableCell,
    count_cell,
    ms_cell,
    number_cell,
    size_cell,
    stacked,
    table,
    text_cell,
)
from faultline.trace_report.page_work import (
    idle_section,
    kernels_section,
    memory_section,
    operators_section,
)
from faultline.trace_report.rank_lines import RankLine

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


def job_sections(report: JobReport) -> tuple[ReportSection, ...]:
    """The sections that have something to show."""
    memory_sections = [memory_section(report)]
    if report.lines:
        memory_sections = [
            ranks_section(report),
            communication_section(report),
            idle_section(report),
            kernels_section(report),
            operators_section(report),
            *memory_sections,
        ]
    return tuple(section for section in memory_sections if section.blocks)


def ranks_section(report: JobReport) -> ReportSection:
    """The table of ranks, the stacked step of each, the length of each step."""
    blocks = (
        ReportBlock("", table=ranks_table(report)),
        ReportBlock(
            "A step of each rank, by what it goes to",
            bars=step_bars(report),
            note=_bars_note(report),
        ),
        ReportBlock("Length of each step", curves=step_curves(report)),
    )
    return section_of("ranks", "Ranks", report.rank_source_text.capitalize() + ".", blocks)


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
    rows = [_rank_cells(line) for line in report.lines]
    marked = frozenset(
        place for place, line in enumerate(report.lines) if line.rank in report.blamed
    )
    filled = []
    # Leave out a column in which no rank has a value.
    for i in range(len(columns)):
        if any(row[i].text not in ("–", "") for row in rows):
            filled.append(i)
    remaining_columns = [columns[i] for i in filled]
    remaining_rows = [[row[i] for i in filled] for row in rows]
    return table(remaining_columns, remaining_rows, marked=marked)


def _rank_cells(line: RankLine) -> tuple[TableCell, ...]:
    return (
        count_cell(line.rank),
        number_cell(line.window_ms if line.step_ms is None else line.step_ms, 2),
        number_cell(line.compute_percent),
        number_cell(line.communication_percent),
        number_cell(line.exposed_communication_percent),
        number_cell(line.idle_percent),
        number_cell(line.data_ms, 2),
        number_cell(line.wait_ms, 2),
        number_cell(line.blame_percent),
        text_cell(line.host or ""),
        text_cell(line.file),
    )


def step_bars(report: JobReport) -> Bars | None:
    """The mean step of each rank, stacked."""
    ranks = {summary.rank for summary in report.shown()}
    by_rank = {
        rank: step_part
        for rank, step_part in report.step_parts.items()
        if rank in ranks and step_part
    }
    if not by_rank:
        return None
    colours = {}
    # All ranks have the same parts, in the same order.
    for part in next(iter(by_rank.values())):
        if any(parts[part] > 0 for parts in by_rank.values()):
            colours[part] = PART_COLOURS.get(part, 8)
    rows, values = {}, {}
    for rank, parts in by_rank.items():
        row = [parts[part] for part in colours]
        rows[f"rank {rank}"] = row
        values[f"rank {rank}"] = f"{sum(row):,.1f} ms"
    marked = frozenset(f"rank {rank}" for rank in report.blamed)
    return stacked(colours, rows, values, marked)


def step_curves(report: JobReport) -> Curves | None:
    """The length of each step, a line per rank; None for a single step."""
    lines: list[tuple[str, dict[int, float]]] = []
    numbers: set[int] = set()
    for summary in report.shown()[:MAX_CURVES]:
        steps = summary.steps
        ms = ((steps.end - steps.start) / 1e6).round(3)
        by_number = dict(zip(steps.number.tolist(), ms.tolist(), strict=True))
        lines.append((f"rank {summary.rank}", by_number))
        numbers.update(by_number)
    if len(numbers) < 2:
        return None
    # Ranks may have recorded different steps: put all of them on one axis.
    shown = sorted(numbers)
    series = []
    for label, by_number in lines:
        series.append((label, tuple(by_number.get(number) for number in shown)))
    bold = frozenset(f"rank {rank}" for rank in report.blamed)
    x = tuple(float(number) for number in shown)
    return Curves("steps", x, "step", " ms", tuple(series), bold=bold, whole_x=True)


def communication_section(report: JobReport) -> ReportSection:
    """How much of each rank's communication computation hides; every collective, waiting apart from
    transfer."""
    overlap = ReportBlock(
        "Overlap: communication of each rank",
        "Exposed communication makes the step longer.",
        bars=_overlap_bars(report),
    )
    blocks = (overlap, ReportBlock("Collectives", ""))
    if report.compared:
        collectives = report.compared.collectives
        intro = _SPLIT[collectives.by]
        blocks = (overlap, ReportBlock("Collectives", intro, table=_collectives(collectives)))
    return section_of("communication", "Communication", "", blocks)


def _overlap_bars(report: JobReport) -> Bars | None:
    rows, values = {}, {}
    for summary in report.shown():
        device = summary.time_on_device
        if not device.communication:
            continue
        label = f"rank {summary.rank}"
        hidden = device.hidden_communication
        rows[label] = [hidden / 1e6, (device.communication - hidden) / 1e6]
        values[label] = f"{100 * hidden / device.communication:.0f} % hidden"
    marked = frozenset(f"rank {rank}" for rank in report.blamed)
    return stacked({"hidden behind computation": 0, "exposed": 3}, rows, values, marked)


_SPLIT = {
    "arrival": "Waiting ends when the last rank arrives; the rest is transfer. Bandwidths as "
    "nccl-tests counts them.",
    "shortest duration": "The clocks do not agree: the shortest duration of a collective counts "
    "as its transfer.",
    "duration": "One rank's trace cannot tell waiting from transfer: bandwidths are at least "
    "these.",
}


def _bandwidth_cell(row: CollectiveRow) -> TableCell:
    cell = number_cell(row.bus_bandwidth, 2)
    if row.at_least and cell.value is not None:
        # A lower bound has to be marked as one.
        return TableCell(f"≥ {cell.text}", cell.value)
    return cell


def _collectives(collectives: CollectiveTable) -> Table | None:
    columns = (
        Column("operation", ""),
        Column("group", ""),
        Column("ranks"),
        Column("size"),
        Column("calls"),
        Column("wait ms", hint="mean over ranks, all calls"),
        Column("worst wait ms", hint="of the rank that waits longest, all calls"),
        Column("transfer ms", hint="all calls"),
        Column("median transfer ms"),
        Column(
            "bus GB/s", hint="comparable with the hardware's bandwidth whatever the number of ranks"
        ),
        Column("% of link", hint="bus bandwidth of the link's peak in one direction"),
        Column("link", "", hint="within a host; not known beyond it"),
        Column("hidden ms", hint="mean over ranks, all calls: computation ran meanwhile"),
        Column("exposed ms", hint="mean over ranks, all calls: no computation ran"),
        Column(
            "of it awaited %",
            hint="computation was launched already and had to wait; in the rest nothing was "
            "launched to overlap with",
        ),
    )
    # One rank's trace does not tell waiting from transfer.
    waits = collectives.by != "duration"
    rows = []
    for row in collectives.rows:
        rows.append(
            (
                text_cell(row.operation),
                text_cell(row.group[:40]),
                count_cell(row.ranks),
                size_cell(row.bytes),
                count_cell(row.count),
                ms_cell(row.wait if waits else None),
                ms_cell(row.worst_wait if waits else None),
                ms_cell(row.transfer),
                ms_cell(row.median_transfer),
                _bandwidth_cell(row),
                number_cell(row.link_percent, 0),
                text_cell(row.link.name),
                ms_cell(row.hidden),
                ms_cell(row.exposed),
                number_cell(100 * row.awaited / row.exposed if row.exposed else None, 0),
            )
        )
    return table(columns, rows)


def _bars_note(report: JobReport) -> str:
    left = len(report.lines) - MAX_SHOWN
    return f"{left} more ranks are in the table above." if left > 0 else ""
