"""The command line. Other programs call it: options and exit codes are stable."""

from __future__ import annotations

import logging
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from faultline.analysis.errors import EvidenceError, FaultlineError, SettingsError
from faultline.bot.cli.agent_commands import add_agent_commands
from faultline.bot.cli.operating_commands import add_operating_commands, model_commands
from faultline.bot.cli.source_options import (
    Config,
    Context,
    Jaeger,
    Loki,
    NoKubernetes,
    Prometheus,
    Tempo,
    urls_by_connector,
)
from faultline.bot.runtime import garbage
from faultline.trace_report.commands import trace_commands

app = typer.Typer(
    name="faultline",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 100},
    # Boxes and colours take more processor time than everything else that help needs.
    rich_markup_mode=None,
)
app.add_typer(
    trace_commands,
    name="trace",
    help="Find out what is wrong with a training job, from its traces.",
    short_help="Find out what is wrong with a training job.",
)
app.add_typer(model_commands, name="model")


def _print_version(show_version: bool) -> None:
    if show_version:
        from importlib.metadata import version

        sys.stdout.write(f"faultline {version('faultline-bot')}\n")
        raise typer.Exit


@app.callback()
def faultline(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Investigates incidents, and posts the cause, the impact, the evidence and the next step to
    the alert's channel."""


class ExportAs(StrEnum):
    """The exports of `faultline.bot.answer.exports.formats`, named here so that other commands do
    not load them."""

    POSTMORTEM = "postmortem"
    JSON = "json"
    AGENT = "agent"


BAD_INPUT = 2
"""Exit code when settings or input cannot be read."""


@app.command(short_help="Play a recorded incident from alert to answer.")
def demo(
    exit_: Annotated[bool, typer.Option("--exit", help="Exit when the answer is there.")] = False,
    port: Annotated[int, typer.Option(help="Port of the pages. 0 takes any free one.")] = 0,
) -> None:
    """Play a recorded incident from alert to answer on this machine. Needs no account and no
    key."""
    # Late: each command loads only what it needs.
    from faultline.demo.run import run_demo

    raise typer.Exit(run_demo(stay=not exit_, port=port))


@app.command(short_help="Break a live shop with one fault, and see the answer.")
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
    from faultline.lab.live.lab import LabOptions, print_faults, run_lab

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
    # First: Polars reads these settings when it is loaded.
    garbage.keep_little()
    with garbage.loading():
        from faultline.bot.processes.launch import serve as run
        from faultline.bot.settings import load_settings

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
        from faultline.bot.processes.launch import work
        from faultline.bot.settings import load_settings

    work(load_settings(config), supervised_by=supervised_by, ready_fd=ready_fd)


@app.command(short_help="Ask five questions and write the settings.")
def init(
    directory: Annotated[
        Path, typer.Option("--directory", metavar="DIR", help="Where to write the two files.")
    ] = Path(),
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Its address, or none.")
    ] = None,
    kubernetes: Annotated[
        str | None,
        typer.Option("--kubernetes", metavar="NAME", help="A context of the kubeconfig, or none."),
    ] = None,
    alerts: Annotated[
        str | None,
        typer.Option("--alerts", metavar="A,B", help="Where alerts come from, or none."),
    ] = None,
    slack_channel: Annotated[
        str | None,
        typer.Option("--slack-channel", metavar="ID", help="For the answers, or none."),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option("--public-url", metavar="URL", help="Where people and vendors reach the bot."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing: take the defaults of what is not given.")
    ] = False,
) -> None:
    """Ask five questions, and write a settings file and a file for secrets. Overwrites nothing."""
    from faultline.bot.cli.init_command import InitOptions
    from faultline.bot.cli.init_command import init as run

    options = InitOptions(
        directory=directory,
        prometheus=prometheus,
        kubernetes=kubernetes,
        alerts=alerts,
        slack_channel=slack_channel,
        public_url=public_url,
        # Without a terminal nobody can answer.
        ask=not yes and sys.stdin.isatty(),
    )
    run(options, os.environ)


@app.command(short_help="Check that each configured part is reachable.")
def check(
    config: Config = None,
    role: Annotated[
        Literal["server", "worker"] | None,
        typer.Option(help="Also report secrets that this process holds and does not need."),
    ] = None,
) -> None:
    """Check that each configured connector is reachable, allowed and read-only. Exit 1 if one is
    not."""
    from faultline.bot.processes.check import run_checks
    from faultline.bot.settings import load_settings

    raise typer.Exit(run_checks(load_settings(config), role))


@app.command()
def investigate(
    case: Annotated[Path, typer.Argument(help="A case folder.")],
    json_: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Analyze a recorded case offline. Exit 0 whatever the verdict, 2 if the case cannot be
    read."""
    from faultline.bot.answer.replay import print_json, print_report, replay

    replayed = replay(case)
    (print_json if json_ else print_report)(replayed)


@app.command(short_help="Investigate now, from this terminal.")
def ask(
    question: Annotated[str, typer.Argument(help="What you see: checkout is slow since 14:19.")],
    service: Annotated[
        str | None, typer.Option("--service", metavar="NAME", help="The service it is about.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="When it began: 30m, 2h, 14:19, an ISO time."),
    ] = None,
    prometheus: Prometheus = None,
    loki: Loki = None,
    tempo: Tempo = None,
    jaeger: Jaeger = None,
    context: Context = None,
    no_kubernetes: NoKubernetes = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    case: Annotated[
        Path | None,
        typer.Option("--case", metavar="DIR", help="Keep the case in this folder, which is empty."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write the answer as one page that needs no server."
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Investigate now, from this terminal: against the configured sources, or those named here.
    Changes nothing anywhere."""
    from faultline.bot.cli.ask_command import AskOptions
    from faultline.bot.cli.ask_command import ask as run

    options = AskOptions(
        service=service,
        since=since,
        urls=urls_by_connector(prometheus=prometheus, loki=loki, tempo=tempo, jaeger=jaeger),
        context=context,
        kubernetes=not no_kubernetes,
        config=config,
        as_json=json_,
        case=case,
        html=html,
    )
    raise typer.Exit(run(question, options))


@app.command(short_help="Write a case as a postmortem, JSON or a task.")
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
    from faultline.bot.answer.exports.formats import export as exported

    written = exported(case, as_.value)
    if output is None:
        # As bytes: a text stream may change the encoding and the line ends.
        sys.stdout.buffer.write(written)
        return
    try:
        output.write_bytes(written)
    except OSError as error:
        raise EvidenceError(
            str(output), f"cannot be written ({error.strerror or type(error).__name__})"
        ) from error


@app.command("eval", short_help="Grade the answers on labelled cases.")
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
        from faultline.bot.settings import load_settings
        from faultline.evaluation.model_run import run_model

        if without or workers is not None or baselines or compare or left_out:
            raise SettingsError("--model", "takes no other option but --config and --json")
        if len(cases) != 1:
            raise SettingsError("--model", "takes one folder of cases")
        run_model(cases[0], load_settings(config), json_=json_)
        return
    from faultline.evaluation.command import run_eval

    run_eval(
        cases,
        json_=json_,
        without=without,
        workers=workers,
        baselines=baselines,
        compare=compare,
        left_out=left_out,
    )


@app.command(short_help="Capture a trace from a running training job.")
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
    from faultline.bot.cli.capture_command import capture_now, print_history
    from faultline.bot.settings import load_settings

    settings = load_settings(config)
    if history:
        print_history(settings, job)
        return
    if job is None:
        raise SettingsError("--job", "is needed: the name of a table [jobs.NAME] of the settings")
    raise typer.Exit(
        capture_now(settings, job, seconds=seconds, iterations=iterations, output=output)
    )


@app.command(short_help="Show which service calls which.")
def topology(
    service: Annotated[
        str | None, typer.Option("--service", metavar="NAME", help="Only its callers and callees.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the calls as JSON.")] = False,
    config: Config = None,
) -> None:
    """Show which service calls which, where that is known from, and when it was last seen."""
    from faultline.bot.cli.topology_command import print_topology
    from faultline.bot.settings import load_settings

    print_topology(load_settings(config), service, json_=json_)


@app.command(short_help="Show machines that were to blame again and again.")
def fleet(
    days: Annotated[
        float, typer.Option("--days", min=1, max=3650, help="How far back to look.")
    ] = 90,
    json_: Annotated[bool, typer.Option("--json", help="Print the machines as JSON.")] = False,
    config: Config = None,
) -> None:
    """Show machines of training jobs that earlier answers blamed more often than chance would have
    it, with those answers."""
    from faultline.bot.cli.fleet_command import print_fleet
    from faultline.bot.settings import load_settings

    print_fleet(load_settings(config), days, json_=json_)


@app.command(short_help="Sum up the last days for the next shift.")
def digest(
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="How far back: 7d, 24h, an ISO time.")
    ] = "7d",
    team: Annotated[
        str | None, typer.Option("--team", metavar="NAME", help="Only this team's alerts.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    config: Config = None,
) -> None:
    """Sum up the last days for the next shift, team by team: what is open, what recurs, which
    alerts were noise."""
    from faultline.bot.cli.digest_command import print_digest
    from faultline.bot.settings import load_settings

    print_digest(load_settings(config), since, team, json_=json_)


add_agent_commands(app)
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
    except ModuleNotFoundError as error:
        from faultline.bot.settings.extras import extra_of, install

        # The first argument that is no option is the command.
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        extra = extra_of(error.name, command)
        if extra is None:
            # No extra provides it: show the whole traceback.
            raise
        needed = f"faultline {command} needs an extra that is not installed: {install(extra)}"
        sys.stderr.write(f"{needed}\n")
        sys.exit(BAD_INPUT)
    except BrokenPipeError:
        # Python flushes standard output when it exits, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
