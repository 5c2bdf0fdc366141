"""Metrics of a process that are looked up when they are scraped, and those of its requests to
vendors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine, QueuePool

from faultline.bot.runtime import measures
from faultline.bot.runtime.measures import word
from faultline.bot.runtime.threads import hanging
from faultline.bot.store.databases import left_behind
from faultline.connectors.shared.transport.rate_limiter import open_circuits
from faultline.connectors.shared.transport.watching import VendorRequest


def count_vendor_request(vendor_request: VendorRequest) -> None:
    """Count one request to a vendor, or that there was none."""
    vendor = word("vendor", vendor_request.vendor)
    if vendor_request.skip_reason is not None:
        measures.VENDOR_SKIPPED.labels(vendor, vendor_request.skip_reason).inc()
        return
    measures.VENDOR_REQUESTS.labels(vendor, vendor_request.status_class).inc()
    measures.VENDOR_TIME.labels(vendor).observe(vendor_request.took_s)
    # A counter raises for a negative amount.
    measures.VENDOR_WAITED.labels(vendor).inc(max(0.0, vendor_request.waited_s))


class Circuits(Collector):
    """Which vendors' servers are left alone just now."""

    def describe(self) -> Iterable[Metric]:
        """The name, so that nothing else takes it."""
        return [GaugeMetricFamily("faultline_vendor_circuits_open", "")]

    def collect(self) -> Iterable[Metric]:
        """By vendor that was asked since this process started."""
        metric = GaugeMetricFamily(
            "faultline_vendor_circuits_open",
            "Servers of a vendor that are left alone for some seconds after failing again and "
            "again.",
            labels=["vendor"],
        )
        for vendor, count in sorted(open_circuits().items()):
            metric.add_metric([word("vendor", vendor)], count)
        yield metric


class HangingThreads(Collector):
    """Threads of this process that wait for a database that does not answer."""

    def describe(self) -> Iterable[Metric]:
        """The name, so that nothing else takes it."""
        return [GaugeMetricFamily("faultline_store_threads_hanging", "")]

    def collect(self) -> Iterable[Metric]:
        """How many there are now."""
        metric = GaugeMetricFamily(
            "faultline_store_threads_hanging",
            "Threads that wait for a database that does not answer, and were replaced.",
        )
        metric.add_metric([], hanging() + left_behind())
        yield metric


class Pool(Collector):
    """Connections to the database that are in use, of all engines of this process."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    def describe(self) -> Iterable[Metric]:
        """The name, so that nothing else takes it."""
        return [GaugeMetricFamily("faultline_database_connections", "")]

    def collect(self) -> Iterable[Metric]:
        """In use, and idle in the pool."""
        # Other pools do not count their connections.
        pools = [engine.pool for engine in self._engines if isinstance(engine.pool, QueuePool)]
        metric = GaugeMetricFamily(
            "faultline_database_connections",
            "Connections of this process to the database.",
            labels=["state"],
        )
        metric.add_metric(["used"], sum(pool.checkedout() for pool in pools))
        metric.add_metric(["idle"], sum(pool.checkedin() for pool in pools))
        yield metric
