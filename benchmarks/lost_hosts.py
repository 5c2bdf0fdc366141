"""What does a host cost that vanishes without a goodbye? Three figures, end to end.

    python benchmarks/lost_hosts.py [--away 30] [--seed 1]

The real bot on PostgreSQL, two web processes and two workers, each on a host with a network of its
own (a network namespace; a proxy that swallows bytes where those are not permitted).

- The database's host is lost, its packets dropped, for `--away` seconds: how long the first alert
  and the slowest of the others wait for their 202, and how long after the host's return all are
  stored.
- A web host is lost in mid-transaction: how long alerts wait at the other one.
- A worker's host is lost while it investigates: its process stops and its packets are dropped, so
  that nobody hears of it. How long until its work is answered, by the other worker.

Ends with 1 when a figure exceeds its target. Measure alone on the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import text

from benchmarks.turmoil.black_holes import HostStops
from benchmarks.turmoil.faults import Happened
from benchmarks.turmoil.lines import Sickness
from benchmarks.turmoil.links import Silence
from benchmarks.turmoil.paths import in_slack
from benchmarks.turmoil.proof import everything, outside, titles, unsettled
from benchmarks.turmoil.senders import Senders, Sent, Shape
from benchmarks.turmoil.world import World, running_world

FIRST_S, STORED_S, BESIDE_S, ANSWERED_S = 2.0, 20.0, 2.0, 60.0
"""Targets. An alert goes to the spool after one second; the second one is for a busy machine."""
PATIENCE_S = 180.0
EVERY_S = 0.5
SLOW_SOURCES = ("prometheus", "loki")
"""Sources that are slow for a while, so that investigations are under way when their host goes."""
WORKING = text(
    "SELECT workflow_uuid FROM dbos.workflow_status WHERE status = 'PENDING'"
    " AND executor_id LIKE :executor AND name = 'investigate'"
)


@dataclass(frozen=True)
class Figure:
    """One measurement in seconds; None where it did not come within `PATIENCE_S`."""

    what: str
    seconds: float | None
    target_s: float

    @property
    def fine(self) -> bool:
        """Whether it keeps to its target."""
        return self.seconds is not None and self.seconds <= self.target_s

    def __str__(self) -> str:
        measured = "never" if self.seconds is None else f"{self.seconds:.1f} s"
        ratio = "" if self.seconds is None else f"{self.seconds / self.target_s:.2f}"
        return f"| {self.what} | {measured} | {self.target_s:g} s | {ratio} |"


class Measuring:
    """Sends alerts of one kind, one after the other."""

    def __init__(self, world: World, seed: str) -> None:
        self.world = world
        self.senders = Senders(world.urls, world.pagerduty, seed)
        self._number = 0

    def send(self) -> Sent:
        """One alert about a service no other alert names."""
        self._number += 1
        return self.senders.send(
            self._number, Shape.PLAIN, source="alertmanager", service=f"service-{self._number}"
        )

    def send_for(self, seconds: float) -> list[Sent]:
        """One every `EVERY_S`, and their answers."""
        ends, sent = time.monotonic() + seconds, []
        while time.monotonic() < ends:
            sent.append(self.send())
            time.sleep(EVERY_S)
        wait_until(lambda: all(sent_alert.acknowledged_at for sent_alert in sent))
        return sent

    def all_stored(self) -> bool:
        """Whether each is in the store."""
        stored = titles(self.world.store)
        return all(sent_alert.title in stored for sent_alert in self.senders.sent)


def measure(world: World, seed: str, away_s: float) -> list[Figure]:
    """All figures, one after the other."""
    measuring = Measuring(world, seed)
    measuring.send_for(3)
    wait_until(lambda: all(in_slack(world, sent_alert) for sent_alert in measuring.senders.sent))
    figures = lost_database(measuring, away_s)
    figures.append(lost_web_host(measuring, away_s))
    figures.append(lost_worker_host(measuring))
    measuring.senders.finish(30)
    return figures


def lost_database(measuring: Measuring, away_s: float) -> list[Figure]:
    """Of the acknowledgements meanwhile, and of the storing afterwards."""
    with database_away(measuring.world):
        first, *rest = measuring.send_for(away_s)
    stored = wait_until(measuring.all_stored)
    slowest = max(waited(sent_alert) for sent_alert in rest)
    return [
        Figure("database host lost: first alert acknowledged after", waited(first), FIRST_S),
        Figure("database host lost: slowest of the others", slowest, FIRST_S),
        Figure("database host is back: all stored after", stored, STORED_S),
    ]


def lost_web_host(measuring: Measuring, away_s: float) -> Figure:
    """Of the acknowledgements at the other web process."""
    world = measuring.world
    lost, other = world.fleet.servers
    vanishing = HostStops(world, lost.name, Happened())
    at_both, at_other = measuring.senders.urls, [other.url]
    stop = threading.Event()
    thread = threading.Thread(target=vanishing, args=(2 * PATIENCE_S, stop))
    thread.start()
    wait_until(lambda: measuring.send() is not None and is_stopped(world, lost.name))
    measuring.senders.urls = at_other
    slowest = max(waited(sent_alert) for sent_alert in measuring.send_for(away_s))
    stop.set()
    thread.join()
    measuring.senders.urls = at_both
    what = "web host lost in mid-transaction: slowest alert at the other one"
    return Figure(what, slowest, BESIDE_S)


def lost_worker_host(measuring: Measuring) -> Figure:
    """Of the answers to what it was investigating."""
    world = measuring.world
    wait_until(lambda: not unanswered(measuring))
    for name in SLOW_SOURCES:
        world.lines[name].fall_sick(Sickness.SLOW)
    sent = [measuring.send() for _ in range(6)]
    name = "worker-1"
    pid = world.fleet.members[name].pid()
    wait_until(lambda: all(sent_alert.acknowledged_at for sent_alert in sent))
    ids = {identity for sent_alert in sent for identity in sent_alert.investigations}
    wait_until(lambda: bool(working(world, pid) & ids))
    mine = working(world, pid)
    vanishing = HostStops(world, name, Happened())
    vanishing.vanish()
    began = time.monotonic()
    for source in SLOW_SOURCES:
        world.lines[source].fall_sick(None)
    concerned = [sent_alert for sent_alert in sent if sent_alert.investigations & mine]
    took = None
    if concerned:
        took = wait_until(
            lambda: all(in_slack(world, sent_alert) for sent_alert in concerned), began
        )
    vanishing.come_back()
    what = f"worker host lost: its {len(concerned)} investigations answered after"
    return Figure(what, took, ANSWERED_S)


def unanswered(measuring: Measuring) -> list[str]:
    """Investigations that are still to be answered."""
    investigations = everything(measuring.world.store)
    slack, pagerduty = measuring.world.slack, measuring.world.pagerduty
    return unsettled(
        investigations,
        outside(slack, pagerduty, [investigation.id for investigation in investigations]),
    )


@contextmanager
def database_away(world: World) -> Iterator[None]:
    """No host reaches the database, and nobody hears of it."""
    for host, link in world.links.items():
        if world.network.why_not:
            link.fall_silent(Silence.SWALLOWS)
        else:
            world.network.drop(host, [link.port])
    try:
        yield
    finally:
        for link in world.links.values():
            link.pass_again()
        world.network.carry_all()


def waited(sent_alert: Sent) -> float:
    """For its acknowledgement, in seconds."""
    return (sent_alert.acknowledged_at or sent_alert.sent_at + PATIENCE_S) - sent_alert.sent_at


def working(world: World, pid: int | None) -> set[str]:
    """The investigations that this worker has under way."""
    with world.store.engine.connect() as session:
        execute = session.execute(WORKING, {"executor": f"worker-{pid}-%"}).scalars()
        return {str(workflow_id).partition(":")[0] for workflow_id in execute}


def is_stopped(world: World, name: str) -> bool:
    """Whether the process stands still."""
    pid = world.fleet.members[name].pid()
    status = Path(f"/proc/{pid}/stat").read_text() if pid else ""
    return status.rpartition(")")[2].split()[:1] == ["T"]


def wait_until(condition: Callable[[], bool], began: float | None = None) -> float | None:
    """Seconds until it holds, or None when it does not within `PATIENCE_S`."""
    began = time.monotonic() if began is None else began
    while time.monotonic() < began + PATIENCE_S:
        if condition():
            return time.monotonic() - began
        time.sleep(0.1)
    return None


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--away", type=float, default=30, help="seconds of each loss")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--keep", type=Path, help="leave logs and databases in this directory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faultline-lost-hosts-") as scratch:
        directory = options.keep or Path(scratch)
        settings = {"FAULTLINE_ALERTS__GROUPS": "off"}
        with running_world("postgresql", directory, options.seed, **settings) as world:
            how = world.network.why_not or "packets dropped between network namespaces"
            figures = measure(world, options.seed, options.away)
    print(f"{os.cpu_count()} cores; {how}\n")
    print("| | measured | target | ratio |\n|---|---|---|---|")
    print("\n".join(map(str, figures)))
    sys.exit(0 if all(figure.fine for figure in figures) else 1)


if __name__ == "__main__":
    main()
