"""The page's panel of one rank: critical path, idle time, launch queue, memory, and its tables."""

from __future__ import annotations

from faultline.analysis.traces.costs.call import accelerator_named
from faultline.trace_report.analysis_run import RankResult
from faultline.trace_report.job_report import JobReport
from faultline.trace_report.page_model import Panel, ReportBlock
from faultline.trace_report.page_parts import (
    Bars,
    ChartBar,
    Column,
    Curves,
    Segment,
    Table,
    ms_cell,
    table,
    text_cell,
)
from faultline.trace_report.rank_charts import DrawnCurves, PathStrip
from faultline.trace_report.registry import ANALYSES, BESIDE
from faultline.trace_report.roofline_plot import WORST, roofline_plot, worst_table
from faultline.trace_report.rows_table import rows_table

MAX_PANELS = 8
PATH_PARTS = {
    "gpu_compute_bound": ("computation", 0),
    "gpu_communication_bound": ("communication", 3),
    "gpu_memory": ("copies", 6),
    "cpu_bound": ("host", 8),
    "gpu_kernel_kernel_overhead": ("between kernels", 1),
    "gpu_kernel_launch_overhead": ("launch delay", 4),
    "data_loading": ("data loading", 5),
    "waiting": ("waiting", 2),
}
"""What holds the path back, in words, and its colour in the style sheet."""
HEADINGS = {
    "temporal": "Time on the device",
    "idle": "Why streams are idle",
    "idle_gaps": "Longest gaps on the device",
    "kernels": "Kernels",
    "kernel_families": "Kernels by library and work",
    "annotations": "Annotations",
    "serving": "Prefill and decode",
    "launches": "Launches",
    "launch_queue": "Launch queue",
    "bandwidth": "Memory copies",
    "copies": "Copies between host and device",
    "host_syncs": "The host waits for the device",
    "data_loading": "Data loading",
    "operators": "Operators",
    "call_stacks": "Code",
    "sequences": "Sequences of kernels",
    "tiny_kernels": "Smallest kernels",
    "tensor_cores": "Matrix units",
    "utilization": "FLOPs and MFU",
    "collective_bandwidth": "Collectives against the link",
    "roofline": "Operators against the device's peaks",
    "recompiles": "Compilations",
    "counters": "Hardware counters",
    "memory": "Memory",
    "allocations": "Calls to the allocator",
    "device_use": "Use of the device",
    "pauses": "Named pauses",
    "profiler_overhead": "What the profiler cost",
    "critical_path": "What the critical path is made of",
    "execution_trace": "Execution trace",
}
"""Tables in the order of the panel."""
LEADS = ANALYSES | BESIDE
ON_DEVICE = frozenset({"temporal", "device_use", "idle"})
"""Tables that say nothing of a rank without a device."""


def panels(report: JobReport) -> tuple[Panel, ...]:
    """Panels of the ranks that a diagnosis names, then of the others, as many as the page holds."""
    ranks = sorted(
        report.result.ranks, key=lambda r: (r.summary.rank not in report.blamed, r.summary.rank)
    )
    candidates = [
        Panel(r.summary.rank, f"rank {r.summary.rank}", _blocks(r)) for r in ranks[:MAX_PANELS]
    ]
    return tuple(panel for panel in candidates if panel.blocks)


def _blocks(result: RankResult) -> tuple[ReportBlock, ...]:
    rank = result.summary.rank
    charts = result.charts
    blocks = [_path_block(charts.path)] if charts and charts.path else []
    if charts and charts.queue:
        blocks.append(
            ReportBlock(
                "Launch queue",
                "Work launched and not yet begun.",
                curves=_curves(f"queue{rank}", charts.queue),
            )
        )
    if charts and charts.memory:
        blocks.append(ReportBlock("Memory", curves=_curves(f"memory{rank}", charts.memory)))
    blocks.append(ReportBlock("Longest idle times", table=_idle_table(result)))
    blocks += _roofline_blocks(result)
    for name in HEADINGS:
        if name in ON_DEVICE and not result.summary.has_accelerator:
            continue
        rows = [
            row
            for row in result.rows.get(name, ())
            if (row.get("what", "name") == "name" and row.get("kind") != "point")
        ]
        shown = rows_table(rows, leave_out=frozenset({"rank", "what", "window"}))
        blocks.append(
            ReportBlock(HEADINGS[name], LEADS[name].capitalize() + ".", table=shown, folded=True)
        )
    return tuple(block for block in blocks if block)


def _roofline_blocks(result: RankResult) -> tuple[ReportBlock, ...]:
    """The plot, and the operators with the most to gain."""
    rows = result.rows.get("roofline", ())
    device = accelerator_named(result.summary.accelerator.name)
    drawn = ReportBlock(
        "Roofline",
        "What operators reached over their arithmetic intensity; larger points took more time. "
        "Below the slope memory is the limit, below the flat line computation.",
        roofline=roofline_plot(rows, device),
    )
    gains = ReportBlock(
        f"The {WORST} operators with the most to gain",
        "What a step would gain if they took only the least time that the device allows: at most, "
        "because other work may hide it.",
        table=worst_table(rows),
    )
    return drawn, gains


def _path_block(path: PathStrip) -> ReportBlock:
    bounds = [b for b in PATH_PARTS if any(piece[2] == b for piece in path.pieces)]
    # Never divide by a path of length 0.
    whole = path.length_ms or 1.0
    times = {b: sum(to - at for at, to, bound in path.pieces if bound == b) for b in bounds}
    segments = tuple(
        Segment(
            bounds.index(bound),
            100 * at / whole,
            100 * (to - at) / whole,
            f"{PATH_PARTS[bound][0]}, {at:,.3f} to {to:,.3f} ms",
        )
        for at, to, bound in path.pieces
        if bound in bounds
    )
    parts = tuple(f"{PATH_PARTS[b][0]} {times[b]:,.1f} ms" for b in bounds)
    colours = tuple(PATH_PARTS[b][1] for b in bounds)
    strip = Bars(
        parts, (ChartBar("critical path", segments, f"{path.length_ms:,.1f} ms"),), colours=colours
    )
    axis = tuple(f"{path.length_ms * quarter / 4:,.1f} ms" for quarter in range(5))
    sentence = (
        f"The chain of work that {path.window} had to wait for: making anything else faster "
        f"does not make it shorter."
    )
    return ReportBlock("Critical path", sentence, strip=strip, axis=axis)


def _curves(key: str, drawn: DrawnCurves) -> Curves:
    return Curves(key, drawn.x, "ms", drawn.unit, drawn.series, stepped=True)


def _idle_table(result: RankResult) -> Table | None:
    idle, start = result.summary.idle, result.summary.start_ns
    # Start minus end is the negative length: the longest come first.
    places = sorted(range(len(idle)), key=lambda i: int(idle.start[i] - idle.end[i]))[:20]
    columns = (
        Column("ms"),
        Column("at ms", hint="from the start of the trace"),
        Column("the host meanwhile", "name"),
    )
    rows = [
        (
            ms_cell(int(idle.end[i] - idle.start[i])),
            ms_cell(int(idle.start[i]) - start),
            text_cell(idle.host[i] or ""),
        )
        for i in places
    ]
    return table(columns, rows)
