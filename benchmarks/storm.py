"""An alert storm of 20 incidents with one P1 in its midst: is every alert acknowledged or refused
in time, are none lost or doubled, how soon is the P1 answered, does every incident get its note?

    python benchmarks/storm.py [--engine sqlite|postgresql] [--alerts 12000] [--rate 200]
                               [--incidents 20] [--pages 50] [--small]

The real bot (`faultline serve`: web process and niced worker), Slack and PagerDuty on loopback, and
the sender of signed webhooks, each a separate process. An incident is a service with `--pages`
PagerDuty incidents, whose alerts repeat until all are sent. The sender waits 5 s for an answer, as
PagerDuty does, and sends what was refused (503) or not answered again after 2, 4 and 8 s. PagerDuty
takes 960 requests a minute, as the real one.

Lost: acknowledged, and in no investigation. Doubled: a second message or note for one. The same
sender then sends to `benchmarks/bare_app.py`, which only verifies the signature and writes one row.
Figures depend on the machine: compare runs on one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import bare_app
from benchmarks.acknowledgement import database
from benchmarks.many_alerts import SECRET, SlackRecord, children, process, slack_process, spread
from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store
from faultline.loopback.bot_process import BotProcess, incident_event, signed_webhook
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from tests.scenarios.small_case import write_small_case

P1 = "PURGENT"
P1_SERVICE = "billing"
CHANNEL = "C00"
PATIENCE_S = 5.0
"""PagerDuty's (https://developer.pagerduty.com/docs/webhooks-overview)."""
SENT_AGAIN_S = (2.0, 4.0, 8.0)
NOTES_A_MINUTE = 960
REFERENCE_S = 15.0
SMALL = {"alerts": 160, "rate": 40.0, "incidents": 4, "pages": 5, "settles_s": 120.0}


@dataclass(frozen=True)
class Alert:
    """One webhook: of which PagerDuty incident, which of its alerts, and what it is about."""

    incident: str
    number: int
    service: str


@dataclass
class Sent:
    """What the sender saw. Times in seconds since 1970."""

    at: dict[str, float] = field(default_factory=dict)
    """When each PagerDuty incident was sent first."""
    acknowledged: set[str] = field(default_factory=set)
    """PagerDuty incidents of which at least one alert was."""
    latencies_ms: list[float] = field(default_factory=list)
    """Of what was acknowledged at the first try."""
    taken: int = 0
    shed: int = 0
    unanswered: int = 0
    abandoned: int = 0
    late_ms: float = 0.0
    """How far the sender fell behind."""


def alerts_of(count: int, incidents: int, pages: int) -> list[Alert]:
    """The storm in its order: every service in turn, every page of it in turn, the P1 halfway."""
    alerts: list[Alert] = []
    for number in range(count - 1):
        incident, page = number % incidents, number // incidents % pages
        name = f"P{incident:02d}X{page:03d}"
        alerts.append(Alert(name, number // (incidents * pages), f"service-{incident:02d}"))
    alerts.insert(count // 2, Alert(P1, 0, P1_SERVICE))
    return alerts


def request_of(alert: Alert, began: datetime) -> bytes:
    """The signed webhook over HTTP/1.1."""
    event = incident_event(
        incident=alert.incident,
        title=f"p99 latency of {alert.service} is high",
        service=alert.service,
        at=began,
        base="https://acme.example",
    )
    event["data"]["priority"] = {"id": "P", "summary": "P1" if alert.incident == P1 else "P3"}
    delivery = f"{alert.incident}-{alert.number}"
    body, headers = signed_webhook(SECRET, {**event, "id": delivery}, delivery=delivery)
    headers["content-length"] = str(len(body))
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(["POST /webhooks/pagerduty HTTP/1.1", "host: 127.0.0.1", *lines])
    return head.encode() + b"\r\n\r\n" + body


class Sender:
    """Sends at a steady rate, whatever the answers."""

    def __init__(self, port: int) -> None:
        self.sent = Sent()
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send_all(self, alerts: Sequence[Alert], rate: float) -> Sent:
        """All of them."""
        began, started, tasks = time.perf_counter(), datetime.now(UTC), []
        for number, alert in enumerate(alerts):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self.sent.late_ms = max(self.sent.late_ms, (time.perf_counter() - due) * 1000)
            tasks.append(asyncio.create_task(self._deliver(alert, request_of(alert, started))))
        await asyncio.gather(*tasks)
        return self.sent

    async def _deliver(self, alert: Alert, request: bytes) -> None:
        sent, began = self.sent, time.perf_counter()
        sent.at.setdefault(alert.incident, time.time())
        for wait_s in (*SENT_AGAIN_S, None):
            status = await self._answered(request)
            if status == 202:
                sent.taken += 1
                sent.acknowledged.add(alert.incident)
                if wait_s == SENT_AGAIN_S[0]:
                    sent.latencies_ms.append((time.perf_counter() - began) * 1000)
                return
            if status == 503:
                sent.shed += 1
            else:
                sent.unanswered += 1
            if wait_s is not None:
                await asyncio.sleep(wait_s)
        sent.abandoned += 1

    async def _answered(self, request: bytes) -> int:
        """The status; 0 where there was no answer in time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._request(request)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return 0

    async def _request(self, request: bytes) -> int:
        while self._free and self._free[-1][0].at_eof():
            self._free.pop()[1].close()
        reader, writer = (
            self._free.pop()
            if self._free
            else await asyncio.open_connection("127.0.0.1", self._port)
        )
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        except BaseException:
            writer.close()
            raise
        if b"connection: close" in head:
            writer.close()
        else:
            self._free.append((reader, writer))
        return int(head.split()[1])


def send(pipe: Connection, port: int, alerts: Sequence[Alert], rate: float) -> None:
    """A process: the sender."""
    pipe.send(asyncio.run(Sender(port).send_all(alerts, rate)))


def pagerduty(pipe: Connection, incidents: Sequence[str]) -> None:
    """A process: says where it listens, then answers each question with how many notes each
    incident has, and how many requests were too many."""
    account = LoopbackPagerDuty(per_minute=NOTES_A_MINUTE)
    for incident in incidents:
        account.open_incident(incident, "p99 latency is high", "service")
    url, stop = serve_in_thread(account.app)
    pipe.send(url)
    while pipe.recv():
        notes = {name: len(incident.notes) for name, incident in account.incidents.items()}
        pipe.send((notes, account.refused))
    stop()


@dataclass
class Result:
    """The result of the storm."""

    sent: Sent
    slack_record: SlackRecord
    lost: int
    investigations: int
    done: int
    doubled_messages: int
    notes: dict[str, int]
    too_many: int
    p1_first_s: float | None
    p1_answer_s: float | None
    cpu_s: tuple[float, float]
    """Of the web process, and of the worker with its processes."""

    @property
    def doubled(self) -> int:
        """Messages and notes that are there twice."""
        return self.doubled_messages + sum(max(0, n - 1) for n in self.notes.values())

    @property
    def noted(self) -> int:
        """PagerDuty incidents with a note."""
        return sum(n > 0 for n in self.notes.values())


def storm(options: argparse.Namespace, address: str, scratch: Path) -> Result:
    """Run it once."""
    alerts = alerts_of(options.alerts, options.incidents, options.pages)
    names = sorted({alert.incident for alert in alerts})
    with ExitStack() as opened:
        slack = opened.enter_context(process(slack_process, False))
        vendor = opened.enter_context(process(pagerduty, names))
        services = sorted({alert.service for alert in alerts})
        config = scratch / "faultline.toml"
        config.write_text(
            "".join(f'[services."{name}"]\nslack_channel = "{CHANNEL}"\n' for name in services)
        )
        environ = {
            "FAULTLINE_CONFIG": str(config),
            "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": SECRET,
            "FAULTLINE_PAGERDUTY__API_TOKEN": "key",
            "FAULTLINE_PAGERDUTY__FROM_EMAIL": "faultline@example.com",
            "FAULTLINE_PAGERDUTY__API_URL": vendor.recv(),
            "FAULTLINE_SLACK__BOT_TOKEN": "xoxb-test",
            "FAULTLINE_SLACK__API_URL": slack.recv(),
            "FAULTLINE_RECORDED__CASE": str(write_small_case(scratch / "case")),
            "FAULTLINE_ALERTS__GROUPS": "on",
        }
        if address != "sqlite":
            environ["FAULTLINE_STORE__DATABASE"] = address
        log = scratch / "bot.log"
        bot = opened.enter_context(BotProcess(scratch, environ, log=log))
        url = f"sqlite:///{scratch}/state/faultline.sqlite" if address == "sqlite" else address
        engine = connect(url)
        opened.callback(engine.dispose)
        time.sleep(options.starts_s)
        with process(send, bot.port, alerts, options.rate) as sender:
            sent: Sent = sender.recv()
        result = settled(options, Store(engine), slack, vendor, sent, bot)
        slack.send(False)
        vendor.send(False)
    return result


def settled(
    options: argparse.Namespace,
    store: Store,
    slack: Connection,
    vendor: Connection,
    sent: Sent,
    bot: BotProcess,
) -> Result:
    """Look until everything is answered and noted, or no longer than `--settles-s`."""
    deadline = time.monotonic() + options.settles_s
    while True:
        slack.send(True)
        recv: SlackRecord = slack.recv()
        vendor.send(True)
        notes, too_many = vendor.recv()
        latest = store.latest(10_000)
        ids: set[str] = set()
        for investigation in latest:
            ids |= {investigation.alert.id, *(member.alert.id for member in investigation.related)}
        lost = len(sent.acknowledged - ids)
        urgent = next(
            (investigation.id for investigation in latest if investigation.alert.id == P1), ""
        )
        noted = all(notes[name] for name in sent.acknowledged)
        finished = noted and not lost and len(recv.answered) >= len(latest)
        if finished or time.monotonic() > deadline:
            break
        time.sleep(1)
    began = sent.at[P1]
    posted = Counter(recv.posted)
    worker = bot.worker_pid()
    return Result(
        sent=sent,
        slack_record=recv,
        lost=lost,
        investigations=len(latest),
        done=store.count("done"),
        doubled_messages=sum(count - 1 for count in posted.values()),
        notes=notes,
        too_many=too_many,
        p1_first_s=recv.first[urgent] - began if urgent in recv.first else None,
        p1_answer_s=recv.answered[urgent] - began if urgent in recv.answered else None,
        cpu_s=(cpu_s(bot.pid), sum(map(cpu_s, [worker, *children(worker)])) if worker else 0.0),
    )


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, with those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def reference(
    options: argparse.Namespace, address: str, scratch: Path, alerts: Sequence[Alert]
) -> Sent:
    """The same load on the bare app, for at most REFERENCE_S."""
    with process(bare_app.serve, SECRET, address, str(scratch)) as app:
        port = app.recv()
        with process(send, port, alerts[: int(REFERENCE_S * options.rate)], options.rate) as sender:
            sent: Sent = sender.recv()
        app.send(None)
    return sent


def report(options: argparse.Namespace, result: Result, bare: Sent) -> None:
    """Print the figures."""
    sent = result.sent
    first_tries = options.alerts
    print(
        f"\n{options.engine}: {first_tries} alerts of {options.incidents} incidents at "
        f"{options.rate:g}/s, and a P1"
    )
    print(
        f"  acknowledged {sent.taken} ({len(sent.latencies_ms)} at the first try), "
        f"shed {sent.shed} (503), not answered in {PATIENCE_S:g} s {sent.unanswered}, "
        f"given up {sent.abandoned}"
    )
    print(f"  lost {result.lost}, doubled {result.doubled}")
    print(f"  acknowledgement {spread(sent.latencies_ms, 'ms')}")
    print(f"  bare app        {spread(bare.latencies_ms, 'ms')}; {ratio(sent, bare)}")
    print(
        f"  P1: first message after {seconds(result.p1_first_s)} (target 2 s), answer after "
        f"{seconds(result.p1_answer_s)} (target 15 s)"
    )
    print(
        f"  investigations {result.investigations}, done {result.done}; PagerDuty incidents with "
        f"their note {result.noted} of {len(result.notes)}; PagerDuty answered 429 to "
        f"{result.too_many}"
    )
    web, worker = result.cpu_s
    print(
        f"  CPU: web process {web:.1f} s, worker {worker:.1f} s; the sender was late by "
        f"{sent.late_ms:.0f} ms at most"
    )
    sys.stdout.flush()


def ratio(sent: Sent, bare: Sent) -> str:
    """How many times slower than the reference, by p50 and p99."""
    if not sent.latencies_ms or not bare.latencies_ms:
        return "no ratio"

    ours, theirs = (np.percentile(side.latencies_ms, [50, 99]) for side in (sent, bare))
    return f"the bot takes {ours[0] / theirs[0]:.1f} and {ours[1] / theirs[1]:.1f} times as long"


def seconds(value: float | None) -> str:
    """For people."""
    return "never" if value is None else f"{value:.1f} s"


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--alerts", type=int, default=12_000)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--incidents", type=int, default=20)
    parser.add_argument("--pages", type=int, default=50, help="PagerDuty incidents of each")
    parser.add_argument("--settles-s", type=float, default=900)
    parser.add_argument("--starts-s", type=float, default=5)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    if options.small:
        vars(options).update(SMALL)
    return options


def main() -> None:
    """Run the storm and its reference."""
    options = options_of()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16_384)), hard))
    print(
        f"{os.cpu_count()} cores for all of it; load average {os.getloadavg()[0]:.1f} before the "
        "start"
    )
    with tempfile.TemporaryDirectory() as scratch, database(options.engine) as address:
        result = storm(options, address, Path(scratch))
        alerts = alerts_of(options.alerts, options.incidents, options.pages)
        bare = reference(options, address, Path(scratch), alerts)
    report(options, result, bare)


if __name__ == "__main__":
    main()
