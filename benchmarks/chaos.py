"""Is anything lost, doubled or stuck while everything around the bot breaks? Does a failing
integration delay healthy ones?

    python benchmarks/chaos.py [--engine sqlite|postgresql|both] [--kills 100] [--alerts 120] [--minutes 8] [--seed 1]
                               [--only turmoil|paths] [--report FILE]

`turmoil`: the real bot as processes (SQLite: web process with its own worker; PostgreSQL: two web
processes and two workers), Slack, PagerDuty and sources of evidence on loopback behind TLS. Signed
alerts of four sources come in all the while; processes are killed at moments of chance and before
and after each post; the database is locked, stopped, paused and cut, disks are full, each vendor is
slow, wrong, rate-limited, gone or its certificate ended, clocks jump. Then everything heals, and
the senders' books, the store and what stands at the vendors must agree: each alert that was
acknowledged has one answer or one explanation in each wanted place.

`paths`: the time to answer of investigations that do not need what fails, compared with the same
while all is healthy.

Ends with 1 when anything is not as it must be. What is broken when comes from `--seed`; what the
processes do just then does not.
"""  # noqa: E501

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy.exc import SQLAlchemyError

from benchmarks.turmoil.black_holes import LostWatch, black_holes
from benchmarks.turmoil.databases import Fault
from benchmarks.turmoil.faults import (
    Breakage,
    Breaker,
    Happened,
    Killer,
    jumping_clocks,
    sick_vendors,
)
from benchmarks.turmoil.lines import USUAL_SICKNESSES
from benchmarks.turmoil.paths import measure_paths
from benchmarks.turmoil.proof import (
    Lives,
    everything,
    outside,
    prove,
    story,
    titles,
    unsettled,
)
from benchmarks.turmoil.report import Ran, path_lines, ran_lines
from benchmarks.turmoil.senders import Senders, Shape
from benchmarks.turmoil.world import ENGINES, STORMY, EngineName, World, running_world

SETTLE_S = 420.0
"""After the last fault everything must stand within this: a place that was sick is tried again
after 1, 2, 4 ... s, at most as long again as it was sick, and a store that was away likewise."""
QUIET_S = 15.0
"""Then so long nothing more may come: longer than a claim on a post, after which a second one would
be made."""
SHAPES = (
    *(Shape.PLAIN,) * 8,
    *(
        Shape.TWICE,
        Shape.REPLAYED,
        Shape.BETWEEN,
        Shape.ENDED_FIRST,
        Shape.STORM,
        Shape.FORGED,
        Shape.MISSHAPEN,
    ),
)
STORM = 8
"""Alerts of one storm."""


@dataclass(frozen=True)
class Plan:
    """One run of `turmoil`."""

    engine: EngineName
    seed: int = 1
    alerts: int = 120
    kills: int = 100
    black_holes: int = 20
    minutes: float = 8
    settle_s: float = SETTLE_S
    quiet_s: float = QUIET_S
    faults: bool = True
    """Whether anything but processes is broken."""
    thrifty: bool = False
    """Whether the bot's processes are spared their imports, and workers look for work each
    second."""


def run_turmoil(plan: Plan, directory: Path) -> Ran:
    """Break, heal, and compare the books."""
    seed, happened = f"{plan.seed} {plan.engine}", Happened()
    running = running_world(plan.engine, directory, seed, thrifty=plan.thrifty)
    with running as world, ExitStack() as stack:
        began = time.monotonic()
        senders = Senders(world.urls, world.pagerduty, seed)
        stack.callback(senders.stop.set)
        breakages = breakages_of(world, happened, seed) if plan.faults else []
        stop, last = threading.Event(), 60 * plan.minutes
        traffics = {"slack": world.slack.traffic, "pagerduty": world.pagerduty.traffic}
        killer, breaker = (
            Killer(world.fleet, traffics, happened, seed),
            Breaker(breakages, happened, seed),
        )
        hands = [
            threading.Thread(target=killer.run, args=(plan.kills, 0.9 * last, stop), daemon=True)
        ]
        if breakages:
            hands.append(threading.Thread(target=breaker.run, args=(stop,), daemon=True))
        if plan.black_holes:
            holes = Breaker(black_holes(world, happened), happened, f"{seed} black holes")
            args = (stop, plan.black_holes)
            hands.append(threading.Thread(target=holes.run, args=args, daemon=True))
        watch = LostWatch(world)
        hands.append(threading.Thread(target=watch.run, args=(stop,), daemon=True))
        ends_by_itself = [hands[0], *hands[-2:-1]] if plan.black_holes else hands[:1]
        for hand in hands:
            hand.start()
        _stream(senders, plan, seed, began + last)
        while any(hand.is_alive() for hand in ends_by_itself) and time.monotonic() < began + last:
            time.sleep(0.2)
        stop.set()
        for hand in hands:
            hand.join(120)
        world.heal()
        happened.tell("all is well again")
        healed = time.monotonic()
        senders.finish(plan.settle_s)
        recovered = _settle(world, healed, plan)
        investigations = everything(world.store)
        books = prove(
            senders.sent,
            investigations,
            outside(
                world.slack, world.pagerduty, [investigation.id for investigation in investigations]
            ),
            titles(world.store),
            lives_of(world, watch),
        )
        for left in spooled(world):
            books.say("stuck", f"alerts are still in {left}")
        for investigation_id in books.concerned:
            books.concerned[investigation_id] = story(
                investigation_id, senders.sent, world.store, happened.story
            )
        unmet = [breakage.name for breakage in breakages if not happened.counts[breakage.name]]
        return Ran(
            plan.engine,
            plan.seed,
            time.monotonic() - began,
            books,
            happened,
            senders.sent,
            recovered,
            unmet,
            world.fleet.ended_by_themselves(),
        )


def lives_of(world: World, watch: LostWatch) -> Lives:
    """Who posted when, where hosts have their own addresses."""
    if world.network.why_not:
        return Lives()
    posted = [post for line in world.lines.values() for post in line.posted]
    processes = {member.address: list(member.lives) for member in world.fleet.members.values()}
    return Lives(posted, processes, watch.lost_at)


def spooled(world: World) -> list[str]:
    """Files of the hosts' spools that were not moved to the database."""
    return [
        str(path) for path in world.disk.directory.glob("spool-*/*.spool") if path.stat().st_size
    ]


def breakages_of(world: World, happened: Happened, seed: str) -> list[Breakage]:
    """All that can be broken on this machine; what cannot is noted with the reason."""
    dice = random.Random(f"{seed} clocks")
    breakages = sick_vendors(list(world.lines.values()), USUAL_SICKNESSES)
    for name, fault in world.database.faults().items():
        breakages += [Breakage(name, _for_seconds(fault))] * 3
    happened.skipped |= world.database.why_not()
    if world.clocks.why_not:
        happened.skipped["clocks jump"] = world.clocks.why_not
    breakages += jumping_clocks(world.clocks, list(world.fleet.members), dice) * 2
    if world.disk.why_not:
        happened.skipped["disk full"] = world.disk.why_not
    else:
        breakages += [Breakage("disk full", lambda seconds, stop: _full(world, seconds, stop))] * 3
    return breakages


def _for_seconds(fault: Fault) -> Callable[[float, threading.Event], None]:
    return lambda seconds, _: fault(seconds)


def _full(world: World, seconds: float, stop: threading.Event) -> None:
    try:
        world.disk.fill()
        stop.wait(seconds)
    finally:
        world.disk.free()


def _stream(senders: Senders, plan: Plan, seed: str, until: float) -> None:
    """Alerts spread over most of the time, storms in bursts."""
    dice, number = random.Random(f"{seed} stream"), 0
    shapes = [SHAPES[n % len(SHAPES)] for n in range(plan.alerts)]
    dice.shuffle(shapes)
    began = time.monotonic()
    for nth, shape in enumerate(shapes):
        time.sleep(max(0.0, began + (until - began) * 0.85 * nth / len(shapes) - time.monotonic()))
        for _ in range(STORM if shape is Shape.STORM else 1):
            number += 1
            service = (
                dice.choice(STORMY)
                if shape is Shape.STORM
                else f"shop-{number % 24}"
                if number % 5 == 0
                else ""
            )
            senders.send(number, shape, service=service)


def _settle(world: World, healed: float, plan: Plan) -> float:
    """Seconds from the healing to the last answer, or to the end of patience; then a while of
    quiet."""
    settled = time.monotonic()
    while time.monotonic() < healed + plan.settle_s:
        with contextlib.suppress(SQLAlchemyError):
            investigations = everything(world.store)
            if not world.late() and not unsettled(
                investigations,
                outside(
                    world.slack,
                    world.pagerduty,
                    [investigation.id for investigation in investigations],
                ),
            ):
                break
            settled = time.monotonic()
        time.sleep(1.0)
    time.sleep(plan.quiet_s)
    return settled - healed


def main() -> None:
    """Run what was asked for; print and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=[*ENGINES, "both"], default="both")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--alerts", type=int, default=120, help="for each engine; a storm is several"
    )
    parser.add_argument("--kills", type=int, default=100, help="for each engine")
    parser.add_argument("--black-holes", type=int, default=20, help="for each engine")
    parser.add_argument(
        "--fast", action="store_true", help="spare the bot's processes their imports"
    )
    parser.add_argument("--minutes", type=float, default=8, help="of breaking, for each engine")
    parser.add_argument("--only", choices=["turmoil", "paths"])
    parser.add_argument(
        "--report", type=Path, help="write the report as Markdown to this file as well"
    )
    parser.add_argument(
        "--keep", type=Path, help="work below this directory, and leave logs and databases there"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    engines = ENGINES if options.engine == "both" else (options.engine,)
    lines, fine = [f"{os.cpu_count()} cores, seed {options.seed}", ""], True
    with tempfile.TemporaryDirectory(prefix="faultline-chaos-") as scratch:
        base: Path = options.keep or Path(scratch)
        for engine in engines:
            if options.only != "paths":
                plan = Plan(
                    engine,
                    options.seed,
                    options.alerts,
                    options.kills,
                    options.black_holes,
                    options.minutes,
                    thrifty=options.fast,
                )
                ran = run_turmoil(plan, base / f"turmoil-{engine}")
                lines += ran_lines(ran)
                fine &= ran.fine
            if options.only != "turmoil":
                paths = measure_paths(engine, base / f"paths-{engine}", str(options.seed))
                lines += path_lines(engine, paths)
                fine &= all(path.fine for path in paths)
    print("\n".join(lines))
    if options.report:
        options.report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
