"""`faultline mcp`: the MCP server for the program that starts it, against the configured sources or
addresses given on the spot, as `faultline ask`."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.bot.cli.ask_command import NO_SOURCE, AskOptions, settings_for
from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.incident_requests import IncidentRequests
from faultline.bot.mcp.callers import THIS_MACHINE
from faultline.bot.mcp.investigations import Investigations, Shelf
from faultline.bot.mcp.over_stdio import Wire, serve, taken_wire
from faultline.bot.mcp.server import McpServer
from faultline.bot.mcp.verify_tool import Verifier
from faultline.bot.processes.local_bot import local_bot
from faultline.bot.processes.server import local_cases
from faultline.bot.settings import Settings
from faultline.bot.store.databases import open_cases, open_store
from faultline.connectors.registry import build_connectors

FOR_A_PERSON = (
    "This is an MCP server: it speaks to a program on standard input. Add it to your agent "
    "instead, for example: claude mcp add faultline -- faultline mcp"
)


def run_mcp(options: AskOptions) -> int:
    """Serve until the client goes. Returns the exit code."""
    if sys.stdin.isatty():
        _say(FOR_A_PERSON)
    with taken_wire() as wire:
        _serve(settings_for(options, os.environ), wire)
    return 0


def _serve(settings: Settings, wire: Wire) -> None:
    connectors = build_connectors(settings)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faultline-mcp-")))
        shelves, bot_settings, requests = [], settings, None
        if connectors:
            bot = stack.enter_context(local_bot(settings, scratch / "bot"))
            bot_settings = bot.settings
            requests = IncidentRequests(bot_settings, bot.store, store_accept(bot.store))
            shelves.append(Shelf(bot.store, local_cases(open_cases(bot_settings), scratch / "own")))
        shelves += _past(settings, scratch)
        (scratch / "open").mkdir()
        investigations = Investigations(
            bot_settings,
            shelves,
            requests,
            NO_SOURCE,
            datetime.now(UTC).astimezone().tzinfo or UTC,
        )
        server = McpServer(
            investigations,
            scratch / "open",
            lambda _: THIS_MACHINE,
            connectors,
            Verifier(bot_settings) if connectors else None,
        )
        asyncio.run(serve(server, wire))


def _past(settings: Settings, scratch: Path) -> list[Shelf]:
    """The investigations of the bot that these settings configure, where it has made some. A store
    that cannot be read is named on standard error, and the server goes on without it."""
    store_settings = settings.store
    if (
        store_settings.database is None
        and not (store_settings.directory / "faultline.sqlite").is_file()
    ):
        return []
    try:
        # Its tables are its own bot's to change.
        store = open_store(settings, migrated=True)
        # Only a query shows whether the tables can be read.
        store.latest(1)
        return [Shelf(store, local_cases(open_cases(settings), scratch / "past"))]
    except (FaultlineError, SQLAlchemyError) as error:
        why = str(error) if isinstance(error, FaultlineError) else type(error).__name__
        _say(f"faultline: earlier investigations cannot be read ({why})")
        return []


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
