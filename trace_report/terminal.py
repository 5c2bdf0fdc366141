"""The report on the terminal: one screen, 80 to 120 columns, no colour and no control characters
when piped.

Everything out of a trace is foreign text: it is printed as text, never as markup, on one line.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.doctor.diagnosis import EventReference, JobDiagnosis
from faultline.analysis.wording.phrases import capitalised
from faultline.trace_report.analysis_run import RankResult
from faultline.trace_report.job_report import JobReport
from faultline.trace_report.page_parts import visible
from faultline.trace_report.rank_lines import RankLine

# What takes the most time, all ranks together: kernels on the device, operators on the host.


@dataclass(frozen=True)
class KernelLine:
    """One kernel, all ranks together; ns."""

    name: str
    count: int
    total: int
    median: float
    longest: int
    fastest_rank: float
    """Its median on the rank where it is fastest."""
    slowest_rank: float
    slowest: int
    """The rank where its median is longest."""


def kernel_lines(summaries: Sequence[RankSummary]) -> list[KernelLine]:
    """Kernels of computation and communication of all ranks, by total time; a kernel is its name
    and launch shape."""
    rows_by_name: dict[str, list[tuple[int, int, int, int, int]]] = {}
    for s in summaries:
        for speeds in (s.kernels, s.communication_kernels):
            columns = np.stack((speeds.count, speeds.total, speeds.median, speeds.longest))
            for name, row in zip(speeds.names, columns.T.tolist(), strict=True):
                rows_by_name.setdefault(name, []).append((s.rank, *row))
    kernels = []
    for name, rows in rows_by_name.items():
        slowest = max(rows, key=lambda r: r[3])
        kernels.append(
            KernelLine(
                name=name,
                count=sum(r[1] for r in rows),
                total=sum(r[2] for r in rows),
                median=float(np.median([r[3] for r in rows])),
                longest=max(r[4] for r in rows),
                fastest_rank=min(r[3] for r in rows),
                slowest_rank=slowest[3],
                slowest=slowest[0],
            )
        )
    return sorted(kernels, key=lambda k: (-k.total, k.name))


def kernel_time(summaries: Sequence[RankSummary]) -> int:
    """ns of all kernels of computation and communication of all ranks, also of those that are no
    lines; at least 1."""
    whole = 0
    for s in summaries:
        for speeds in (s.kernels, s.communication_kernels):
            whole += int(speeds.total.sum()) + speeds.cut_ns
    return max(whole, 1)


def operator_lines(summaries: Sequence[RankSummary]) -> list[tuple[str, float]]:
    """(operator, its own ns per step), mean over ranks, by time."""
    ns_by_operator: dict[str, float] = defaultdict(float)
    for s in summaries:
        for name, ns in s.operations.per_step().items():
            # A rank that does not run the operator counts as 0 in the mean.
            ns_by_operator[name] += ns / len(summaries)
    return sorted(ns_by_operator.items(), key=lambda item: (-item[1], item[0]))


# Prefill and decode of an inference server on the terminal: one line per phase.


def serving_lines(ranks: Sequence[RankResult]) -> list[str]:
    """Median of a pass on the host, mean on the device. The phases are those of the first rank that
    has any: ranks of a server run the same passes."""
    for rank in ranks:
        rows = rank.rows.get("serving", ())
        if rows:
            return [_line(row) for row in rows]
    return []


def _line(row: Mapping[str, Any]) -> str:
    count = row["passes"]
    parts = [
        f"{row['server']} {row['phase']}: {count:,} pass{'es' if count != 1 else ''}",
        f"{row['pass_median_ns'] / 1e6:,.2f} ms on the host",
    ]
    if row["device_ns"]:
        parts.append(f"{row['device_ns'] / count / 1e6:,.2f} on the device")
    for what in ("prefill", "decode"):
        if row[f"{what}_tokens"]:
            parts.append(f"{row[f'{what}_tokens']:,} {what} tokens")
    parts.append(f"{row['kernels_per_pass']:,g} kernels a pass")
    return ", ".join(parts)


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
    # Names out of a trace may look like markup.
    options: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    console = Console(**options)
    if console.is_terminal:
        console.width = min(console.width, MAX_WIDTH)
        for part in report_parts(report, hint, console.width):
            console.print(part)
        return
    # A fixed width: the output is the same wherever it is piped.
    piped = Console(**options, width=PIPED_WIDTH, file=StringIO(), color_system=None)
    for part in report_parts(report, hint, PIPED_WIDTH):
        piped.print(part)
    lines = piped.file.getvalue().splitlines()  # type: ignore[attr-defined]
    # Rich pads lines to the width, which a pipe does not need.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))
    sys.stdout.flush()


def report_parts(report: JobReport, hint: bool, width: int) -> list[RenderableType]:
    """What is printed, top to bottom, for that many columns."""
    parts: list[RenderableType] = []
    facts = " · ".join(_safe(fact, 40) for fact in report.facts)
    if facts:
        parts += [Text(facts, style="bold"), Text()]
    for diagnosis in report.diagnoses[:MAX_DIAGNOSES]:
        parts.append(_diagnosis(diagnosis))
    more = len(report.diagnoses) - MAX_DIAGNOSES
    if more > 0:
        parts.append(Text(f"  and {more} more (--json, --html)", style="dim"))
    if report.nothing_wrong:
        style = "bold green" if report.verdict == "nothing_wrong" else "bold"
        parts.append(Text(_sentence(report.nothing_wrong, 300), style=style))
    if report.lines:
        parts += [Text(), _ranks(report), *_where_time_goes(report)]
        phases = serving_lines(report.result.ranks)
        if phases:
            parts += [Text(), *(Text(_safe(line, 300)) for line in phases)]
        parts += _top(report, width)
    for file, rows in report.result.timelines.items():
        parts.append(_memory(file, rows))
    parts += _notes(report)
    if hint and report.lines:
        parts.append(Text("--html FILE writes a page with charts; --json all numbers", style="dim"))
    return parts


def _diagnosis(diagnosis: JobDiagnosis) -> RenderableType:
    severity = diagnosis.severity
    head = Text.assemble(
        (f"{severity:<9}", STYLES.get(severity, "bold")),
        (_safe(diagnosis.subject, 60), "bold"),
    )
    below = [Text(_sentence(diagnosis.statement, 600))]
    if diagnosis.fix:
        below.append(Text.assemble(("fix: ", "bold"), _sentence(diagnosis.fix, 500)))
    if diagnosis.events:
        below.append(Text.assemble(("look at: ", "dim"), (_place(diagnosis.events[0]), "dim")))
    return Group(head, Padding(Group(*below), (0, 0, 0, 9)))


def _place(event: EventReference) -> str:
    step = "" if event.step is None else f", step {event.step}"
    file = f"{_safe(event.file, 60)}, event {event.event}"
    ms = f"{event.duration_ns / 1e6:,.3f} ms"
    return f"{_safe(event.name, 60)} on rank {event.rank}{step}, {ms} long ({file})"


def _ranks(report: JobReport) -> RenderableType:
    shown = _shown(report)
    columns = _columns(shown)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for place, line in enumerate(shown):
        style = "bold red" if line.rank in report.blamed else ""
        cells = [column[place] for column in columns.values()]
        table.add_row(*cells, style=style)
    left = len(report.lines) - len(shown)
    if not left:
        return Group(table)
    return Group(table, Text(f"and {left} more ranks, none of them named above", style="dim"))


def _columns(lines: Sequence[RankLine]) -> dict[str, list[str]]:
    """The cells below each heading; a column in which no rank has a number is left out."""
    timed = any(line.step_ms is not None for line in lines)
    columns: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        row = {"rank": str(line.rank)}
        if timed:
            row["step ms"] = _number(line.step_ms, 1)
        else:
            row["window ms"] = _number(line.window_ms, 1)
        row |= {
            "compute %": _number(line.compute_percent, 1),
            "comm %": _number(line.communication_percent, 1),
            "exposed %": _number(line.exposed_communication_percent, 1),
            "idle %": _number(line.idle_percent, 1),
            "data ms": _number(line.data_ms, 2),
            "wait ms": _number(line.wait_ms, 2),
            "blame %": _number(line.blame_percent, 1),
        }
        for name, cell in row.items():
            columns[name].append(cell)
    return {name: cells for name, cells in columns.items() if any(cell != "-" for cell in cells)}


def _shown(report: JobReport) -> list[RankLine]:
    """All ranks, or those that are named in a diagnosis, the extremes, and the first ones."""
    lines = report.lines
    if len(lines) <= MAX_RANKS:
        return list(lines)
    by_step = sorted(lines, key=lambda line: line.step_ms or line.window_ms)
    ranks = [rank for diagnosis in report.diagnoses for rank in diagnosis.ranks]
    ranks += [by_step[-1].rank, by_step[0].rank]
    ranks += [line.rank for line in lines]
    # The same rank may be wanted for several reasons.
    shown_ranks = list(dict.fromkeys(ranks))[:MAX_RANKS]
    return [line for line in lines if line.rank in shown_ranks]


def _where_time_goes(report: JobReport) -> list[RenderableType]:
    """The mean step of all ranks (without steps, the device's time) as one bar, and its parts."""
    sums: dict[str, float] = defaultdict(float)
    for parts in report.step_parts.values():
        for part, ms in parts.items():
            sums[part] += ms / len(report.lines)
    whole = sum(sums.values())
    if whole <= 0:
        return []
    bar = Text()
    for part, ms in sums.items():
        bar.append("█" * round(BAR * ms / whole), _COLOURS.get(part, "white"))
    has_steps = any(line.step_ms is not None for line in report.lines)
    what = "a step" if has_steps else "window"
    head = Text.assemble((f"{what}  ", "dim"), bar, f"  {whole:,.1f} ms")
    return [Text(), head, _shares(sums, whole)]


def _shares(sums: Mapping[str, float], whole: float) -> Text:
    """The parts of the bar in words, the largest first, in lines of at most 76 characters."""
    words = Text()
    for part, ms in sorted(sums.items(), key=lambda item: -item[1]):
        if ms < 0.005 * whole:
            # It would round to 0 %.
            continue
        word = f"{part} {100 * ms / whole:.0f} %  "
        line = words.plain.rpartition("\n")[2]
        if len(line) + len(word) > 76:
            words.rstrip()
            words.append("\n")
        words.append("■ ", _COLOURS.get(part, "white"))
        words.append(word)
    return words


def _top(report: JobReport, width: int) -> list[RenderableType]:
    """Kernels with the most time, or operators where nothing ran on a device."""
    summaries = report.result.summaries
    kernels = kernel_lines(summaries)
    rows = []
    if kernels:
        head = f"{'ms':>10} {'%':>6} {'calls':>9} {'median µs':>10}  top kernels"
        whole = kernel_time(summaries)
        for kernel in kernels[:MAX_KERNELS]:
            rows.append(
                f"{kernel.total / 1e6:>10,.2f} {100 * kernel.total / whole:>6.1f} "
                f"{kernel.count:>9,} {kernel.median / 1e3:>10,.1f}  {kernel.name}"
            )
    else:
        head = f"{'ms/step':>10}  top operators, their own time"
        for name, ns in operator_lines(summaries)[:MAX_KERNELS]:
            rows.append(f"{ns / 1e6:>10,.2f}  {name}")
    if not rows:
        return []
    parts: list[RenderableType] = [Text(), Text(head, style="dim")]
    parts += [Text(_safe(row, width)) for row in rows]
    return parts


def _memory(file: str, rows: Sequence[dict[str, Any]]) -> RenderableType:
    """The fullest moment of a raw memory timeline, by category."""
    peak: dict[str, float] = {}
    peak_bytes = 0.0
    for row in rows:
        sizes = {name: size for name, size in row.items() if name.endswith("_bytes")}
        whole = sum(sizes.values())
        if not peak or whole > peak_bytes:
            peak, peak_bytes = sizes, whole
    parts = []
    for name, size in peak.items():
        if size > 0:
            parts.append((size, name.removesuffix("_bytes").replace("_", " ")))
    parts.sort(reverse=True)
    text = ", ".join(f"{name} {size / 1e9:,.2f}" for size, name in parts)
    return Text(f"memory of {_safe(file, 80)}: at most {peak_bytes / 1e9:,.2f} GB ({text})")


def _notes(report: JobReport) -> list[RenderableType]:
    """What was not read, and where the ranks come from."""
    dropped = report.dropped
    notes = _unread(dropped)
    for file, reasons in list(dropped["events"].items())[:3]:
        text = ", ".join(f"{count:,} {_safe(reason, 60)}" for reason, count in reasons.items())
        notes.append(f"dropped of {_safe(file, 60)}: {text}")
    for analysis in sorted({entry["analysis"] for entry in dropped["analyses"]}):
        ranks = [entry for entry in dropped["analyses"] if entry["analysis"] == analysis]
        notes.append(f"no {analysis} of {len(ranks)} ranks: {_safe(ranks[0]['why'], 120)}")
    if len(report.lines) > 1 and any(line.rank_source == "order" for line in report.lines):
        notes.append(report.rank_source_text)
    parts: list[RenderableType] = [Text()]
    parts += [Text(note, style="dim") for note in notes]
    return parts


def _unread(dropped: Mapping[str, Any]) -> list[str]:
    files = dropped["files"]
    notes = []
    for entry in files[:4]:
        notes.append(f"not read: {_safe(entry['file'], 80)} {_safe(entry['why'], 160)}")
    if len(files) > 4:
        notes.append(f"not read: {len(files) - 4} more files (--json names them)")
    older = dropped["older_captures"]
    if older:
        notes.append(f"older captures of the same ranks, left out: {len(older)} files")
    return notes


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _sentence(text: str, limit: int) -> str:
    return capitalised(visible(text, limit))


def _safe(text: str, limit: int) -> str:
    return visible(text, limit)
