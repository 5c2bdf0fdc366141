"""`faultline model`: the language model that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError, SettingsError

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file. Default: faultline.toml in the working directory."
    ),
]

model_commands = typer.Typer(no_args_is_help=True, help="Check the language model.")


@model_commands.callback()
def model() -> None:
    """Check the language model."""


@model_commands.command()
def check(config: Config = None) -> None:
    """Show what the configured server can do, by two small requests. Exit 1 if it does not
    answer."""
    from faultline.bot.settings import load_settings

    settings = load_settings(config).model
    if settings.name is None:
        raise SettingsError("model.name", "is not set: the built-in writer words the reports")
    # Late: loading the client takes most of a second, and asyncio a sixth of `--help`.
    import asyncio

    from faultline.bot.investigation.model.model_check import screen
    from faultline.bot.investigation.model.probe import probe

    try:
        typer.echo(screen(asyncio.run(probe(settings)), settings))
    except (ConnectorError, BudgetExceeded) as error:
        typer.echo(f"faultline: {error}{_advice(error)}", err=True)
        raise typer.Exit(1) from None


def _advice(error: FaultlineError) -> str:
    status = error.status if isinstance(error, ConnectorError) else None
    if status in (401, 403):
        return ". The key was refused: check FAULTLINE_MODEL__API_KEY."
    if status == 404:
        return ". Check model.name, model.base_url (it usually ends in /v1) and model.api."
    if isinstance(error, ConnectorError) and error.call == "connect":
        return ". Nothing answers at model.base_url from this machine."
    return ""
