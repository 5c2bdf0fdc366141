"""The comparison of two jobs as Markdown, for the summary of a pipeline. Names out of traces are
inert in it."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.traces.comparison.trace_diff import NameDifference, Side
from analysis.traces.comparison.trace_regressions import Measure, Regression, grown, measures
from trace_report.diff_command import MAX_NAMES, Compared
from trace_report.page_parts import visible

MAX_STATEMENT = 240
MAX_NAME = 120


def markdown_of(found: Compared) -> str:
    """What grew first, then the measures, then the names that grew, then what was compared."""
    failing = {(r.kind, r.measure.name) for r in found.failing}
    lines = [f"### {_heading(found)}", ""]
    told = [r for r in found.failing if r.kind == "measure"] or list(found.failing[:MAX_NAMES])
    lines += [*(f"- {_statement(r)}" for r in told), *([""] if told else [])]
    lines += ["| median of the steps | base | new | change | |", "|---|--:|--:|--:|---|"]
    lines += [_measure_row(m, ("measure", m.name) in failing) for m in measures(found.diff)]
    for kind, on_device in (("kernel", True), ("operator", False)):
        chosen = grown(found.diff, MAX_NAMES, on_device=on_device)
        if chosen:
            lines += ["", f"<details><summary>{kind}s that grew, per step</summary>", ""]
            lines += [f"| ms more | base ms | new ms | | {kind} |", "|--:|--:|--:|---|---|"]
            lines += [_name_row(d, (kind, d.name) in failing) for d in chosen]
            lines += ["", "</details>"]
    base, new = (_compared(side) for side in (found.diff.control, found.diff.test))
    return "\n".join([*lines, "", f"Base: {base}. New: {new}.", ""])


def _heading(found: Compared) -> str:
    if not found.failing:
        return f"Nothing grew by more than {found.limit_percent:g} % and the noise"
    first = found.failing[0]
    by = f" by {first.measure.growth_percent:.1f} %" if first.measure.control else ""
    name = (
        first.measure.name.capitalize()
        if first.kind == "measure"
        else f"{first.kind.capitalize()} time"
    )
    return f"{name} grew{by}"


def _statement(regression: Regression) -> str:
    """The sentence with the name of a kernel or operator as code."""
    said = regression.statement
    name = regression.measure.name[:200]
    if regression.kind != "measure":
        said = said.removeprefix(f"{regression.kind} {name}")
        return f"{regression.kind} {_code(name)}{visible(said, MAX_STATEMENT)}"
    return visible(said[:1].upper() + said[1:], MAX_STATEMENT)


def _measure_row(m: Measure, fails: bool) -> str:
    divisor, unit = (1e6, "ms") if m.unit == "ns" else (1e9, "GB")
    change = f"{m.growth_percent:+.1f} %" if abs(m.growth_percent) != float("inf") else "new"
    note = "**grew**" if fails else "within noise" if 0 < abs(m.growth) <= m.noise else ""
    return (
        f"| {m.name}, {unit} | {m.control / divisor:,.2f} | {m.test / divisor:,.2f} | {change} "
        f"| {note} |"
    )


def _name_row(d: NameDifference, fails: bool) -> str:
    before, after = d.control.own_ns_median / 1e6, d.test.own_ns_median / 1e6
    mark = "**!**" if fails else ""
    return f"| {after - before:,.3f} | {before:,.3f} | {after:,.3f} | {mark} | {_code(d.name)} |"


def _code(name: str) -> str:
    """A name as code in a cell: no markup, link, mention or further cell comes out of it."""
    shown = visible(name, MAX_NAME).replace("`", "'").replace("|", "¦").strip()
    return f"`{shown or '(no name)'}`"


def _compared(side: Side) -> str:
    counts: Sequence[tuple[int, str]] = (
        (len(set(side.run.tolist())), "run"),
        (len({rank for rank, _ in side.samples}), "rank"),
        (len(side.samples), "step"),
    )
    return ", ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for count, what in counts)
