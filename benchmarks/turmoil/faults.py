"""What is broken, and when: two seeded hands, one that kills processes and one that breaks
everything else in turn."""

from __future__ import annotations

import logging
import math
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.turmoil.clocks import Clocks
from benchmarks.turmoil.fleet import Fleet
from benchmarks.turmoil.lines import Line, Sickness
from faultline.loopback.server import Moment, Traffic

log = logging.getLogger("turmoil")

SICK_S = (4.0, 14.0)
"""A fault lasts so long."""
CALM_S = (0.5, 3.0)
TRAP_S = 8.0
"""A trap that nobody steps into is taken away."""
LIVED = (0.3, 3.0)
"""A process that is ended at a random moment has lived this many times as long as it takes to
start: some are struck before they are ready, and on a slow machine the others get something done as
well."""
JUMPS_S = (-3 * 3600, -1800, -420, -60, 60, 420, 1800, 3 * 3600)
Point = tuple[str, str, Moment]
"""A vendor, a call, and whether it took effect already."""
BLACK_HOLE, LOST_HOST = "black hole", "host lost"
"""Kinds of faults begin with it and a colon."""
KILL, TERM = signal.SIGKILL, signal.SIGTERM
POSTING = {
    "slack": (
        "chat.postMessage",
        "chat.update",
        "files.getUploadURLExternal",
        "upload",
        "files.completeUploadExternal",
    ),
    "pagerduty": ("incident", "list notes", "create note"),
}
MOMENTS: tuple[Moment, ...] = ("before", "after")
POINTS: list[Point] = [
    (vendor, call, moment)
    for vendor, calls in POSTING.items()
    for call in calls
    for moment in MOMENTS
]


@dataclass
class Happened:
    """What was done, when, and what could not be done."""

    counts: Counter[str] = field(default_factory=Counter)
    story: list[tuple[float, str]] = field(default_factory=list)
    """Moments of the monotonic clock."""
    skipped: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    """Faults that could not be made, or not be healed."""
    last_at: float = 0.0

    def note(self, kind: str, about: str = "") -> None:
        """Something was broken, or healed."""
        self.counts[kind] += 1
        self.tell(f"{kind} {about}".strip())

    def tell(self, text: str) -> None:
        """For the story alone."""
        self.last_at = time.monotonic()
        self.story.append((self.last_at, text))

    @property
    def kills(self) -> int:
        """Processes that were ended."""
        return sum(n for kind, n in self.counts.items() if kind.startswith(("SIGKILL", "SIGTERM")))

    @property
    def black_holes(self) -> int:
        """Peers that vanished."""
        begins = (f"{BLACK_HOLE}:", f"{LOST_HOST}:")
        return sum(n for kind, n in self.counts.items() if kind.startswith(begins))


class Traps:
    """Strikes when a vendor sees one of some calls, before or after it took effect."""

    def __init__(self, traffics: Mapping[str, Traffic], strike: Callable[[Point], None]) -> None:
        self._armed: frozenset[Point] = frozenset()
        self._strike = strike
        self.sprung = threading.Event()
        for vendor, traffic in traffics.items():
            traffic.hook = self._hook(vendor)

    def arm(self, points: Iterable[Point]) -> None:
        """Strike at the first of these; none takes the trap away."""
        self.sprung.clear()
        self._armed = frozenset(points)

    def _hook(self, vendor: str) -> Callable[[str, Moment], None]:
        def hook(call: str, moment: Moment) -> None:
            if (vendor, call, moment) in self._armed:
                self._armed = frozenset()
                self._strike((vendor, call, moment))
                self.sprung.set()

        return hook


class Killer:
    """Ends `count` processes within `within_s`: at moments of chance, and at each call that
    posts."""

    def __init__(
        self, fleet: Fleet, traffics: Mapping[str, Traffic], happened: Happened, seed: str
    ) -> None:
        self._fleet = fleet
        self._happened = happened
        self._dice = random.Random(f"{seed} kills")
        self._at: Counter[Point] = Counter()
        self._traps = Traps(traffics, self._spring)

    def run(self, count: int, within_s: float, stop: threading.Event) -> None:
        """Continue until there were enough, or until stopped. Every other one is at a call that
        posts, at those of them first where there were the fewest so far; where nothing posts just
        now it is at a moment of chance."""
        pause, number = within_s / max(1, count), 0
        while self._happened.kills < count and not stop.is_set():
            number += 1
            due = time.monotonic() + pause * self._dice.uniform(0.5, 1.5)
            if number % 2:
                fewest = min(self._at[point] for point in POINTS)
                self._traps.arm(point for point in POINTS if self._at[point] == fewest)
                self._wait(self._traps.sprung, min(TRAP_S, 2 * pause), stop)
                sprung = self._traps.sprung.is_set()
                self._traps.arm(())
                if not sprung and not stop.is_set():
                    self._at_random()
            else:
                self._at_random()
            stop.wait(max(0.0, due - time.monotonic()))
        self._traps.arm(())

    def _at_random(self) -> None:
        least = self._fleet.start_s * self._dice.uniform(*LIVED)
        old = [target for target in self._fleet.targets() if self._fleet.lived_s(target) >= least]
        if not old:
            return
        target = self._dice.choice(old)
        sign = KILL if self._dice.random() < 0.7 else TERM
        kind = "worker" if "worker" in target else "web process"
        if self._fleet.strike(target, sign):
            self._happened.note(f"{sign.name} {kind} at a random moment", target)

    def _spring(self, point: Point) -> None:
        """On the vendor's thread: all workers, for nobody knows which of them called."""
        vendor, call, moment = point
        self._at[point] += 1
        for target in self._fleet.targets():
            if "worker" in target and self._fleet.strike(target, KILL):
                self._happened.note(f"SIGKILL worker {moment} a post", f"{target}, {vendor} {call}")

    @staticmethod
    def _wait(sprung: threading.Event, seconds: float, stop: threading.Event) -> None:
        ends = time.monotonic() + seconds
        while not sprung.wait(0.05) and time.monotonic() < ends and not stop.is_set():
            pass


class Breaker:
    """Breaks one thing after the other, each for some seconds, all kinds in turn in an order of
    chance."""

    def __init__(self, kinds: Sequence[Breakage], happened: Happened, seed: str) -> None:
        self._kinds = kinds
        self._happened = happened
        self._dice = random.Random(f"{seed} faults")

    def run(self, stop: threading.Event, most: float = math.inf) -> None:
        """Until told to stop, or until that many broke; whatever is broken then is healed
        first."""
        broken = 0
        while not stop.is_set():
            turn = list(self._kinds)
            self._dice.shuffle(turn)
            for kind in turn:
                if stop.is_set() or broken >= most:
                    return
                broken += 1
                self._break(kind, self._dice.uniform(*kind.lasts_s or SICK_S), stop)
                stop.wait(self._dice.uniform(*CALM_S))

    def _break(self, kind: Breakage, seconds: float, stop: threading.Event) -> None:
        self._happened.note(kind.name, f"for {seconds:.0f} s")
        try:
            kind.apply(seconds, stop)
        except Exception as error:  # the edge of a fault: the others go on, and the report says so
            log.exception("%s", kind.name)
            self._happened.failed.append(f"{kind.name}: {type(error).__name__} {error}"[:200])
        self._happened.tell(f"{kind.name} is over")


@dataclass(frozen=True)
class Breakage:
    """One kind of fault. `apply` breaks for this many seconds, or until stopped, and heals."""

    name: str
    apply: Callable[[float, threading.Event], None]
    lasts_s: tuple[float, float] | None = None


def sick_vendors(
    lines: Sequence[Line],
    sicknesses: Sequence[Sickness],
    prefix: str = "",
    lasts_s: tuple[float, float] | None = None,
) -> list[Breakage]:
    """Each vendor in each of these ways."""

    def breakage_of(line: Line, sickness: Sickness) -> Breakage:
        def apply(seconds: float, stop: threading.Event) -> None:
            with line.in_use:
                line.fall_sick(sickness)
                try:
                    stop.wait(seconds)
                finally:
                    line.fall_sick(None)

        return Breakage(f"{prefix}{line.name} {sickness}", apply, lasts_s)

    return [breakage_of(line, sickness) for line in lines for sickness in sicknesses]


def jumping_clocks(clocks: Clocks, names: Sequence[str], dice: random.Random) -> list[Breakage]:
    """The clocks of single processes forwards and backwards, and back to what is right."""

    def breakage_of(name: str) -> Breakage:
        def apply(seconds: float, stop: threading.Event) -> None:
            try:
                for _ in range(2):
                    clocks.move(name, dice.choice(JUMPS_S))
                    stop.wait(seconds / 2)
            finally:
                clocks.move(name, 0)

        return Breakage(f"clock of {name} jumps", apply)

    return [breakage_of(name) for name in names] if not clocks.why_not else []
