"""Peers that vanish without a goodbye: packets that are dropped, ends that acknowledge and stay
silent, hosts that are lost or stand still in mid-transaction."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from benchmarks.turmoil.faults import BLACK_HOLE, LOST_HOST, Breakage, Happened, sick_vendors
from benchmarks.turmoil.lines import BLACK_HOLES
from benchmarks.turmoil.links import Silence
from benchmarks.turmoil.world import SOURCES, World

LINKS_S = (5.0, 22.0)
"""Longer and shorter than the 10 to 12 s after which a silent connection is left."""
HOSTS_S = (12.0, 45.0)
"""Longer and shorter than the 30 s after which a worker counts as lost."""
TRAP_S = 6.0
"""A process that begins no transaction for so long is struck outside of one."""
LOOK_S = 0.001
WRITE_LOCK = "120"
"""The byte of a -shm file that a writer locks in WAL mode
(https://www.sqlite.org/walformat.html#wal_locks)."""


def black_holes(world: World, happened: Happened) -> list[Breakage]:
    """All between any two parts of this world."""
    if world.network.why_not:
        happened.skipped["packets dropped"] = world.network.why_not
    breakages = sick_vendors(list(world.lines.values()), BLACK_HOLES, f"{BLACK_HOLE}: ", LINKS_S)
    hosts = list(world.fleet.members)
    for host in hosts:
        for name, ports in _services(world).items():
            if not world.network.why_not and (
                name == "database" or ("--no-worker" not in world.fleet.members[host].arguments)
            ):
                kind = f"{BLACK_HOLE}: packets dropped between {host} and {name}"
                breakages.append(Breakage(kind, _dropped(world, host, ports(host)), LINKS_S))
        if host in world.links:
            for silence in Silence:
                kind = f"{BLACK_HOLE}: {host}'s database {silence}"
                breakages.append(Breakage(kind, _silent(world, host, silence), LINKS_S))
    for target in world.fleet.targets():
        stands_still = f"{LOST_HOST}: {target} stands still and comes back"
        breakages.append(Breakage(stands_still, HostStops(world, target, happened), HOSTS_S))
        if world.links:
            lost = f"{LOST_HOST}: {target} is lost"
            breakages += [
                Breakage(lost, HostStops(world, target, happened, ends=True), HOSTS_S)
            ] * 2
    return breakages


def _services(world: World) -> dict[str, Callable[[str], Collection[int]]]:
    """Ports by what they are, of a host."""
    lines = world.lines
    services: dict[str, Callable[[str], Collection[int]]] = {
        "Slack": lambda _: [lines["slack"].port],
        "PagerDuty": lambda _: [lines["pagerduty"].port],
        "sources": lambda _: [lines[name].port for name in SOURCES],
    }
    if world.links:
        services["database"] = lambda host: [world.links[host].port]
    return services


def _dropped(
    world: World, host: str, ports: Collection[int]
) -> Callable[[float, threading.Event], None]:
    def apply(seconds: float, stop: threading.Event) -> None:
        world.network.drop(host, ports)
        try:
            stop.wait(seconds)
        finally:
            world.network.carry(host, ports)

    return apply


def _silent(world: World, host: str, silence: Silence) -> Callable[[float, threading.Event], None]:
    def apply(seconds: float, stop: threading.Event) -> None:
        world.links[host].fall_silent(silence)
        try:
            stop.wait(seconds)
        finally:
            world.links[host].pass_again()

    return apply


@dataclass(frozen=True)
class HostStops:
    """A host vanishes, in a transaction where it makes one in time: nothing says goodbye. Later it
    goes on where it was, or with `ends` starts from scratch."""

    world: World
    target: str
    happened: Happened
    ends: bool = False

    @property
    def host(self) -> str:
        """Its name."""
        return self.target.partition(":")[0]

    def __call__(self, seconds: float, stop: threading.Event) -> None:
        """For so long, or until stopped."""
        if not self._in_transaction():
            self.vanish()
            self.happened.tell(f"{self.target} stopped outside of a transaction")
        else:
            self.happened.note(f"{LOST_HOST} in a transaction", self.target)
        try:
            stop.wait(seconds)
        finally:
            self.come_back()

    def vanish(self) -> None:
        """Now."""
        fleet, network = self.world.fleet, self.world.network
        fleet.strike_all(self.target, signal.SIGSTOP)
        if not self.world.links:
            return  # a process of this machine, not a host
        if network.why_not:
            self.world.links[self.host].fall_silent_soon(Silence.SWALLOWS)
        else:
            network.drop(self.host)
        if self.ends:
            fleet.strike_all(self.target, signal.SIGKILL)

    def come_back(self) -> None:
        """The host is there again."""
        if self.world.links:
            if self.world.network.why_not:
                self.world.links[self.host].pass_again()
            else:
                self.world.network.carry(self.host)
        self.world.fleet.strike_all(self.target, signal.SIGCONT)

    def _in_transaction(self) -> bool:
        """Vanish in the next transaction; whether there was one in time."""
        if not self.world.links:
            return self._in_write_lock()
        struck = threading.Event()

        def strike() -> None:
            self.vanish()
            struck.set()

        link = self.world.links[self.host]
        link.on_transaction = strike
        if struck.wait(TRAP_S):
            return True
        link.on_transaction = None
        time.sleep(0.05)
        return struck.is_set()

    def _in_write_lock(self) -> bool:
        """The same on SQLite: in the hands of its write lock."""
        fleet, ends = self.world.fleet, time.monotonic() + TRAP_S
        while time.monotonic() < ends:
            pids = fleet.pids(self.target)
            if _write_locks(pids):
                fleet.strike_all(self.target, signal.SIGSTOP)
                if _write_locks(pids):
                    return True
                fleet.strike_all(self.target, signal.SIGCONT)
            time.sleep(LOOK_S)
        return False


def _write_locks(pids: Sequence[int]) -> bool:
    """Whether one of the processes is writing to a SQLite database."""
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        writes = "WRITE" in words and words[-2:] == [WRITE_LOCK, WRITE_LOCK]
        if writes and int(words[words.index("WRITE") + 1]) in pids:
            return True
    return False


class LostWatch:
    """Notes when each worker is declared lost, by the monotonic clock and at most `EVERY_S`
    late."""

    EVERY_S = 0.5
    LOST = text("SELECT id FROM executors WHERE role = 'lost'")

    def __init__(self, world: World) -> None:
        self.lost_at: dict[str, float] = {}
        self._engine = world.store.engine
        self._has_table = bool(world.links)

    def run(self, stop: threading.Event) -> None:
        """Until told to stop."""
        while self._has_table and not stop.wait(self.EVERY_S):
            with suppress(SQLAlchemyError), self._engine.connect() as session:
                for name in session.execute(self.LOST).scalars():
                    self.lost_at.setdefault(name, time.monotonic())
