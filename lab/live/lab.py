"""`faultline lab`: the live shop on this machine, one fault, and the bot's answer beside the
truth."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.bot.answer.targets.slack.message import SlackMessage
from faultline.bot.answer.targets.slack.preview import to_terminal
from faultline.lab.live.grading import LiveGrade
from faultline.lab.live.playing import IncidentPlayer, PlayedIncident
from faultline.lab.live.watched_shop import BASELINE_SCRAPES, ended_by_sigterm, watched_shop
from faultline.lab.shop.faults import FAULTS, NO_CHANGE, faults_for
from faultline.lab.shop.layout import services_of
from faultline.lab.shop.running import ShopOptions, summary
from faultline.lab.shop.tools import ToolMissing, check_tools

HEALTHY_SCRAPES = BASELINE_SCRAPES // 2
"""The shop runs that long before it is broken: a baseline, and no long wait."""


@dataclass(frozen=True)
class LabOptions:
    """What was asked for on the command line."""

    fault: str | None = None
    seed: int | None = None
    interval_s: float = 5.0
    small: bool = False
    stay: bool = True
    port: int = 0


def print_faults() -> None:
    """Every fault, where it may strike, and which change may be guilty of it."""
    table = Table("fault", "what happens", "hits", "guilty change", box=None, pad_edge=False)
    for fault in FAULTS.values():
        hits = ", ".join(fault.targets) if not fault.calm else "-"
        table.add_row(fault.name, fault.title, hits, fault.changed or "-")
    Console(highlight=False).print(table)


def run_lab(options: LabOptions) -> int:
    """Run it; gives the exit code. Raises SettingsError and FaultlineError."""
    # Check first: the shop takes a while to start.
    _check(options)
    console = Console(highlight=False)
    try:
        with ended_by_sigterm():
            _run(console, options)
    except KeyboardInterrupt:
        console.print(Text("Ended.", style="dim"))
    except ToolMissing as error:
        raise FaultlineError(str(error)) from None
    return 0


def _check(options: LabOptions) -> None:
    services = services_of(small=options.small)
    possible = {fault.name for fault in faults_for(services, small=options.small)}
    if options.fault is not None and options.fault not in possible:
        shop = "the small shop has" if options.small else "there is"
        problem = f"{shop} no fault {options.fault!r}; see faultline lab --list"
        raise SettingsError("--fault", problem)
    try:
        check_tools(small=options.small)
    except ToolMissing as error:
        raise FaultlineError(str(error)) from None


def _run(console: Console, options: LabOptions) -> None:
    shop = ShopOptions(interval_s=options.interval_s, small=options.small)
    # 0 is a seed too.
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)

    def say(line: str) -> None:
        console.print(Text(line, style="dim"))

    with tempfile.TemporaryDirectory(
        prefix="faultline-lab-", ignore_cleanup_errors=True
    ) as scratch:
        say("Starting the shop and the bot ...")
        folder = Path(scratch)
        with watched_shop(folder, shop, port=options.port, log=folder / "bot.log") as watched:
            processes = summary(watched.shop.pods.values())
            say(f"{processes}, watched by a Prometheus at {watched.shop.prometheus.url}")
            player = IncidentPlayer(watched, seed, say)
            with player.harmless_changes():
                healthy_s = HEALTHY_SCRAPES * options.interval_s
                say(f"Running healthy for {healthy_s:.0f} s ...")
                time.sleep(healthy_s)
                say("Breaking it: the fault is drawn, and the bot is not told ...")
                played = player.play(1, seed, options.fault, partial(_show, console, player))
                say("The shop is repaired.")
                if options.stay:
                    page = f"{watched.bot.url}/investigations/{played.grade.investigation}"
                    console.print(Text.assemble("The investigation's page: ", (page, "bold cyan")))
                    console.print("Ctrl-C ends the lab")
                    # Wait without a limit: the page stays until Ctrl-C.
                    threading.Event().wait()


def _show(console: Console, player: IncidentPlayer, played: PlayedIncident) -> None:
    grade = played.grade
    if played.message is not None:
        message = SlackMessage(played.message.text, tuple(played.message.blocks))
        console.print(
            Panel(
                to_terminal(message),
                title="Slack #incidents",
                title_align="left",
                border_style="cyan",
            )
        )
    console.print(
        Panel(_truth(player, grade), title="The truth", title_align="left", border_style="green")
    )


def _truth(player: IncidentPlayer, grade: LiveGrade) -> Text:
    truth = grade.truth
    lines = [f"{truth.title} ({truth.fault})."]
    lines.append(f"Culprit: {truth.subject or 'none, nothing is wrong'}")
    for change in player.desk.made:
        if change.id == grade.guilty_change and grade.guilty_change != NO_CHANGE:
            lines.append(f"Guilty change: {change.title}, at {change.at:%H:%M:%S} UTC")
    if not truth.guilty:
        lines.append("No change is guilty.")
    if grade.problem:
        lines.append(f"Not graded: {grade.problem}.")
    elif truth.subject:
        lines.append(f"The bot named the culprit first: {_yes(grade.culprit_right)}")
        lines.append(f"The bot was right about the change: {_yes(grade.change_right)}")
    else:
        lines.append(f"The bot named a cause all the same: {_yes(grade.false_alarm)}")
    lines.append(f"Sealed before the fault as {truth.seal[:16]}")
    return Text("\n".join(lines))


def _yes(value: bool | None) -> str:
    return "yes" if value else "no"
