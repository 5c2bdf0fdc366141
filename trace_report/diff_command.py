"""`faultline trace diff BASE NEW`: what grew from one job to another, for people and for CI."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from faultline.analysis.errors import EvidenceError, SettingsError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.comparison.trace_diff import (
    Side,
    TraceDiff,
    compared,
    diff_rows,
    joined,
    side_of,
)
from faultline.analysis.traces.comparison.trace_regressions import (
    FAIL_OVER_PERCENT,
    Measure,
    Regression,
    grown,
    measures,
    regression_rows,
    regressions,
)
from faultline.analysis.traces.job.trace_readers import traces_in
from faultline.trace_report.analysis_run import problem_of, trace_files, trace_task
from faultline.trace_report.page_parts import visible
from faultline.trace_report.progress import Say as Progress
from faultline.trace_report.progress import progress as shown_progress
from faultline.trace_report.progress import say_what_is_slow
from faultline.trace_report.registry import cut
from faultline.trace_report.report_command import MAX_PROBLEM
from faultline.trace_report.sources import opened
from faultline.trace_report.workers import Say, run_tasks

# Two training jobs beside one another, as text, Markdown and JSON show them.

MAX_NAMES = 10
"""Kernels, and operators, that are named one by one."""


@dataclass(frozen=True)
class JobComparison:
    """What differs, and what of it grew by more than the limit and the noise."""

    diff: TraceDiff
    limit_percent: float
    failing: tuple[Regression, ...]


GREW = 1
MAX_FAILURES = 20
"""Files that could not be read, named one by one."""
WIDTH = 100
_LIMIT = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*%?")


@dataclass(frozen=True)
class DiffOptions:
    """The options of the command."""

    base: str
    new: str
    fail_over: str | None = None
    repeats: bool = False
    """Whether each side holds several runs of the job."""
    steps: str = ""
    """Name or pattern of the ranges that are steps; "" to find them."""
    markdown: Path | None = None
    as_json: bool = False
    jobs: int | None = None
    progress: bool = False


def run_diff(options: DiffOptions) -> int:
    """Run the command; the exit code. Raises EvidenceError when one of the jobs cannot be read."""
    limit = percent(options.fail_over)
    say_what_is_slow()
    with shown_progress(options.progress) as say:
        diff = compared(*(read_side(path, options, say) for path in (options.base, options.new)))
    allowed = FAIL_OVER_PERCENT if limit is None else limit
    job_comparison = JobComparison(diff, allowed, tuple(regressions(diff, allowed)))
    if options.markdown is not None:
        from faultline.trace_report.report_command import write_file

        write_file(options.markdown, markdown_of(job_comparison).encode("utf-8", "replace"))
    if options.as_json:
        from faultline.trace_report.json_output import write_json

        write_json(as_answer(options.base, options.new, job_comparison))
    else:
        sys.stdout.write("\n".join(line.rstrip() for line in lines_of(job_comparison)) + "\n")
    # Growth fails the command only where a limit was given.
    return GREW if job_comparison.failing and limit is not None else 0


def percent(text: str | None) -> float | None:
    """ "5%" or "5" as 5.0. Raises SettingsError for what is no percentage."""
    if text is None:
        return None
    match = _LIMIT.fullmatch(text.strip())
    if match is None:
        raise SettingsError("--fail-over", f"{visible(text, 40)!r} is no percentage, like 5%")
    return float(match[1])


@dataclass(frozen=True)
class _SideTask:
    path: Path
    name: str
    order: int
    steps: str


@dataclass(frozen=True)
class _RankSide:
    rank: str | None
    """None, where neither the trace nor its name says the rank."""
    file: str
    process: int
    """Of an export of several processes."""
    start_ns: int
    side: Side


def read_side(path: str, options: DiffOptions, say: Progress) -> Side:
    """All ranks of one job, or of its runs: the newest trace of each. Raises EvidenceError when
    none can be read."""
    with opened([path]) as sources:
        _, names, files = trace_files(sources)
        tasks = []
        for order, file in enumerate(files):
            tasks.append(
                trace_task(file, _SideTask(file.path, names[file.path], order, options.steps))
            )
        problems = list(sources.problems)
        rank_sides: list[_RankSide] = []
        done = 0
        for update in run_tasks(_read, tasks, options.jobs):
            name = tasks[update.number].argument.name
            done += update.done
            say(f"{name} {update.doing}", done, len(tasks))
            if update.error is not None:
                problems.append((name, problem_of(update.error)))
            rank_sides += update.result or ()
    if not rank_sides:
        # A single problem says more than that nothing was found.
        file_name, why = problems[0] if len(problems) == 1 else (path, "holds no trace")
        raise EvidenceError(visible(file_name, MAX_PROBLEM), visible(why, MAX_PROBLEM))
    _write_problems(problems)
    return _joined(_runs(rank_sides) if options.repeats else [rank_sides])


def _write_problems(problems: Sequence[tuple[str, str]]) -> None:
    for file, why in problems[:MAX_FAILURES]:
        sys.stderr.write(visible(f"faultline: {file}: {why}", MAX_PROBLEM) + "\n")
    more = len(problems) - MAX_FAILURES
    if more > 0:
        sys.stderr.write(f"faultline: {more:,} more files could not be read\n")


def _runs(rank_sides: Sequence[_RankSide]) -> list[list[_RankSide]]:
    """The traces of each run: those of one folder; without folders each rank's first, second, ...
    capture."""
    if any("/" in side.file for side in rank_sides):
        folders: dict[str, list[_RankSide]] = {}
        for side in sorted(rank_sides, key=lambda side: side.file):
            folder = side.file.rpartition("/")[0]
            run = folder.partition("/")[0]
            folders.setdefault(run, []).append(side)
        return list(folders.values())
    runs: list[list[_RankSide]] = []
    captures: Counter[tuple[str, ...]] = Counter()
    # By start: a rank's n-th capture belongs to the n-th run.
    for side in sorted(rank_sides, key=lambda side: (side.start_ns, side.file)):
        key = ("", str(side.process)) if side.rank is None else (side.rank,)
        number = captures[key]
        captures[key] += 1
        if number == len(runs):
            runs.append([])
        runs[number].append(side)
    return runs


def _joined(runs: Iterable[Sequence[_RankSide]]) -> Side:
    """The newest trace of each rank in each run."""
    sides: list[Side] = []
    for number, run in enumerate(runs):
        newest: dict[tuple[str, ...], _RankSide] = {}
        for side in run:
            # A trace without a rank counts as a rank by itself.
            key: tuple[str, ...] = (side.file, str(side.process))
            if side.rank is not None:
                key = (side.rank,)
            previous = newest.get(key)
            if previous is None or previous.start_ns < side.start_ns:
                newest[key] = side
        for _, side in sorted(newest.items(), key=itemgetter(0)):
            sides.append(side.side.of_run(number))
    return joined(sides)


def _read(task: _SideTask, say: Say) -> list[_RankSide]:
    say("reading")
    traces = traces_in(task.path, order=task.order)
    say("counting")
    named = [replace(trace, step_name=task.steps or trace.step_name) for trace in traces]
    return [_side(trace, task.name) for trace in named]


def _side(trace: TraceColumns, name: str) -> _RankSide:
    start = int(trace.ts.min()) if len(trace) else 0
    rank = str(trace.rank) if trace.rank_source != "order" else None
    return _RankSide(rank, name, trace.rank, start, side_of(trace, short_names=True))


def as_answer(base: str, new: str, comparison: JobComparison) -> dict[str, Any]:
    """What `--json` prints."""
    failing = []
    for regression in comparison.failing:
        failing.append(
            {
                "kind": regression.kind,
                "name": regression.measure.name,
                "growth_percent": round(regression.measure.growth_percent, 2),
                "statement": regression.statement,
            }
        )
    return {
        "base": _side_answer(base, comparison.diff.control),
        "new": _side_answer(new, comparison.diff.test),
        "fail_over_percent": comparison.limit_percent,
        "fails": bool(comparison.failing),
        "regressions": failing,
        "measures": regression_rows(comparison.diff, comparison.limit_percent),
        "names": cut(diff_rows(comparison.diff)),
    }


def _side_answer(path: str, side: Side) -> dict[str, Any]:
    return {
        "path": path,
        "ranks": len({rank for rank, _ in side.samples}),
        "runs": len(set(side.run.tolist())),
        "samples": len(side.samples),
    }


def lines_of(comparison: JobComparison) -> list[str]:
    """The comparison for a person."""
    failing = {(regression.kind, regression.measure.name) for regression in comparison.failing}
    lines = [f"{'':<24} {'base':>12} {'new':>12} {'change':>9}   median of the steps"]
    for measure in measures(comparison.diff):
        lines.append(_measure_line(measure, ("measure", measure.name) in failing))
    for kind in ("kernel", "operator"):
        chosen = grown(comparison.diff, MAX_NAMES, on_device=kind == "kernel")
        if not chosen:
            continue
        title = f"{kind}s that grew, per step"
        lines += ["", f"{'ms more':>9} {'base ms':>10} {'new ms':>10}   {title}"]
        for difference in chosen:
            fails = (kind, difference.name) in failing
            before = difference.control.self_ns_median / 1e6
            after = difference.test.self_ns_median / 1e6
            mark = "!" if fails else " "
            line = (
                f"{after - before:>9,.3f} {before:>10,.3f} {after:>10,.3f} {mark} {difference.name}"
            )
            # Names come out of a trace: foreign text.
            lines.append(visible(line, WIDTH))
    return [*lines, "", *_verdict(comparison)]


def _measure_line(measure: Measure, fails: bool) -> str:
    divisor, unit = (1e6, "ms") if measure.unit == "ns" else (1e9, "GB")
    change = "new"
    if math.isfinite(measure.growth_percent):
        change = f"{measure.growth_percent:+.1f} %"
    note = ""
    if fails:
        note = "  grew"
    elif 0 < abs(measure.growth) <= measure.noise:
        note = "  within noise"
    name = f"{measure.name}, {unit}"
    before, after = measure.control / divisor, measure.test / divisor
    return f"{name:<24} {before:>12,.2f} {after:>12,.2f} {change:>9} {note}"


def _verdict(comparison: JobComparison) -> Sequence[str]:
    if not comparison.failing:
        return [f"Nothing grew by more than {comparison.limit_percent:g} % and the noise."]
    named = [regression for regression in comparison.failing if regression.kind == "measure"]
    if not named:
        named = list(comparison.failing[:MAX_NAMES])
    shown_changes = []
    for regression in named:
        statement = regression.statement
        shown_changes.append(visible(statement[:1].upper() + statement[1:], 240))
    more = len(comparison.failing) - len(shown_changes)
    if more:
        shown_changes.append(f"And {more} kernels and operators; those above with !")
    return shown_changes


# The comparison of two jobs as Markdown, for the summary of a pipeline. Names out of traces are
# inert in it.

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
