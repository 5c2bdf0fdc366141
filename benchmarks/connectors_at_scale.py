"""Many investigations ask every vendor at once: are the limits kept, and how far is it from the ideal schedule?

    python benchmarks/connectors_at_scale.py [--investigations 200] [--latency-ms 300] [--only github,loki]

Each vendor is its stand-in of the tests on loopback; it answers after the latency, and counts what comes faster, or
more at once, than the connector's limits allow. The ideal schedule of a vendor is the longer of (requests - burst) /
rate + latency and requests * latency / concurrency; all vendors are asked side by side, so the longest counts. The last
line gives the wall time as a multiple of it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analysis.errors import FaultlineError
from analysis.vocabulary import Alert
from bot.settings import Settings
from connectors.base import Connector
from connectors.pacing import Deadline, Pace, paces_of
from connectors.registry import CONNECTORS
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.pagerduty_server import INCIDENT

PATIENCE_S = 3600.0
"""In the place of the connectors' deadlines: how long all take is what is measured."""
TOLERANCE = 1.05
"""Timers of two processes differ: a limit counts as exceeded from here on."""


class Vendor:
    """A stand-in that answers late and watches its limits."""

    def __init__(self, name: str, latency_s: float) -> None:
        self.name = name
        self.server = LocalServer()
        self.requests = self.inside = self.most_inside = self.exceeded = 0
        self._latency_s = latency_s
        self._lock = threading.Lock()
        self._burst = 0
        self._tokens = 0.0
        self._at = time.monotonic()
        stand_in = importlib.import_module(f"tests.connectors.stand_ins.{name}")
        stand_in.serve(self.server)
        self.settings = stand_in.settings(self.server.url)
        self._answer = self.server._reply
        self.server._reply = self._late  # type: ignore[method-assign]

    def limits(self) -> tuple[float, int, int]:
        """Requests a second, burst and requests at once, over all of the vendor's servers: AWS has one per service."""
        limits = [pace.limits for pace in paces_of(self.name)]
        rates = [one.requests_per_s for one in limits]
        return sum(rates), sum(max(1, round(rate)) for rate in rates), sum(one.concurrency for one in limits)

    def ideal_s(self) -> float:
        """The shortest time in which so many requests can be made within the limits: that of the slowest server."""
        return max((self._ideal_of(pace) for pace in paces_of(self.name)), default=0.0)

    def _ideal_of(self, pace: Pace) -> float:
        rate = pace.limits.requests_per_s
        by_rate = max(0.0, pace.turns - max(1, round(rate))) / rate + self._latency_s
        return max(by_rate, pace.turns * self._latency_s / pace.limits.concurrency)

    def _late(self, asked: Asked) -> Reply:
        self._enter()
        try:
            time.sleep(self._latency_s)
            return self._answer(asked)
        finally:
            with self._lock:
                self.inside -= 1

    def _enter(self) -> None:
        with self._lock:
            self.requests += 1
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            rate, burst, concurrency = self.limits()
            if burst != self._burst:
                self._tokens += (burst - self._burst) * TOLERANCE
                self._burst = burst
            now = time.monotonic()
            self._tokens = min(burst * TOLERANCE, self._tokens + (now - self._at) * rate * TOLERANCE) - 1
            self._at = now
            self.exceeded += self._tokens < -1 or self.inside > concurrency


async def ask(connectors: list[Connector], investigations: int) -> tuple[int, int]:
    """All connectors for all investigations at once; items brought, and gaps."""
    alert = Alert(source="pagerduty", id=INCIDENT, title="Checkout is slow", started_at=ALERT_AT, service="checkout")
    with tempfile.TemporaryDirectory() as scratch:

        async def one(number: int, connector: Connector) -> tuple[int, int]:
            folder = Path(scratch) / f"{number}-{connector.name}"
            folder.mkdir()
            request = request_for(folder, services=("checkout", "cart"), job="llm-1", alert=alert)
            try:
                found = await connector.collect(request)
            except FaultlineError:
                return 0, 1
            return len(found.items), len(found.missing)

        tasks = (one(n, c) for n in range(investigations) for c in connectors)
        brought = await asyncio.gather(*tasks)
    return sum(items for items, _ in brought), sum(gaps for _, gaps in brought)


def main() -> None:
    """Run it and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--investigations", type=int, default=200)
    options.add_argument("--latency-ms", type=float, default=300)
    options.add_argument("--only", default="")
    given = options.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    names = given.only.split(",") if given.only else [n for n in CONNECTORS if n != "recorded"]
    vendors = [Vendor(name, given.latency_ms / 1000) for name in names]
    for vendor in vendors:
        vendor.server.__enter__()
    tables: dict[str, dict[str, object]] = {}
    for vendor in vendors:
        for table, values in vendor.settings.items():
            own = tables.setdefault(table, {})
            for key, value in values.items():
                known = own.get(key)
                own[key] = known | value if isinstance(known, dict) else value
    settings = Settings.model_validate(tables)
    Deadline.within = classmethod(lambda _, limits: Deadline.after(PATIENCE_S))  # type: ignore[assignment]
    connectors = [c for name in names if (c := CONNECTORS[name](settings)) is not None]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    items, gaps = asyncio.run(ask(connectors, given.investigations))
    wall = time.monotonic() - began
    print(f"{'vendor':<14} {'requests':>8} {'at once':>8} {'exceeded':>8} {'ideal s':>8}")
    for vendor in vendors:
        counts = f"{vendor.requests:>8} {vendor.most_inside:>8} {vendor.exceeded:>8}"
        print(f"{vendor.name:<14} {counts} {vendor.ideal_s():>8.1f}")
    ideal = max(vendor.ideal_s() for vendor in vendors)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{given.investigations} investigations: {items} items, {gaps} gaps; memory {before >> 10} -> {after >> 10} MiB"
    )
    exceeded = sum(vendor.exceeded for vendor in vendors)
    print(f"limits exceeded: {exceeded}; wall {wall:.1f} s, ideal {ideal:.1f} s: {wall / ideal:.2f}x")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
