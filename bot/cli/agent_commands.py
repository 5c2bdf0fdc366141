"""Commands that other programs start: `faultline mcp` for coding agents, `faultline verify-deploy`
for pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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


def add_agent_commands(app: typer.Typer) -> None:
    """Make them known to the command line."""
    app.command(short_help="Serve coding agents over MCP on standard input and output.")(mcp)
    app.command()(verify_deploy)


def mcp(
    prometheus: Prometheus = None,
    loki: Loki = None,
    tempo: Tempo = None,
    jaeger: Jaeger = None,
    context: Context = None,
    no_kubernetes: NoKubernetes = False,
    config: Config = None,
) -> None:
    """Serve coding agents over MCP on standard input and output: against the configured sources,
    or those named here. Changes nothing anywhere."""
    # Late: `--help` needs none of it.
    from faultline.bot.cli.ask_command import AskOptions
    from faultline.bot.cli.mcp_command import run_mcp

    options = AskOptions(
        urls=urls_by_connector(prometheus=prometheus, loki=loki, tempo=tempo, jaeger=jaeger),
        context=context,
        kubernetes=not no_kubernetes,
        config=config,
    )
    raise typer.Exit(run_mcp(options))


def verify_deploy(
    service: Annotated[str, typer.Argument(help="The service that was deployed.")],
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="TIME", help="When it was deployed: now, 10m, 14:19, an ISO time."
        ),
    ] = "now",
    wait: Annotated[
        str, typer.Option("--wait", metavar="LENGTH", help="How long after the deploy to watch.")
    ] = "15m",
    warm_up: Annotated[
        str,
        typer.Option("--warm-up", metavar="LENGTH", help="How much of that is not judged."),
    ] = "2m",
    baseline: Annotated[
        str,
        typer.Option("--baseline", metavar="LENGTH", help="How much time before to compare with."),
    ] = "6h",
    canary: Annotated[
        list[str] | None,
        typer.Option(
            "--canary",
            metavar="KIND=NAME",
            help="The part that got the deploy: version=v2, cluster=eu-1. Compared with the rest.",
        ),
    ] = None,
    place: Annotated[
        list[str] | None,
        typer.Option(
            "--place", metavar="LABEL=VALUE", help="Where it is: only sources that cover it."
        ),
    ] = None,
    prometheus: Prometheus = None,
    loki: Loki = None,
    context: Context = None,
    no_kubernetes: NoKubernetes = False,
    bot: Annotated[
        str | None,
        typer.Option(
            "--bot",
            metavar="URL",
            help="Let this bot ask its own sources. The token is in FAULTLINE_TOKEN.",
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Also write it as Markdown."),
    ] = None,
    config: Config = None,
) -> None:
    """Say whether a deploy made its service worse. Exit 0: go, 3: hold, which also says
    what is missing, 4: roll back. 1 and 2: there is no verdict. Changes nothing anywhere."""
    from faultline.bot.cli.ask_command import AskOptions
    from faultline.bot.cli.verify_command import VerifyOptions
    from faultline.bot.cli.verify_command import verify_deploy as run

    sources = AskOptions(
        urls=urls_by_connector(prometheus=prometheus, loki=loki),
        context=context,
        kubernetes=not no_kubernetes,
        config=config,
    )
    options = VerifyOptions(
        sources=sources,
        since=since,
        wait=wait,
        warm_up=warm_up,
        baseline=baseline,
        canary=tuple(canary or ()),
        place=tuple(place or ()),
        as_json=json_,
        markdown=markdown,
        bot=bot,
    )
    raise typer.Exit(run(service, options))
