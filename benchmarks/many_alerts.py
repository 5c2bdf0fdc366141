"""A thousand alerts in ten seconds: are all answered, each once, how soon is the first message, how
soon the answer?

    python benchmarks/many_alerts.py [--alerts 1000] [--seconds 10] [--workers 1,2,4] [--mode
    apart|storm|urgent]
                                     [--slack-limit]

The real web process and worker processes on a separate PostgreSQL server; Slack and the sender
of the signed webhooks are separate processes. The alerts are of 40 services of four teams,
answered in 20 channels; each is investigated on a small recorded case. `apart`: each alert is its
own incident. `storm`: all are of one service, with storm control on. `urgent`: as `apart`, with one
P1 among them. `--slack-limit`: Slack takes one message a second in each channel and answers 429 to
more, as the real one may. Figures depend on the machine: compare runs on one."""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.acknowledgement import database
from faultline.bot.queue.backlog import queue_state
from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store
from faultline.loopback.bot_process import BotProcess, incident_event, signed_webhook
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack
from faultline.loopback.slack_views import SlackRefusal
from tests.scenarios.small_case import write_small_case

SECRET = "webhook-secret"
CHANNELS = {f"C{n:02d}": f"channel-{n}" for n in range(20)}
SERVICES = {f"service-{n:02d}": f"C{n % 20:02d}" for n in range(40)}
TEAMS = 4
URGENT = "U000000"
SETTLES_WITHIN_S = 3600.0
SENT_AGAIN_S = 2.0


class TimedSlack(LoopbackSlack):
    """Keeps when the first message of each investigation and its answer arrived, in seconds since
    1970."""

    def __init__(self, *, limited: bool) -> None:
        super().__init__(channels=CHANNELS)
        self.first: dict[str, float] = {}
        self.answered: dict[str, float] = {}
        self.posted: Counter[str] = Counter()
        self.refused = 0
        self._limited = limited
        self._last: dict[str, float] = {}

    async def _call(self, request: Request) -> Response:
        answer = await super()._call(request)
        if b'"ratelimited"' in bytes(answer.body):
            self.refused += 1
            return JSONResponse({"ok": False, "error": "ratelimited"}, 429, {"retry-after": "1"})
        return answer

    def _post(self, arguments: Mapping[str, Any], base_url: str) -> dict[str, Any]:
        channel, now = str(arguments.get("channel")), time.time()
        if self._limited and now - self._last.get(channel, 0.0) < 1.0:
            raise SlackRefusal("ratelimited")
        self._last[channel] = now
        post = super()._post(arguments, base_url)
        self._record_post(self.messages[-1], now)
        return post

    def _update(self, arguments: Mapping[str, Any], base_url: str) -> dict[str, Any]:
        response = super()._update(arguments, base_url)
        message = next(m for m in self.messages if m.ts == arguments.get("ts"))
        key = str((message.metadata or {})["event_payload"]["key"]).partition(":")[0]
        self.answered.setdefault(key, time.time())
        return response

    def _record_post(self, message: Any, now: float) -> None:
        key = str((message.metadata or {})["event_payload"]["key"]).partition(":")[0]
        self.posted[key] += 1
        self.first.setdefault(key, now)
        if "Investigating" not in message.text:
            self.answered.setdefault(key, now)


@dataclass
class SlackRecord:
    """What Slack has seen."""

    first: dict[str, float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    posted: dict[str, int] = field(default_factory=dict)
    refused: int = 0


def slack_process(pipe: Connection, limited: bool) -> None:
    """A process: says where it listens, then answers each question with what it has seen, until
    told to end."""
    slack = TimedSlack(limited=limited)
    url, stop = serve_in_thread(slack.app)
    pipe.send(f"{url}/api")
    while pipe.recv():
        pipe.send(
            SlackRecord(dict(slack.first), dict(slack.answered), dict(slack.posted), slack.refused)
        )
    stop()


def _send(pipe: Connection, port: int, count: int, seconds: float, mode: str) -> None:
    pipe.send(asyncio.run(_load(port, count, seconds, mode)))


@dataclass
class Sent:
    """When each incident was sent first, in seconds since 1970, how long until it was acknowledged,
    and how often one was refused, and sent again as PagerDuty does."""

    at: dict[str, float] = field(default_factory=dict)
    latencies_ms: list[float] = field(default_factory=list)
    refused: int = 0


async def _load(port: int, count: int, seconds: float, mode: str) -> Sent:
    requests = _requests(count, mode)
    sent, free = Sent(), list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()

    async def send_until_taken(incident: str, request: bytes) -> None:
        sent.at[incident], began = time.time(), time.perf_counter()
        while not await post_request(request):
            sent.refused += 1
            await asyncio.sleep(SENT_AGAIN_S)
        sent.latencies_ms.append((time.perf_counter() - began) * 1000)

    async def post_request(request: bytes) -> bool:
        while free and free[-1][0].at_eof():
            free.pop()[1].close()
        reader, writer = free.pop() if free else await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        free.append((reader, writer))
        return head.startswith(b"HTTP/1.1 202")

    began, tasks = time.perf_counter(), []
    for number, (incident, request) in enumerate(requests):
        await asyncio.sleep(max(0.0, began + number * seconds / count - time.perf_counter()))
        tasks.append(asyncio.create_task(send_until_taken(incident, request)))
    await asyncio.gather(*tasks)
    return sent


def _requests(count: int, mode: str) -> list[tuple[str, bytes]]:
    requests = []
    names = list(SERVICES)
    for number in range(count):
        urgent = mode == "urgent" and number == count // 2
        incident = URGENT if urgent else f"A{number:06d}"
        service = names[0] if mode == "storm" else names[number % len(names)]
        event = incident_event(
            incident=incident,
            title=f"p99 latency of {service}",
            service=service,
            at=datetime.now(UTC),
            base="https://acme.example",
        )
        event["data"]["priority"] = {"id": "P", "summary": "P1" if urgent else "P3"}
        body, headers = signed_webhook(SECRET, {**event, "id": incident}, delivery=incident)
        lines = [
            f"{name}: {value}"
            for name, value in {**headers, "content-length": str(len(body))}.items()
        ]
        head = "\r\n".join(["POST /webhooks/pagerduty HTTP/1.1", "host: 127.0.0.1", *lines])
        requests.append((incident, head.encode() + b"\r\n\r\n" + body))
    return requests


def settings_file(directory: Path) -> Path:
    """Services with their channels, and teams."""
    lines = []
    for service, channel in SERVICES.items():
        lines += [f'[services."{service}"]', f'slack_channel = "{channel}"']
    for team in range(TEAMS):
        team_services = [s for n, s in enumerate(SERVICES) if n % TEAMS == team]
        lines += [f"[teams.team-{team}]", f"services = {team_services!r}"]
    file = directory / "faultline.toml"
    file.write_text("\n".join(lines))
    return file


def run(options: argparse.Namespace, workers: int) -> None:
    """One bot, one load. Print the result."""
    with ExitStack() as opened:
        scratch = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        address = opened.enter_context(database("postgresql"))
        slack = opened.enter_context(process(slack_process, options.slack_limit))
        environ = {
            "FAULTLINE_CONFIG": str(settings_file(scratch)),
            "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": SECRET,
            "FAULTLINE_SLACK__BOT_TOKEN": "xoxb-test",
            "FAULTLINE_SLACK__API_URL": slack.recv(),
            "FAULTLINE_RECORDED__CASE": str(write_small_case(scratch / "case")),
            "FAULTLINE_ALERTS__GROUPS": "on" if options.mode == "storm" else "off",
            "FAULTLINE_STORE__DATABASE": address,
            "FAULTLINE_WORKER__NICENESS": str(options.niceness),
        }
        bot = opened.enter_context(BotProcess(scratch, environ, serve=("--no-worker",)))
        context = [opened.enter_context(worker(bot, scratch)) for _ in range(workers)]
        engine = connect(address)
        opened.callback(engine.dispose)
        store = Store(engine)
        time.sleep(5)  # the workers start
        with process(_send, bot.port, options.alerts, options.seconds, options.mode) as sender:
            recv, watched = settle(store, slack, sender, context)
        report(options, workers, store, recv, watched)
        slack.send(False)


@dataclass
class Watched:
    """What was seen while it ran."""

    sent: Sent = field(default_factory=Sent)
    oldest_s: float = 0.0
    waiting: int = 0
    peak_mb: list[float] = field(default_factory=list)


def settle(
    store: Store, slack: Connection, sender: Connection, processes: list[subprocess.Popen[bytes]]
) -> tuple[SlackRecord, Watched]:
    """Until every accepted investigation is answered in Slack."""
    watched, recv, sent_all = Watched(peak_mb=[0.0] * len(processes)), SlackRecord(), False
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while time.monotonic() < deadline:
        time.sleep(1)
        if not sent_all and sender.poll():
            watched.sent, sent_all = sender.recv(), True
        state = queue_state(store)
        watched.oldest_s, watched.waiting = (
            max(watched.oldest_s, state.oldest_s),
            max(watched.waiting, state.waiting),
        )
        watched.peak_mb = [
            max(peak, memory_mb(p.pid)) for peak, p in zip(watched.peak_mb, processes, strict=True)
        ]
        slack.send(True)
        recv = slack.recv()
        if (
            sent_all
            and len(recv.answered) >= store.count()
            and not state.waiting
            and not state.running
        ):
            break
    return recv, watched


def report(
    options: argparse.Namespace,
    workers: int,
    store: Store,
    slack_record: SlackRecord,
    watched: Watched,
) -> None:
    """Print the figures."""
    sent, latest = watched.sent, store.latest(10_000)
    begun = {
        investigation.id: sent.at[investigation.reply_to.pagerduty_incident or ""]
        for investigation in latest
    }
    first = {i: slack_record.first[i] - at for i, at in begun.items() if i in slack_record.first}
    answer = {
        i: slack_record.answered[i] - at for i, at in begun.items() if i in slack_record.answered
    }
    doubled = sum(count - 1 for count in slack_record.posted.values())
    took = max(slack_record.answered.values()) - min(begun.values())
    print(
        f"\n{options.mode}, {workers} worker(s): {len(sent.at)} alerts in {options.seconds:g} s",
        end="",
    )
    print(f", {sent.refused} refused and sent again")
    print(
        f"  investigations {len(latest)}, done {store.count('done')}, failed "
        f"{store.count('failed')}"
    )
    print(
        f"  answered in Slack {len(answer)}, lost {len(latest) - len(answer)}, doubled {doubled}",
        end="",
    )
    print(f"; Slack answered 429 to {slack_record.refused}")
    print(f"  acknowledgement {spread(sent.latencies_ms, 'ms')}")
    print(f"  first message   {spread(list(first.values()), 's')}")
    print(
        f"  answer          {spread(list(answer.values()), 's')}; {len(answer) / took:.1f} "
        f"answers/s"
    )
    print(f"  queue: at most {watched.waiting} waited, the oldest for {watched.oldest_s:.0f} s")
    print(
        f"  memory of each worker with its pool, peak: "
        f"{', '.join(f'{mb:.0f} MB' for mb in watched.peak_mb)}"
    )
    urgent = next(
        (
            investigation.id
            for investigation in latest
            if investigation.reply_to.pagerduty_incident == URGENT
        ),
        None,
    )
    if urgent is not None:
        print(
            f"  the urgent one: first message after {first[urgent]:.1f} s, answer after "
            f"{answer[urgent]:.1f} s"
        )
    sys.stdout.flush()


def spread(values: list[float], unit: str) -> str:
    """Median, 99th percentile and maximum."""
    if not values:
        return "none"
    p50, p99 = np.percentile(values, [50, 99])
    return f"p50 {p50:.1f}, p99 {p99:.1f}, max {max(values):.1f} {unit}"


def memory_mb(pid: int) -> float:
    """Resident memory of a process and its children, in MB; pages that they share count for
    each."""
    total = 0.0
    for child in (pid, *children(pid)):
        try:
            status = Path(f"/proc/{child}/status").read_text()
        except OSError:
            continue
        total += next(
            (
                int(line.split()[1]) / 1000
                for line in status.splitlines()
                if line.startswith("VmRSS")
            ),
            0.0,
        )
    return total


def children(pid: int) -> list[int]:
    """Its children and theirs."""
    try:
        parts = [
            int(c)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for c in (task / "children").read_text().split()
        ]
    except OSError:
        return []
    return [descendant for child in parts for descendant in (child, *children(child))]


@contextmanager
def process(target: Any, *arguments: Any) -> Iterator[Connection]:
    """A separate process, and our end of its pipe."""
    ours, theirs = multiprocessing.Pipe()
    started = multiprocessing.get_context("spawn").Process(
        target=target, args=(theirs, *arguments), daemon=True
    )
    started.start()
    try:
        yield ours
    finally:
        started.join(1)
        started.kill()


@contextmanager
def worker(bot: BotProcess, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One `faultline worker`."""
    started = subprocess.Popen(
        [sys.executable, "-m", "faultline.bot.cli.main", "worker"], env=bot.environ, cwd=directory
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def main() -> None:
    """Run with each number of workers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--alerts", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--workers", default="1")
    parser.add_argument("--mode", choices=["apart", "storm", "urgent"], default="apart")
    parser.add_argument("--slack-limit", action="store_true")
    parser.add_argument("--niceness", type=int, default=10)
    options = parser.parse_args()
    load = f"load average {os.getloadavg()[0]:.1f} before the start"
    print(
        f"{os.cpu_count()} cores for all of it: web process, workers, PostgreSQL, Slack and the "
        f"sender; {load}"
    )
    for workers in options.workers.split(","):
        run(options, int(workers))


if __name__ == "__main__":
    main()
