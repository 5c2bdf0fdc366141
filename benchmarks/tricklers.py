"""Do thousands of half-open connections keep a signed webhook out?

    python benchmarks/tricklers.py [--tricklers 3000] [--seconds 60] [--one-address] [--small]

The real web process (`faultline serve --no-worker`, SQLite). Tricklers open connections and send a
byte of a request every two seconds; one that is closed comes again. They use 250 addresses of this
machine (127.0.0.0/8), or with `--one-address` the webhook's own. Meanwhile a signed webhook is sent
each second over a new connection: all are to be acknowledged. The same is then done to
`benchmarks/bare_app.py`, which has no limits. Figures depend on the machine: compare runs on one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import bare_app
from benchmarks.many_alerts import SECRET, process, spread
from benchmarks.storm import Alert, request_of
from faultline.loopback.bot_process import BotProcess

ADDRESSES = 250
BYTE_EVERY_S = 2.0
AGAIN_AFTER_S = 0.2
AT_ONCE = 100
"""Connections that are opened in one turn: the kernel's queue is short."""
PATIENCE_S = 5.0
HEAD = b"POST /webhooks/pagerduty HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: " + b"z" * 4_000
SMALL = {"tricklers": 300, "seconds": 6.0}


@dataclass
class WebhookResults:
    """The results of the webhooks."""

    sent: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Of those that were not acknowledged; 0 is no answer."""
    open: int = 0
    """Tricklers that were connected at the end."""
    opened: int = 0
    """Connections that they made in all."""


class Tricklers:
    """Hold connections open."""

    def __init__(self, port: int, count: int, *, single_address: bool) -> None:
        self.open = self.opened = 0
        self._port = port
        self._count = count
        self._addresses = 1 if single_address else ADDRESSES
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._trickle(number))

    async def _trickle(self, number: int) -> None:
        phrase = f"127.0.0.{number % self._addresses + 1}"
        while True:
            with contextlib.suppress(OSError):
                async with self._gate:
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", self._port, local_addr=(phrase, 0)
                    )
                self.open += 1
                self.opened += 1
                try:
                    await self._drip(reader, writer)
                finally:
                    self.open -= 1
                    writer.close()
            await asyncio.sleep(AGAIN_AFTER_S)

    async def _drip(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in HEAD:
            writer.write(bytes([byte]))
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BYTE_EVERY_S):
                    await reader.read()
                    return


def trickle(pipe: Connection, port: int, count: int, seconds: float, single_address: bool) -> None:
    """A process: the tricklers, and once they are connected the webhooks beside them."""
    allow_connections(count)
    pipe.send(asyncio.run(_beside(port, count, seconds, single_address=single_address)))


def allow_connections(count: int) -> None:
    """Raise this process's limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 1_024)), hard))


async def _beside(port: int, count: int, seconds: float, *, single_address: bool) -> WebhookResults:
    beside, tricklers = WebhookResults(), Tricklers(port, count, single_address=single_address)
    running = asyncio.create_task(tricklers.run())
    until = time.monotonic() + 30
    while tricklers.opened < count and time.monotonic() < until:
        await asyncio.sleep(0.1)
    sending = []
    for number in range(int(seconds)):
        sending.append(asyncio.create_task(_webhook(port, number, beside)))
        await asyncio.sleep(1)
    await asyncio.gather(*sending)
    beside.open, beside.opened = tricklers.open, tricklers.opened
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return beside


async def _webhook(port: int, number: int, results: WebhookResults) -> None:
    request = request_of(Alert(f"PT{number:05d}", 0, "checkout"), datetime.now(UTC))
    began, status = time.perf_counter(), 0
    results.sent += 1
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
            writer.close()
    if status == 202:
        results.latencies_ms.append((time.perf_counter() - began) * 1000)
    else:
        results.statuses.append(status)


def on_the_bot(options: argparse.Namespace, scratch: Path) -> WebhookResults:
    """Beside the real web process."""
    environ = {"FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": SECRET}
    with BotProcess(scratch, environ, serve=("--no-worker",), log=scratch / "bot.log") as bot:
        return _sent(bot.port, options)


def on_the_bare_app(options: argparse.Namespace, scratch: Path) -> WebhookResults:
    """Beside the reference."""
    with process(bare_app.serve, SECRET, "sqlite", str(scratch)) as app:
        results = _sent(app.recv(), options)
        app.send(None)
    return results


def _sent(port: int, options: argparse.Namespace) -> WebhookResults:
    arguments = (port, options.tricklers, options.seconds, options.one_address)
    with process(trickle, *arguments) as running:
        recv: WebhookResults = running.recv()
    return recv


def report(name: str, results: WebhookResults) -> None:
    """Print the figures of one."""
    print(
        f"  {name}: {len(results.latencies_ms)} of {results.sent} webhooks acknowledged, "
        f"{spread(results.latencies_ms, 'ms')}; others {results.statuses or 'none'}; "
        f"{results.open} "
        f"tricklers connected at the end, {results.opened} connections made"
    )


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tricklers", type=int, default=3_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--one-address", action="store_true")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    if options.small:
        vars(options).update(SMALL)
    return options


def main() -> None:
    """Run both."""
    options = options_of()
    allow_connections(options.tricklers)
    print(
        f"{os.cpu_count()} cores; load average {os.getloadavg()[0]:.1f}; {options.tricklers} "
        f"tricklers, a webhook a second for {options.seconds:g} s"
    )
    with tempfile.TemporaryDirectory() as scratch:
        report("bot", on_the_bot(options, Path(scratch)))
        report("bare app", on_the_bare_app(options, Path(scratch)))


if __name__ == "__main__":
    main()
