"""Many investigations ask every vendor at once: are the limits kept, and how far is it from the
ideal schedule?

    python benchmarks/connectors_at_scale.py [--investigations 200] [--latency-ms 300] [--only github,loki]

Each vendor is its stand-in of the tests on loopback, in a separate process; it answers after the
latency. What comes faster, or more at once, than the connector's limits allow is counted. The ideal
schedule of a vendor is the longer of (requests - burst) / rate + latency and requests * latency /
concurrency; all vendors are asked side by side, so the longest counts. The last line gives the wall
time as a multiple of it.
"""  # noqa: E501

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import os
import resource
import sys
import tempfile
import threading
import time
from multiprocessing import Pipe, Process, set_start_method
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.rate_limiter import (
    RateLimiter,
    collecting,
    rate_limiters_of,
)
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.pagerduty_server import INCIDENT

PATIENCE_S = 3600.0
"""In the place of the connectors' deadlines: how long all take is what is measured."""
TOLERANCE = 1.05
"""Timers of two processes differ: a limit counts as exceeded from here on."""


class Vendor:
    """A stand-in in a separate process, so that its work and its memory are not the bot's."""

    def __init__(self, name: str, latency_s: float) -> None:
        self.name = name
        self.requests = self.most_inside = self.exceeded = 0
        self._latency_s = latency_s
        self._pipe, far = Pipe()
        Process(target=stand_in_process, args=(name, latency_s, far), daemon=True).start()
        self.settings: dict[str, dict[str, object]] = self._pipe.recv()

    def settle(self) -> None:
        """Count what came against the limits of all its servers: AWS has one per service."""
        self._pipe.send("counts")
        arrivals, self.most_inside = self._pipe.recv()
        limits = [limiter.limits for limiter in rate_limiters_of(self.name)]
        rate = sum(limit.requests_per_s for limit in limits) * TOLERANCE
        burst = sum(max(1, round(limit.requests_per_s)) for limit in limits) * TOLERANCE
        self.requests = len(arrivals)
        tokens, before = burst, arrivals[0] if arrivals else 0.0
        for at in arrivals:
            tokens = min(burst, tokens + (at - before) * rate) - 1
            before = at
            self.exceeded += tokens < -1
        self.exceeded += max(0, self.most_inside - sum(limit.concurrency for limit in limits))

    def ideal_s(self) -> float:
        """The shortest time in which this many requests can be made within the limits: that of the
        slowest server."""
        return max(
            (self._ideal_of(limiter) for limiter in rate_limiters_of(self.name)), default=0.0
        )

    def _ideal_of(self, limiter: RateLimiter) -> float:
        rate = limiter.limits.requests_per_s
        by_rate = max(0.0, limiter.permits - max(1, round(rate))) / rate + self._latency_s
        return max(by_rate, limiter.permits * self._latency_s / limiter.limits.concurrency)


class Arrivals:
    """When requests came, and how many were inside at once at most."""

    def __init__(self, server: LocalServer, latency_s: float) -> None:
        self.at: list[float] = []
        self.inside = self.most_inside = 0
        self._server, self._latency_s = server, latency_s
        self._lock = threading.Lock()
        self._answer = server._reply
        server._reply = self._late  # type: ignore[method-assign]

    def _late(self, request: Asked) -> Reply:
        with self._lock:
            self.at.append(time.monotonic())
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
        try:
            time.sleep(self._latency_s)
            return self._answer(request)
        finally:
            with self._lock:
                self.inside -= 1


def stand_in_process(name: str, latency_s: float, pipe: Connection) -> None:
    """Serve one vendor until the parent ends."""
    stand_in = importlib.import_module(f"tests.connectors.stand_ins.{name}")
    with LocalServer() as server:
        stand_in.serve(server)
        arrivals = Arrivals(server, latency_s)
        pipe.send(stand_in.settings(server.url))
        with contextlib.suppress(EOFError):  # the parent ended
            while pipe.recv():
                pipe.send((sorted(arrivals.at), arrivals.most_inside))


async def ask(connectors: list[Connector], investigations: int) -> tuple[int, int]:
    """All connectors for all investigations at once; items brought, and gaps."""
    alert = Alert(
        source="pagerduty",
        id=INCIDENT,
        title="Checkout is slow",
        started_at=ALERT_AT,
        service="checkout",
    )
    with tempfile.TemporaryDirectory() as scratch:

        async def collected_counts(number: int, connector: Connector) -> tuple[int, int]:
            folder = Path(scratch) / f"{number}-{connector.name}"
            folder.mkdir()
            request = request_for(folder, services=("checkout", "cart"), job="llm-1", alert=alert)
            try:
                async with collecting(connector.name, connector.limits):
                    collection = await connector.collect(request)
            except FaultlineError:
                return 0, 1
            return len(collection.items), len(collection.missing)

        tasks = (collected_counts(n, c) for n in range(investigations) for c in connectors)
        counts = await asyncio.gather(*tasks)
    return sum(items for items, _ in counts), sum(gaps for _, gaps in counts)


def main() -> None:
    """Run it and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--investigations", type=int, default=200)
    options.add_argument("--latency-ms", type=float, default=300)
    options.add_argument("--only", default="")
    args = options.parse_args()
    set_start_method("spawn")
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    names = args.only.split(",") if args.only else [n for n in CONNECTORS if n != "recorded"]
    vendors = [Vendor(name, args.latency_ms / 1000) for name in names]
    tables: dict[str, dict[str, object]] = {}
    for vendor in vendors:
        for table, values in vendor.settings.items():
            values_by_key = tables.setdefault(table, {})
            for key, value in values.items():
                earlier_value = values_by_key.get(key)
                values_by_key[key] = (
                    earlier_value | value if isinstance(earlier_value, dict) else value
                )
    settings = Settings.model_validate(tables)
    Deadline.within = classmethod(lambda _, limits: Deadline.after(PATIENCE_S))  # type: ignore[assignment]
    connectors = [c for name in names if (c := CONNECTORS[name].configured(settings)) is not None]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    items, gaps = asyncio.run(ask(connectors, args.investigations))
    wall = time.monotonic() - began
    print(f"{'vendor':<14} {'requests':>8} {'at once':>8} {'exceeded':>8} {'ideal s':>8}")
    for vendor in vendors:
        vendor.settle()
        counts = f"{vendor.requests:>8} {vendor.most_inside:>8} {vendor.exceeded:>8}"
        print(f"{vendor.name:<14} {counts} {vendor.ideal_s():>8.1f}")
    ideal = max(vendor.ideal_s() for vendor in vendors)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{args.investigations} investigations: {items} items, {gaps} gaps; memory "
        f"{before >> 10} -> {after >> 10} MiB"
    )
    exceeded = sum(vendor.exceeded for vendor in vendors)
    print(
        f"limits exceeded: {exceeded}; wall {wall:.1f} s, ideal {ideal:.1f} s: {wall / ideal:.2f}x"
    )
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
