"""The report on the terminal: one screen, 80 to 120 columns, no colour and no control characters
when piped.

Everything out of a trace is foreign text: it is printed as text, never as markup, on one line.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from io import StringIO
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.traces.doctor.diagnosis import Diagnosis, EventReference
from analysis.wording.phrases import capitalised
from trace_report.job_report import JobReport
from trace_report.kernel_lines import kernel_lines, kernel_time, operator_lines
from trace_report.page_parts import visible
from trace_report.rank_lines import RankLine

STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold blue"}
MAX_DIAGNOSES = 5
MAX_RANKS = 10
MAX_KERNELS = 5
MAX_WIDTH = 120
PIPED_WIDTH = 100
BAR = 34
_COLOURS = {
    "data loading": "yellow",
    "forward pass": "bright_green",
    "backward pass": "green",
    "optimizer": "cyan",
    "communication wait": "red",
    "communication transfer": "magenta",
    "copies": "blue",
    "idle": "bright_black",
}


def print_report(report: JobReport, *, hint: bool) -> None:
    """Print it on standard output."""
    options: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    console = Console(**options)
    if console.is_terminal:
        console.width = min(console.width, MAX_WIDTH)
        for part in report_parts(report, hint, console.width):
            console.print(part)
        return
    piped = Console(**options, width=PIPED_WIDTH, file=StringIO(), color_system=None)
    for part in report_parts(report, hint, PIPED_WIDTH):
        piped.print(part)
    lines = piped.file.getvalue().splitlines()  # type: ignore[attr-defined]
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))
    sys.stdout.flush()


def report_parts(report: JobReport, hint: bool, width: int) -> list[RenderableType]:
    """What is printed, top to bottom, for so many columns."""
    facts = " · ".join(_safe(fact, 40) for fact in report.facts)
    parts: list[RenderableType] = [Text(facts, style="bold"), Text()] if facts else []
    parts += [_diagnosis(d) for d in report.diagnoses[:MAX_DIAGNOSES]]
    if len(report.diagnoses) > MAX_DIAGNOSES:
        parts.append(
            Text(
                f"  and {len(report.diagnoses) - MAX_DIAGNOSES} more (--json, --html)", style="dim"
            )
        )
    if report.nothing_wrong:
        style = "bold green" if report.verdict == "nothing_wrong" else "bold"
        parts.append(Text(_sentence(report.nothing_wrong, 300), style=style))
    if report.lines:
        parts += [Text(), _ranks(report), *_where_time_goes(report), *_top(report, width)]
    parts += [_memory(file, rows) for file, rows in report.result.timelines.items()]
    parts += _notes(report)
    if hint and report.lines:
        parts.append(Text("--html FILE writes a page with charts; --json all numbers", style="dim"))
    return parts


def _diagnosis(d: Diagnosis) -> RenderableType:
    head = Text.assemble(
        (f"{d.severity:<9}", STYLES.get(d.severity, "bold")), (_safe(d.subject, 60), "bold")
    )
    below = [Text(_sentence(d.statement, 600))]
    if d.fix:
        below.append(Text.assemble(("fix: ", "bold"), _sentence(d.fix, 500)))
    if d.events:
        below.append(Text.assemble(("look at: ", "dim"), (_place(d.events[0]), "dim")))
    return Group(head, Padding(Group(*below), (0, 0, 0, 9)))


def _place(e: EventReference) -> str:
    step = f", step {e.step}" if e.step is not None else ""
    file = f"{_safe(e.file, 60)}, event {e.event}"
    return (
        f"{_safe(e.name, 60)} on rank {e.rank}{step}, {e.duration_ns / 1e6:,.3f} ms long ({file})"
    )


def _ranks(report: JobReport) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    headings = (
        "rank",
        "step ms",
        "compute %",
        "comm %",
        "exposed %",
        "idle %",
        "data ms",
        "wait ms",
        "blame %",
    )
    shown = _shown(report)
    timed = any(line.step_ms is not None for line in shown)
    columns = [
        [str(line.rank) for line in shown],
        [_number(line.step_ms if timed else line.window_ms, 1) for line in shown],
        [_number(line.compute_percent, 1) for line in shown],
        [_number(line.communication_percent, 1) for line in shown],
        [_number(line.exposed_communication_percent, 1) for line in shown],
        [_number(line.idle_percent, 1) for line in shown],
        [_number(line.data_ms, 2) for line in shown],
        [_number(line.wait_ms, 2) for line in shown],
        [_number(line.blame_percent, 1) for line in shown],
    ]
    kept = [i for i, column in enumerate(columns) if i < 2 or any(cell != "-" for cell in column)]
    for i in kept:
        table.add_column(
            "window ms" if i == 1 and not timed else headings[i], justify="right", no_wrap=True
        )
    for place, line in enumerate(shown):
        table.add_row(
            *(columns[i][place] for i in kept),
            style="bold red" if line.rank in report.blamed else "",
        )
    left = len(report.lines) - len(shown)
    note = [Text(f"and {left} more ranks, none of them named above", style="dim")] if left else []
    return Group(table, *note)


def _shown(report: JobReport) -> list[RankLine]:
    """All ranks, or those that are named in a diagnosis, the extremes, and the first ones."""
    lines = report.lines
    if len(lines) <= MAX_RANKS:
        return list(lines)
    named = [rank for d in report.diagnoses for rank in d.ranks]
    by_step = sorted(lines, key=lambda r: r.step_ms or r.window_ms)
    wanted = dict.fromkeys(
        [*named, by_step[-1].rank, by_step[0].rank, *(line.rank for line in lines)]
    )
    kept = set(list(wanted)[:MAX_RANKS])
    return [line for line in lines if line.rank in kept]


def _where_time_goes(report: JobReport) -> list[RenderableType]:
    """The mean step of all ranks (without steps, the device's time) as one bar, and its parts."""
    sums: dict[str, float] = defaultdict(float)
    for parts in report.step_parts.values():
        for part, ms in parts.items():
            sums[part] += ms / len(report.lines)
    whole = sum(sums.values())
    if whole <= 0:
        return []
    bar, words = Text(), Text()
    styles = {part: _COLOURS.get(part, "white") for part in sums}
    for part, ms in sums.items():
        bar.append("█" * round(BAR * ms / whole), styles[part])
    for part, ms in sorted(sums.items(), key=lambda item: -item[1]):
        word = f"{part} {100 * ms / whole:.0f} %  "
        if ms >= 0.005 * whole:
            if len(words.plain.rpartition("\n")[2]) + len(word) > 76:
                words.rstrip()
                words.append("\n")
            words.append("■ ", styles[part]).append(word)
    what = "a step" if any(line.step_ms is not None for line in report.lines) else "window"
    return [Text(), Text.assemble((f"{what}  ", "dim"), bar, f"  {whole:,.1f} ms"), words]


def _top(report: JobReport, width: int) -> list[RenderableType]:
    """Kernels with the most time, or operators where nothing ran on a device."""
    summaries = report.result.summaries
    kernels = kernel_lines(summaries)
    whole = kernel_time(summaries)
    if kernels:
        head = f"{'ms':>10} {'%':>6} {'calls':>9} {'median µs':>10}  top kernels"
        rows = [
            f"{k.total / 1e6:>10,.2f} {100 * k.total / whole:>6.1f} {k.count:>9,} "
            f"{k.median / 1e3:>10,.1f}  {k.name}"
            for k in kernels[:MAX_KERNELS]
        ]
    else:
        head = f"{'ms/step':>10}  top operators, their own time"
        rows = [
            f"{ns / 1e6:>10,.2f}  {name}" for name, ns in operator_lines(summaries)[:MAX_KERNELS]
        ]
    return (
        [Text(), Text(head, style="dim"), *(Text(_safe(row, width)) for row in rows)]
        if rows
        else []
    )


def _memory(file: str, rows: Sequence[dict[str, Any]]) -> RenderableType:
    """The fullest moment of a raw memory timeline, by category."""
    sizes = [
        {k.removesuffix("_bytes"): v for k, v in row.items() if k.endswith("_bytes")}
        for row in rows
    ]
    peak = max(sizes, key=lambda row: sum(row.values()), default={})
    parts = sorted(((v, k.replace("_", " ")) for k, v in peak.items() if v > 0), reverse=True)
    said = ", ".join(f"{name} {size / 1e9:,.2f}" for size, name in parts)
    return Text(f"memory of {_safe(file, 80)}: at most {sum(peak.values()) / 1e9:,.2f} GB ({said})")


def _notes(report: JobReport) -> list[RenderableType]:
    """What was not read, and how the ranks were told."""
    notes: list[str] = []
    dropped = report.dropped
    for entry in dropped["files"][:4]:
        notes.append(f"not read: {_safe(entry['file'], 80)} {_safe(entry['why'], 160)}")
    if len(dropped["files"]) > 4:
        notes.append(f"not read: {len(dropped['files']) - 4} more files (--json names them)")
    if dropped["older_captures"]:
        notes.append(
            f"older captures of the same ranks, left out: {len(dropped['older_captures'])} files"
        )
    for file, reasons in list(dropped["events"].items())[:3]:
        said = ", ".join(f"{count:,} {_safe(reason, 60)}" for reason, count in reasons.items())
        notes.append(f"dropped of {_safe(file, 60)}: {said}")
    for analysis in sorted({entry["analysis"] for entry in dropped["analyses"]}):
        ranks = [entry for entry in dropped["analyses"] if entry["analysis"] == analysis]
        notes.append(f"no {analysis} of {len(ranks)} ranks: {_safe(ranks[0]['why'], 120)}")
    if any(line.rank_source == "order" for line in report.lines) and len(report.lines) > 1:
        notes.append(report.how_ranks_were_told)
    return [Text(), *(Text(note, style="dim") for note in notes)] if notes else [Text()]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _sentence(text: str, limit: int) -> str:
    return capitalised(visible(text, limit))


def _safe(text: str, limit: int) -> str:
    return visible(text, limit)
