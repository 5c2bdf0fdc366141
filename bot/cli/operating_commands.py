"""The commands of those who operate an installation; each loads what it needs when it is called."""

from __future__ import annotations

import sys
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
Name = Annotated[str, typer.Argument(metavar="ID", help="An investigation.")]
Sure = Annotated[
    bool, typer.Option("--yes", help="Do it. Without this, only show what would be done.")
]

database_commands = typer.Typer(
    no_args_is_help=True, help="Show the tables' version, upgrade and downgrade them."
)


def add_operating_commands(app: typer.Typer) -> None:
    """Make them known to the command line."""
    for command in (doctor, restore, requeue):
        app.command()(command)
    app.command(short_help="Back up the databases and the case folders.")(backup)
    app.command(short_help="Delete an investigation everywhere.")(delete)
    app.add_typer(database_commands, name="database")


def doctor(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="An investigation, a delivery, an alert or an incident."
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
    config: Config = None,
) -> None:
    """Show what is wrong and what to do about it. Changes nothing. Exit 0 if nothing is wrong, 1 if
    something is, 2 if it could not check."""
    from faultline.bot.operating.doctor import run_doctor
    from faultline.bot.settings import load_settings

    raise typer.Exit(run_doctor(load_settings(config), name, json_=json_))


def backup(
    to: Annotated[
        Path, typer.Argument(metavar="FILE_OR_FOLDER", help="A new file, or a folder for one.")
    ],
    config: Config = None,
) -> None:
    """Back up the embedded databases and the case folders, while the bot runs."""
    from faultline.bot.operating.backup import back_up
    from faultline.bot.settings import load_settings

    sys.stdout.write(back_up(load_settings(config), to) + "\n")


def restore(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A file that `faultline backup` wrote.")
    ] = None,
    database_is_back: Annotated[
        bool,
        typer.Option(
            "--database-is-back",
            help="The database was restored by other means: restart its unfinished work.",
        ),
    ] = False,
    config: Config = None,
) -> None:
    """Restore a backup into an empty directory. Unfinished work starts again, and nothing is posted
    twice."""
    from faultline.bot.operating.backup import begin_again
    from faultline.bot.operating.backup import restore as put_back
    from faultline.bot.settings import load_settings

    # Exactly one of the two: a backup to put back, or a database that is back already.
    if (file is None) != database_is_back:
        raise SettingsError("FILE", "name a backup, or say --database-is-back")
    settings = load_settings(config)
    sys.stdout.write((put_back(settings, file) if file else begin_again(settings)) + "\n")


def requeue(name: Name, config: Config = None) -> None:
    """Restart an investigation that no worker has. Nothing is posted twice."""
    from faultline.bot.operating.inspection import inspected
    from faultline.bot.operating.requeue import requeue_by_name
    from faultline.bot.settings import load_settings

    with inspected(load_settings(config)) as inspection:
        done = requeue_by_name(inspection, name)
    phrase = (
        "begins again"
        if done.begun
        else "will be posted where it was not"
        if done.reposts
        else "has ended and was posted"
    )
    sys.stdout.write(f"{name} {phrase}\n")


def delete(name: Name, yes: Sure = False, config: Config = None) -> None:
    """Delete an investigation everywhere: case, rows, memory, conversation."""
    from faultline.bot.operating.deleting import delete_investigation
    from faultline.bot.settings import load_settings

    delete_investigation(load_settings(config), name, sure=yes)


@database_commands.command("current")
def current(config: Config = None) -> None:
    """Show the known versions, and the tables' version."""
    from faultline.bot.operating.backup import print_versions
    from faultline.bot.settings import load_settings

    print_versions(load_settings(config))


@database_commands.command("upgrade")
def upgrade(config: Config = None) -> None:
    """Upgrade the tables to the newest version. The bot does so when it starts."""
    from faultline.bot.operating.backup import bring_up
    from faultline.bot.settings import load_settings

    bring_up(load_settings(config))


@database_commands.command("downgrade")
def downgrade(
    to: Annotated[str, typer.Argument(metavar="VERSION", help="A version that `current` lists.")],
    yes: Sure = False,
    config: Config = None,
) -> None:
    """Downgrade the tables for an older release. Data of newer versions is dropped."""
    from faultline.bot.operating.backup import take_back
    from faultline.bot.settings import load_settings

    take_back(load_settings(config), to, sure=yes)


# `faultline model`: the language model that the settings name.


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

    from faultline.bot.investigation.model.model_check import probe, screen

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
