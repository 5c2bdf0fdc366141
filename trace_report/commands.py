"""The commands `faultline trace PATH...` and `faultline trace diff BASE NEW`. Options and exit
codes are stable."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

REPORT = "report"
DIFF = "diff"


class _Trace(TyperGroup):
    """`diff` as the first word is the command; anything else is a path or an option of the
    report."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        return super().parse_args(ctx, args if first == DIFF else [REPORT, *args])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == REPORT else name), command, rest


trace_commands = typer.Typer(cls=_Trace, add_completion=False)


class Severity(StrEnum):
    """From when on a diagnosis makes the command fail."""

    warning = "warning"
    critical = "critical"


Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Files, folders, patterns, archives (.zip, .tar.gz) or s3://bucket/prefix.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Steps = Annotated[
    str,
    typer.Option(
        "--steps",
        metavar="NAME",
        help="The ranges that are steps, where the profiler marked none: train_step, 'iter *'.",
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Ranks read at once. Default: one per core.")
]


@trace_commands.command(
    REPORT, epilog="Two jobs compared: faultline trace diff BASE NEW [--fail-over 5%]"
)
def report(
    paths: Paths,
    json_: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page with charts.")
    ] = None,
    counters: Annotated[
        Path | None,
        typer.Option("--counters", metavar="FILE", help="Write the trace with counter tracks."),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto",
            metavar="FILE",
            help="Write the trace with the findings and the critical path, for ui.perfetto.dev.",
        ),
    ] = None,
    overlay: Annotated[Path | None, typer.Option("--overlay", hidden=True)] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", min=0, help="Analyses of this rank only.")
    ] = None,
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="Analyses of this step only.")
    ] = None,
    steps: Steps = "",
    analyses: Annotated[
        str | None,
        typer.Option(
            "--only", "--analyses", metavar="A,B", help="Only these analyses, separated by commas."
        ),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            "--tables", metavar="DIR", help="Write each analysis, all rows, as a Parquet file."
        ),
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option(
            "--jsonl",
            metavar="FILE",
            help="Write all rows as lines of JSON while ranks are read; - is standard output.",
        ),
    ] = None,
    fail_on: Annotated[
        Severity | None,
        typer.Option("--fail-on", help="Exit 1 if something at least this severe is wrong."),
    ] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Find out what is wrong with a training job, from its profiler traces, flight-recorder dumps
    and logs.

    All paths together are one job. Exit 0 whatever is wrong with it, 2 if nothing could be read.
    """
    # Late: the engine takes time to import, which `--help` does not need.
    from faultline.trace_report.report_command import Options, run_report

    # Older scripts may still use this name.
    if overlay is not None:
        sys.stderr.write("faultline: --overlay is now called --perfetto\n")

    options = Options(
        paths=tuple(paths),
        as_json=json_,
        html=html,
        counters=counters,
        perfetto=perfetto or overlay,
        tables=tables,
        lines=lines,
        rank=rank,
        step=step,
        steps=steps,
        analyses=analyses,
        fail_on=fail_on.value if fail_on else None,
        jobs=jobs,
        progress=not quiet and sys.stderr.isatty(),
    )
    raise typer.Exit(run_report(options))


@trace_commands.command(DIFF)
def diff(
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="The earlier job: paths as for `faultline trace`.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The later job.")],
    fail_over: Annotated[
        str | None,
        typer.Option(
            "--fail-over", metavar="5%", help="Exit 1 if the step grew by more than this."
        ),
    ] = None,
    repeats: Annotated[
        bool,
        typer.Option(
            "--repeats",
            help="BASE and NEW hold several runs, one folder each, to measure their noise.",
        ),
    ] = False,
    steps: Steps = "",
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Write the comparison as Markdown."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Compare two jobs. Exit 0, 1 if one grew by more than --fail-over, 2 if one cannot be read."""
    from faultline.trace_report.diff_command import DiffOptions, run_diff

    options = DiffOptions(
        base=base,
        new=new,
        fail_over=fail_over,
        repeats=repeats,
        steps=steps,
        markdown=markdown,
        as_json=json_,
        jobs=jobs,
        progress=not quiet and sys.stderr.isatty(),
    )
    raise typer.Exit(run_diff(options))
