"""`faultline trace PATH...`: read, analyse, diagnose, and show."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from faultline.analysis.errors import EvidenceError, SettingsError
from faultline.trace_report.analysis_run import RankRequest, run_job
from faultline.trace_report.job_report import JobReport, answer, report_of, rows_of_job
from faultline.trace_report.json_lines import STANDARD_OUTPUT, line_writer, rest_of
from faultline.trace_report.page_parts import visible
from faultline.trace_report.progress import progress, say_what_is_slow
from faultline.trace_report.registry import chosen
from faultline.trace_report.sources import opened

SOMETHING_WRONG = 1
FAILING: Mapping[str | None, frozenset[str]] = {
    "critical": frozenset({"critical"}),
    "warning": frozenset({"critical", "warning"}),
}
"""Severities with which the command fails, by what --fail-on names."""
MAX_FAILURES = 20
"""Files that could not be read, named one by one; --json has all."""
ON_THE_TERMINAL = ("serving",)
"""Analyses of one rank that the terminal shows: cheap where they find nothing."""
IN_THE_SUMMARY = frozenset((*ON_THE_TERMINAL, "utilization"))
"""Analyses of one rank whose rows the summary needs."""
MAX_PROBLEM = 1_000
"""Characters of such a line: a command to type, with two paths in it, must stay whole."""


@dataclass(frozen=True)
class Options:
    """The options of the command."""

    paths: tuple[str, ...]
    as_json: bool = False
    html: Path | None = None
    counters: Path | None = None
    perfetto: Path | None = None
    tables: Path | None = None
    lines: str | None = None
    rank: int | None = None
    step: int | None = None
    steps: str = ""
    analyses: str | None = None
    fail_on: str | None = None
    jobs: int | None = None
    progress: bool = False


def run_report(options: Options) -> int:
    """Run the command; the exit code. Raises EvidenceError when nothing could be read."""
    say_what_is_slow()
    # Two documents in one stream would be no JSON.
    if options.as_json and options.lines == STANDARD_OUTPUT:
        raise SettingsError("--jsonl", "--json is on standard output already: name a file")
    whole = options.as_json or options.html is not None
    names = chosen(options.analyses)
    if not (whole or options.lines or options.tables is not None):
        # The terminal shows few analyses: make no others.
        names = tuple(name for name in ON_THE_TERMINAL if name in names)
    request = RankRequest(
        names,
        options.rank,
        options.step,
        charts=options.html is not None,
        steps=options.steps,
        as_lines=options.lines is not None,
        returned_analyses=None if whole else IN_THE_SUMMARY,
    )
    with (
        opened(options.paths) as sources,
        progress(options.progress) as say,
        line_writer(options.lines) as write_lines,
        _folder_for_ranks(options.tables) as table_folder,
    ):
        request = replace(request, table_folder=table_folder)
        result = run_job(sources, request, jobs=options.jobs, say=say, write_lines=write_lines)
        report = report_of(result, all_ranks=options.analyses is None)
        _check(report, options)
        if write_lines is not None:
            write_lines(rest_of(report))
        if options.tables is not None:
            _write_tables(report, options.tables)
        _show(report, options)
    failing = FAILING.get(options.fail_on, frozenset())
    return SOMETHING_WRONG if any(d.severity in failing for d in report.diagnoses) else 0


def _folder_for_ranks(tables: Path | None) -> AbstractContextManager[Path | None]:
    if tables is None:
        return nullcontext()
    from faultline.trace_report.tables import folder_for_ranks

    return folder_for_ranks(tables)


def _write_tables(report: JobReport, folder: Path) -> None:
    from faultline.trace_report.tables import write_tables

    ranks = []
    for rank in report.result.ranks:
        if rank.table_folder is not None:
            ranks.append((rank.summary.rank, rank.table_folder))
    write_tables(folder, ranks, rows_of_job(report))


def _check(report: JobReport, options: Options) -> None:
    if options.steps and report.lines and not any(line.steps for line in report.lines):
        raise SettingsError("--steps", f"no range is called {visible(options.steps, 80)!r}")
    _check_evidence(report, options.paths)
    if options.rank is not None and options.rank not in {line.rank for line in report.lines}:
        have = ", ".join(str(line.rank) for line in report.lines[:20])
        raise SettingsError("--rank", f"there is no rank {options.rank}; there are {have}")


def _check_evidence(report: JobReport, paths: tuple[str, ...]) -> None:
    """Name the files that could not be read. Raises EvidenceError where the others tell nothing."""
    failed = report.result.unread
    useful = report.lines or report.diagnoses or report.result.timelines
    if not useful and len(failed) == 1:
        raise EvidenceError(*(visible(words, MAX_PROBLEM) for words in failed[0]))
    for file, why in failed[:MAX_FAILURES]:
        sys.stderr.write(visible(f"faultline: {file}: {why}", MAX_PROBLEM) + "\n")
    if len(failed) > MAX_FAILURES:
        sys.stderr.write(
            f"faultline: {len(failed) - MAX_FAILURES:,} more files could not be read\n"
        )
    if not useful:
        kinds = Counter(f.kind.replace("_", " ") for f in report.result.files.files)
        counts = [f"{kind}: {count}" for kind, count in kinds.most_common()]
        phrase = f" ({', '.join(counts)})" if counts else ""
        raise EvidenceError(
            visible(" ".join(paths), 200),
            f"holds no trace, and no dump or log that tells anything{phrase}",
        )


def _show(report: JobReport, options: Options) -> None:
    if options.html is not None:
        from faultline.trace_report.page_view import page_of, render
        from faultline.trace_report.perfetto import windows_of

        assert options.html is not None
        # Never overwrite a trace.
        if any(_same_file(options.html, rank.path) for rank in report.result.ranks):
            raise SettingsError("--html", f"{options.html} is one of the traces")
        page = page_of(report, windows_of(report, options.jobs))
        write_file(options.html, render(page).encode("utf-8", "replace"))
    if options.counters is not None or options.perfetto is not None:
        from faultline.trace_report.augment_command import write_augmented

        write_augmented(
            report,
            options.rank,
            options.step,
            options.steps,
            options.counters,
            options.perfetto,
        )
    if options.as_json:
        from faultline.trace_report.json_output import write_json

        write_json(answer(report))
        return
    # Standard output holds lines of JSON already: add no text.
    if options.lines == STANDARD_OUTPUT:
        return
    from faultline.trace_report.terminal import print_report

    print_report(report, hint=options.html is None)


def _same_file(first: Path, other: Path) -> bool:
    try:
        return first.samefile(other)
    except OSError:
        return False


def write_file(file: Path, content: bytes) -> None:
    """Write a file that the user named. Raises SettingsError where that is impossible."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise SettingsError(
            str(file), f"cannot be written ({error.strerror or type(error).__name__})"
        ) from error
