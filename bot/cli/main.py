"""The command line. Other programs call it: options and exit codes are stable."""

from __future__ import annotations

import logging
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from analysis.errors import EvidenceError, FaultlineError, SettingsError
from bot.cli.model_commands import model_commands
from bot.cli.operating_commands import add_operating_commands
from bot.runtime import garbage
from trace_report.commands import trace_commands

app = typer.Typer(
    name="faultline",
    help="Investigates incidents, and posts the cause, the impact, the evidence and the next step "
    "to the alert's channel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(
    trace_commands,
    name="trace",
    help="Find out what is wrong with a training job, from its traces.",
)
app.add_typer(model_commands, name="model")
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file. Default: faultline.toml in the working directory."
    ),
]


class ExportAs(StrEnum):
    """The exports of `bot.answer.exports.formats`, named here so that other commands do not load
    them."""

    POSTMORTEM = "postmortem"
    JSON = "json"
    AGENT = "agent"


BAD_INPUT = 2
"""Exit code when settings or input cannot be read."""


@app.command()
def demo(
    exit_: Annotated[bool, typer.Option("--exit", help="Exit when the answer is there.")] = False,
    port: Annotated[int, typer.Option(help="Port of the pages. 0 takes any free one.")] = 0,
) -> None:
    """Play a recorded incident from alert to answer on this machine. Needs no account and no
    key."""
    from demo.run import run_demo

    raise typer.Exit(run_demo(stay=not exit_, port=port))


@app.command()
def lab(
    fault: Annotated[
        str | None,
        typer.Option("--fault", metavar="NAME", help="The fault to turn on. See --list."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed for choosing the fault.")] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=1, help="Seconds between Prometheus' scrapes.")
    ] = 5,
    small: Annotated[
        bool, typer.Option("--small", help="Three services, without Redis and PostgreSQL.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Print the faults and exit.")] = False,
    exit_: Annotated[bool, typer.Option("--exit", help="Exit when the answer is there.")] = False,
    port: Annotated[int, typer.Option(help="Port of the pages. 0 takes any free one.")] = 0,
) -> None:
    """Break a live shop on this machine with one fault, and compare the bot's answer with the
    truth."""
    from proving_ground.live.lab import LabOptions, print_faults, run_lab

    if list_:
        print_faults()
        return
    options = LabOptions(
        fault=fault, seed=seed, interval_s=interval, small=small, stay=not exit_, port=port
    )
    raise typer.Exit(run_lab(options))


@app.command()
def serve(
    config: Config = None,
    no_worker: Annotated[
        bool,
        typer.Option("--no-worker", help="Do not start a worker. Use `faultline worker` instead."),
    ] = False,
) -> None:
    """Run the bot: webhooks, Slack, web pages and one worker."""
    garbage.keep_little()
    with garbage.loading():
        from bot.processes.launch import serve as run
        from bot.settings import load_settings

    run(load_settings(config), config, with_worker=not no_worker)


@app.command()
def worker(
    config: Config = None,
    supervised_by: Annotated[int | None, typer.Option(hidden=True)] = None,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run another worker on the same queue."""
    garbage.keep_little()
    with garbage.loading():
        from bot.processes.launch import work
        from bot.settings import load_settings

    work(load_settings(config), supervised_by=supervised_by, ready_fd=ready_fd)


@app.command()
def check(
    config: Config = None,
    role: Annotated[
        Literal["server", "worker"] | None,
        typer.Option(help="Also report secrets that this process holds and does not need."),
    ] = None,
) -> None:
    """Check that each configured connector is reachable, allowed and read-only. Exit 1 if one is
    not."""
    from bot.processes.check import run_checks
    from bot.settings import load_settings

    raise typer.Exit(run_checks(load_settings(config), role))


@app.command()
def investigate(
    case: Annotated[Path, typer.Argument(help="A case folder.")],
    json_: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Analyze a recorded case offline. Exit 0 whatever the verdict, 2 if the case cannot be
    read."""
    from bot.answer.replay import print_json, print_report, replay

    replayed = replay(case)
    (print_json if json_ else print_report)(replayed)


def _url(vendor: str, port: int) -> Any:
    """An option for the address of a source."""
    told = f"Address of {vendor}, such as http://localhost:{port}."
    return typer.Option(f"--{vendor.lower()}", metavar="URL", help=told)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What you see: checkout is slow since 14:19.")],
    service: Annotated[
        str | None, typer.Option("--service", metavar="NAME", help="The service it is about.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="When it began: 30m, 2h, 14:19, an ISO time."),
    ] = None,
    prometheus: Annotated[str | None, _url("Prometheus", 9090)] = None,
    loki: Annotated[str | None, _url("Loki", 3100)] = None,
    tempo: Annotated[str | None, _url("Tempo", 3200)] = None,
    jaeger: Annotated[str | None, _url("Jaeger", 16686)] = None,
    context: Annotated[
        str | None,
        typer.Option(
            "--context", metavar="NAME", help="Context of the kubeconfig, not the current."
        ),
    ] = None,
    no_kubernetes: Annotated[
        bool, typer.Option("--no-kubernetes", help="Do not use the kubeconfig.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    case: Annotated[
        Path | None,
        typer.Option("--case", metavar="DIR", help="Keep the case in this folder, which is empty."),
    ] = None,
    config: Config = None,
) -> None:
    """Investigate now, from this terminal: against the configured sources, or those named here.
    Changes nothing anywhere."""
    from bot.cli.ask_command import AskOptions
    from bot.cli.ask_command import ask as run

    urls = {"prometheus": prometheus, "loki": loki, "tempo": tempo, "jaeger": jaeger}
    options = AskOptions(
        service=service,
        since=since,
        urls={name: url for name, url in urls.items() if url},
        context=context,
        kubernetes=not no_kubernetes,
        config=config,
        as_json=json_,
        case=case,
    )
    raise typer.Exit(run(question, options))


@app.command()
def export(
    case: Annotated[Path, typer.Argument(help="A case folder.")],
    as_: Annotated[ExportAs, typer.Option("--as", help="The format.")] = ExportAs.POSTMORTEM,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File to write. Default: standard output."
        ),
    ] = None,
) -> None:
    """Write a case as a postmortem draft, JSON or a task for a coding agent."""
    from bot.answer.exports.formats import export as exported

    written = exported(case, as_.value)
    if output is None:
        sys.stdout.buffer.write(written)
        return
    try:
        output.write_bytes(written)
    except OSError as error:
        raise EvidenceError(
            str(output), f"cannot be written ({error.strerror or type(error).__name__})"
        ) from error


@app.command("eval")
def eval_(
    cases: Annotated[
        list[Path], typer.Argument(help="Folders of case folders with a label.json each.")
    ],
    json_: Annotated[
        bool, typer.Option("--json", help="Print the figures and each case as JSON.")
    ] = False,
    without: Annotated[
        str,
        typer.Option(
            "--without",
            metavar="TABLES",
            help="Hide tables from the analysis: logs,spans,topology,...",
        ),
    ] = "",
    workers: Annotated[
        int | None,
        typer.Option("--workers", help="Number of processes. Default: one per core."),
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Also grade simple methods on the same cases.")
    ] = False,
    compare: Annotated[
        Path | None,
        typer.Option("--compare", metavar="FILE", help="Compare with an earlier --json output."),
    ] = None,
    left_out: Annotated[
        Path | None,
        typer.Option(
            "--left-out",
            metavar="FILE",
            help="Answer each system with weights fitted without it.",
        ),
    ] = None,
    model: Annotated[
        bool,
        typer.Option(
            "--model", help="Let the configured model investigate each case, and grade it."
        ),
    ] = False,
    config: Config = None,
) -> None:
    """Grade the answers on labelled cases: accuracy, changes, calibration, cost. Exit 0 whatever
    the grades."""
    if model:
        from bot.settings import load_settings
        from evaluation.model_run import run_model

        if without or workers is not None or baselines or compare or left_out:
            raise SettingsError("--model", "takes no other option but --config and --json")
        if len(cases) != 1:
            raise SettingsError("--model", "takes one folder of cases")
        run_model(cases[0], load_settings(config), json_=json_)
        return
    from evaluation.command import run_eval

    run_eval(
        cases,
        json_=json_,
        without=without,
        workers=workers,
        baselines=baselines,
        compare=compare,
        left_out=left_out,
    )


@app.command()
def capture(
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="NAME", help="A job in the settings: [jobs.NAME]."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", help="Length of the recording. Default: 0.5.")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", help="Record this many iterations instead of a duration."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Where to create a folder with the files."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Only show earlier captures.")] = False,
    config: Config = None,
) -> None:
    """Capture a trace from a running training job, if its settings allow it. Exit 1 if none was
    recorded."""
    from bot.cli.capture_command import capture_now, print_history
    from bot.settings import load_settings

    settings = load_settings(config)
    if history:
        print_history(settings, job)
        return
    if job is None:
        raise SettingsError("--job", "is needed: the name of a table [jobs.NAME] of the settings")
    raise typer.Exit(
        capture_now(settings, job, seconds=seconds, iterations=iterations, output=output)
    )


@app.command()
def topology(
    service: Annotated[
        str | None, typer.Option("--service", metavar="NAME", help="Only its callers and callees.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the calls as JSON.")] = False,
    config: Config = None,
) -> None:
    """Show which service calls which, where that is known from, and when it was last seen."""
    from bot.cli.topology_command import print_topology
    from bot.settings import load_settings

    print_topology(load_settings(config), service, json_=json_)


add_operating_commands(app)


def main() -> None:
    """Entry point: a known error is one line on standard error."""
    garbage.look_rarely()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        app()
    except (SettingsError, EvidenceError) as error:
        sys.stderr.write(f"faultline: {error}\n")
        sys.exit(BAD_INPUT)
    except FaultlineError as error:
        sys.stderr.write(f"faultline: {error}\n")
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
