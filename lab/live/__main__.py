"""`python -m faultline.lab.live --incidents 60 --seed N`: plays hidden incidents and grades."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from faultline.analysis.errors import FaultlineError
from faultline.lab.live.grading import LiveGrade, summary_table
from faultline.lab.live.playing import IncidentPlayer
from faultline.lab.live.watched_shop import BASELINE_SCRAPES, ended_by_sigterm, watched_shop
from faultline.lab.shop.faults import FAULTS, fault_order
from faultline.lab.shop.running import ShopOptions
from faultline.lab.shop.tools import ToolMissing

SEEDS_APART = 1_000
"""Runs of seeds N and N + 1 share no incident."""


def main(arguments: list[str] | None = None) -> int:
    """Play; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m faultline.lab.live", description=__doc__)
    parser.add_argument("--incidents", type=int, default=60, help="how many are played")
    parser.add_argument("--seed", type=int, default=1, help="which incidents, in which order")
    parser.add_argument("--interval", type=float, default=15, help="seconds between scrapes")
    parser.add_argument("--pause", type=float, help="scrapes between incidents; 60 if not given")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="this fault every time")
    parser.add_argument("--small", action="store_true", help="three services, no stores")
    parser.add_argument("--day", type=float, default=60, help="minutes that a day of load takes")
    parser.add_argument("--load", type=float, default=1, help="times as many customers")
    parser.add_argument("--out", type=Path, help="folder for labelled case folders")
    parser.add_argument("--keep", type=Path, help="folder for all logs and data of the run")
    options = parser.parse_args(arguments)
    try:
        with ended_by_sigterm():
            grades = _play(options)
    except (ToolMissing, FaultlineError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        # 130 is what shells report of a program that Ctrl-C ended.
        return 130
    sys.stdout.write(f"\n{summary_table(grades)}\n")
    return 0


def _play(options: argparse.Namespace) -> list[LiveGrade]:
    shop = ShopOptions(
        interval_s=options.interval, small=options.small, day_s=options.day * 60, load=options.load
    )
    pause_s = (BASELINE_SCRAPES if options.pause is None else options.pause) * options.interval
    grades: list[LiveGrade] = []
    folder = Path(tempfile.mkdtemp(prefix="faultline-live-"))
    try:
        with watched_shop(folder, shop, log=folder / "bot.log") as watched:
            player = IncidentPlayer(watched, options.seed, _say)
            order = fault_order(watched.shop, options.seed, options.incidents)
            with player.harmless_changes():
                for number, fault in enumerate(order):
                    _say(f"running healthy for {pause_s:.0f} s")
                    time.sleep(pause_s)
                    seed = options.seed * SEEDS_APART + number
                    played = player.play(number, seed, options.fault or fault)
                    grades.append(played.grade)
                    sys.stdout.write(json.dumps(played.grade.as_json()) + "\n")
                    # A run takes hours: flush, so that an aborted one keeps its grades.
                    sys.stdout.flush()
                    if options.out is not None:
                        played.save(options.out)
    finally:
        if options.keep is not None:
            shutil.copytree(folder, options.keep, ignore=_sockets, dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    return grades


def _sockets(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if (Path(folder) / name).is_socket()}


def _say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
