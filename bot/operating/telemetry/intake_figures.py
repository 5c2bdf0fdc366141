"""Metrics of how alerts get into the database: what waits in the spool, and when a write last
succeeded."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from faultline.bot.intake.moving import IntakeHealth, SpoolMover
from faultline.bot.intake.watchdog import Watchdog


class IntakeFigures(Collector):
    """Of one web process. Asks neither the database nor the disk."""

    def __init__(self, health: IntakeHealth, mover: SpoolMover, watchdog: Watchdog) -> None:
        self.health = health
        self.mover = mover
        self.watchdog = watchdog

    def describe(self) -> Iterable[Metric]:
        """Nothing is read when it is registered."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The metrics."""
        health, figures = self.health, self.health.spool.figures()
        gauges: tuple[tuple[str, str, float], ...] = (
            ("faultline_spool_alerts", "Alerts that wait for the database.", figures.alerts),
            ("faultline_spool_bytes", "Bytes of the spool's files.", figures.bytes),
            (
                "faultline_spool_filled_ratio",
                "The share of the spool's bound that is used, of alerts or of bytes.",
                health.spool.filled(),
            ),
            (
                "faultline_spool_oldest_seconds",
                "How long the oldest alert in the spool has waited; 0 where none waits.",
                health.not_stored_s(),
            ),
            (
                "faultline_spool_failing",
                "Whether the spool could not take the last alert.",
                float(bool(figures.problem)),
            ),
            (
                "faultline_spool_refused_alerts",
                "Alerts of the spool that the database refuses for what they hold.",
                figures.refused,
            ),
            (
                "faultline_store_write_seconds_ago",
                "Seconds since the database last took a write of this process.",
                health.silent_s(),
            ),
            (
                "faultline_watchdog_seconds_ago",
                "Seconds since the alert that always fires arrived; 0 until it first does.",
                self.watchdog.silent_s() or 0.0,
            ),
            (
                "faultline_watchdog_missing",
                "Whether the alert that always fires is missing.",
                float(self.watchdog.missing() is not None),
            ),
        )
        for name, description, value in gauges:
            metric = GaugeMetricFamily(name, description)
            metric.add_metric([], value)
            yield metric
