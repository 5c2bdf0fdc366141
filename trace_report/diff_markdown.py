"""The comparison of two jobs as Markdown, for the summary of a pipeline. Names out of traces are
inert in it."""

from __future__ import annotations

import math

from faultline.analysis.traces.comparison.trace_diff import Side
from faultline.analysis.traces.comparison.trace_regressions import (
    Measure,
    Regression,
    grown,
    measures,
)
from faultline.trace_report.job_comparison import MAX_NAMES, JobComparison
from faultline.trace_report.page_parts import visible

MAX_STATEMENT = 240
MAX_NAME = 120


def markdown_of(comparison: JobComparison) -> str:
    """What grew first, then the measures, then the names that grew, then what was compared."""
    failing = {(regression.kind, regression.measure.name) for regression in comparison.failing}
    lines = [f"### {_heading(comparison)}", ""]
    statements = _statements(comparison)
    if statements:
        lines += [*statements, ""]
    lines += ["| median of the steps | base | new | change | |", "|---|--:|--:|--:|---|"]
    for measure in measures(comparison.diff):
        lines.append(_measure_row(measure, ("measure", measure.name) in failing))
    for kind in ("kernel", "operator"):
        chosen = grown(comparison.diff, MAX_NAMES, on_device=kind == "kernel")
        if not chosen:
            continue
        lines += ["", f"<details><summary>{kind}s that grew, per step</summary>", ""]
        lines += [f"| ms more | base ms | new ms | | {kind} |", "|--:|--:|--:|---|---|"]
        for difference in chosen:
            fails = (kind, difference.name) in failing
            before = difference.control.self_ns_median / 1e6
            after = difference.test.self_ns_median / 1e6
            mark = "**!**" if fails else ""
            numbers = f"| {after - before:,.3f} | {before:,.3f} | {after:,.3f} "
            lines.append(f"{numbers}| {mark} | {_code(difference.name)} |")
        lines += ["", "</details>"]
    base, new = _contents(comparison.diff.control), _contents(comparison.diff.test)
    return "\n".join([*lines, "", f"Base: {base}. New: {new}.", ""])


def _heading(comparison: JobComparison) -> str:
    if not comparison.failing:
        return f"Nothing grew by more than {comparison.limit_percent:g} % and the noise"
    first = comparison.failing[0]
    name = f"{first.kind.capitalize()} time"
    if first.kind == "measure":
        name = first.measure.name.capitalize()
    # What was not there before has no growth in percent.
    by = f" by {first.measure.growth_percent:.1f} %" if first.measure.control else ""
    return f"{name} grew{by}"


def _statements(comparison: JobComparison) -> list[str]:
    """The measures that grew; where none did, the kernels and operators that did."""
    shown_regressions = [
        regression for regression in comparison.failing if regression.kind == "measure"
    ]
    if not shown_regressions:
        shown_regressions = list(comparison.failing[:MAX_NAMES])
    return [f"- {_statement(regression)}" for regression in shown_regressions]


def _statement(regression: Regression) -> str:
    """The sentence with the name of a kernel or operator as code."""
    statement = regression.statement
    name = regression.measure.name[:200]
    if regression.kind != "measure":
        # The statement begins with the kind and the name: put them back with the name as code.
        statement = statement.removeprefix(f"{regression.kind} {name}")
        return f"{regression.kind} {_code(name)}{visible(statement, MAX_STATEMENT)}"
    return visible(statement[:1].upper() + statement[1:], MAX_STATEMENT)


def _measure_row(measure: Measure, fails: bool) -> str:
    divisor, unit = (1e6, "ms") if measure.unit == "ns" else (1e9, "GB")
    change = "new"
    if math.isfinite(measure.growth_percent):
        change = f"{measure.growth_percent:+.1f} %"
    note = ""
    if fails:
        note = "**grew**"
    elif 0 < abs(measure.growth) <= measure.noise:
        note = "within noise"
    before, after = measure.control / divisor, measure.test / divisor
    return f"| {measure.name}, {unit} | {before:,.2f} | {after:,.2f} | {change} | {note} |"


def _code(name: str) -> str:
    """A name as code in a cell: no markup, link, mention or further cell comes out of it."""
    shown = visible(name, MAX_NAME).replace("`", "'").replace("|", "¦").strip()
    return f"`{shown or '(no name)'}`"


def _contents(side: Side) -> str:
    """How many runs, ranks and steps one side has."""
    ranks = {rank for rank, _ in side.samples}
    counts = (
        _counted(len(set(side.run.tolist())), "run"),
        _counted(len(ranks), "rank"),
        _counted(len(side.samples), "step"),
    )
    return ", ".join(counts)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
