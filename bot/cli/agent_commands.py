"""Commands that other programs start: `faultline mcp`."""

from __future__ import annotations

import typer

from bot.cli.source_options import (
    Config,
    Context,
    Jaeger,
    Loki,
    NoKubernetes,
    Prometheus,
    Tempo,
    given_urls,
)


def add_agent_commands(app: typer.Typer) -> None:
    """Make them known to the command line."""
    app.command()(mcp)


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
    from bot.cli.ask_command import AskOptions
    from bot.cli.mcp_command import run_mcp

    options = AskOptions(
        urls=given_urls(prometheus=prometheus, loki=loki, tempo=tempo, jaeger=jaeger),
        context=context,
        kubernetes=not no_kubernetes,
        config=config,
    )
    raise typer.Exit(run_mcp(options))
