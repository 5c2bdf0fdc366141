"""A failing integration does not delay healthy ones: times to answer, compared with those while
everything is healthy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.turmoil.lines import Sickness
from benchmarks.turmoil.proof import STILL
from benchmarks.turmoil.senders import Senders, Sent, Shape
from benchmarks.turmoil.world import CROWD, QUIET, SHOPS, EngineName, World, running_world

MEASURED = 8
EVERY_S = 1.0
NEED_IT = 10
"""Investigations that need the failing integration, started before those that are measured."""
PATIENCE_S = 240.0
BOUND = (3.0, 20.0)
"""This many times the longest of the healthy ones, and this many seconds on top: the machine is
busy with more. A reply target or source may take 8 s or 20 s, and waiting for it would exceed
this several times over."""

Answered = Callable[[World, Sent], bool]


@dataclass(frozen=True)
class Waited:
    """Times to answer in seconds, from the acknowledgement."""

    sick: str
    what: str
    seconds: Sequence[float]
    usual: Sequence[float]

    @property
    def bound_s(self) -> float:
        """Nothing that is well may take longer."""
        return BOUND[0] * self.usual_longest_s + BOUND[1]

    @property
    def fine(self) -> bool:
        """Whether all were answered within the bound."""
        return len(self.seconds) == MEASURED and self.longest_s <= self.bound_s

    median_s = property(lambda self: statistics.median(self.seconds))
    longest_s = property(lambda self: max(self.seconds))
    usual_median_s = property(lambda self: statistics.median(self.usual or [PATIENCE_S]))
    usual_longest_s = property(lambda self: max(self.usual or [PATIENCE_S]))


class Measuring:
    """Sends and waits; every alert has its own number."""

    def __init__(self, world: World, senders: Senders) -> None:
        self.world = world
        self.senders = senders
        self._number = 0

    def begin(self, source: str, service: str) -> Sent:
        """Send one alert."""
        self._number += 1
        return self.senders.send(self._number, Shape.PLAIN, source=source, service=service)

    def times(self, source: str, answered: Answered) -> list[float]:
        """Of alerts about services that need nothing but the recorded case, Prometheus and Loki."""
        sent: list[Sent] = []
        took: dict[int, float] = {}
        began = time.monotonic()
        while len(took) < MEASURED and time.monotonic() < began + PATIENCE_S:
            if len(sent) < MEASURED and time.monotonic() >= began + EVERY_S * len(sent):
                sent.append(self.begin(source, f"quiet-{self._number % QUIET}"))
            for sent_alert in sent:
                if (
                    sent_alert.acknowledged_at is not None
                    and sent_alert.number not in took
                    and answered(self.world, sent_alert)
                ):
                    took[sent_alert.number] = time.monotonic() - sent_alert.acknowledged_at
            time.sleep(0.05)
        return list(took.values())

    def settle(self) -> None:
        """Until what was begun is answered, so that the next measurement begins with nothing
        waiting."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends and not all(
            in_slack(self.world, sent_alert) for sent_alert in self.senders.sent
        ):
            time.sleep(0.25)


def in_slack(world: World, sent_alert: Sent) -> bool:
    """Whether the answer stands in Slack."""
    keys = {f"{identity}:slack" for identity in sent_alert.investigations}
    posts = [
        m
        for m in list(world.slack.posts)
        if (m.metadata or {}).get("event_payload", {}).get("key") in keys
    ]
    return any(STILL not in m.text for m in posts)


def at_pagerduty(world: World, sent_alert: Sent) -> bool:
    """Whether the note stands."""
    return bool(sent_alert.incident and world.pagerduty.incidents[sent_alert.incident].notes)


def measure_paths(engine: EngineName, directory: Path, seed: str) -> list[Waited]:
    """One bot for all measurements, one after the other."""
    with (
        running_world(engine, directory, f"{seed} paths", FAULTLINE_ALERTS__GROUPS="off") as world,
        ExitStack() as stack,
    ):
        senders = Senders(world.urls, world.pagerduty, f"{seed} paths")
        stack.callback(senders.stop.set)
        measuring = Measuring(world, senders)
        measuring.times("alertmanager", in_slack)  # processes have loaded what they need
        measuring.settle()
        usual_slack = measuring.times("alertmanager", in_slack)
        measuring.settle()
        usual_note = measuring.times("pagerduty", at_pagerduty)
        paths: list[Waited] = []
        for sickness in (Sickness.SLOW, Sickness.GONE, Sickness.LIMITED):
            seconds = _beside(measuring, "github", sickness, "alertmanager", in_slack)
            paths.append(
                Waited(
                    f"GitHub is {sickness}",
                    "answers in Slack that need no GitHub",
                    seconds,
                    usual_slack,
                )
            )
        for sickness in (Sickness.SLOW, Sickness.GONE, Sickness.LIMITED):
            seconds = _beside(measuring, "slack", sickness, "pagerduty", at_pagerduty)
            paths.append(Waited(f"Slack is {sickness}", "notes at PagerDuty", seconds, usual_note))
        for sickness in (Sickness.SLOW, Sickness.GONE):
            seconds = _beside(measuring, "pagerduty", sickness, "alertmanager", in_slack)
            paths.append(
                Waited(f"PagerDuty is {sickness}", "answers in Slack", seconds, usual_slack)
            )
        measuring.settle()
        for n in range(CROWD):
            measuring.begin("alertmanager", f"crowd-{n}")
        seconds = measuring.times("alertmanager", in_slack)
        paths.append(
            Waited(
                f"{CROWD} alerts of one team at once",
                "another team's answers",
                seconds,
                usual_slack,
            )
        )
        senders.finish(30)
        return paths


def _beside(
    measuring: Measuring, vendor: str, sickness: Sickness, source: str, answered: Answered
) -> list[float]:
    """With the vendor sick, and investigations under way that need it."""
    measuring.settle()
    line = measuring.world.lines[vendor]
    line.fall_sick(sickness)
    try:
        for n in range(NEED_IT):
            if vendor == "github":
                measuring.begin("alertmanager", f"shop-{n % SHOPS}")
            elif vendor == "pagerduty":
                measuring.begin("pagerduty", f"shop-{n % SHOPS}")
        return measuring.times(source, answered)
    finally:
        line.fall_sick(None)
