"""Everything breaks for a while: `benchmarks/chaos.py` in small, and single stories that it
told."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.chaos import Plan, run_turmoil
from benchmarks.turmoil.lines import Sickness
from benchmarks.turmoil.paths import in_slack
from benchmarks.turmoil.proof import everything
from benchmarks.turmoil.report import ran_lines
from benchmarks.turmoil.senders import Senders, Shape
from benchmarks.turmoil.world import World, running_world

WITHIN_S = 500.0
HOURS_BACK_S = -5 * 3600
RESTED_S = 5.0
"""By then it has been tried three times, and rests for 4 s or more."""


@pytest.mark.kills
@pytest.mark.timeout(1200)
def test_nothing_is_lost_doubled_or_stuck(tmp_path: Path) -> None:
    plan = Plan(
        "postgresql",
        seed=7,
        alerts=6,
        kills=6,
        minutes=0.25,
        settle_s=WITHIN_S,
        quiet_s=11.0,
        thrifty=True,
    )
    ran = run_turmoil(plan, tmp_path)
    assert ran.fine, "\n".join(ran_lines(ran))
    assert ran.books.answered + ran.books.explained > 0


@pytest.mark.timeout(1200)
def test_a_clock_that_is_set_back_holds_no_answer_back(tmp_path: Path) -> None:
    with running_world("sqlite", tmp_path, "clock", thrifty=True) as world:
        if world.clocks.why_not:
            pytest.skip(world.clocks.why_not)
        senders = Senders(world.urls, world.pagerduty, "clock")
        world.lines["slack"].fall_sick(Sickness.GONE)
        one = senders.send(1, Shape.PLAIN, source="alertmanager", service="quiet-0")
        wait_for(lambda: rests_in(world), "try to answer")
        world.clocks.move("web-1", HOURS_BACK_S)
        world.fleet.strike("web-1:worker", signal.SIGKILL)
        world.lines["slack"].fall_sick(None)
        wait_for(lambda: in_slack(world, one), "the answer")
        senders.finish(5)


def rests_in(world: World) -> bool:
    """Whether the answer of the one investigation waits for Slack for so long that it is seen
    to."""
    told = [line for one in everything(world.store) for line in world.store.progress(one.id)]
    tried = [line.at for line in told if line.stage == "reply slack"]
    return bool(tried) and (datetime.now(UTC) - tried[0]).total_seconds() > RESTED_S


def wait_for(condition: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < ends, f"no {what} within {WITHIN_S:g} s"
        time.sleep(0.1)
