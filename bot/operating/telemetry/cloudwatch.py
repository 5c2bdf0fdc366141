"""The length of the queue as a log line that CloudWatch reads as metrics: no call of its API, and
no right to it.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable

from faultline.bot.operating.telemetry.store_figures import StoreSnapshot
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.runtime.logs import VERBATIM

log = logging.getLogger("faultline.cloudwatch")

EVERY_S = 60.0
"""The shortest period of a metric of standard resolution."""
AGE, WAITING, FAILED = "QueueAgeSeconds", "Waiting", "Failed"
UNITS = {AGE: "Seconds", WAITING: "Count", FAILED: "Count"}


def metric_line(namespace: str, figures: StoreSnapshot, now_s: float) -> str:
    """One event in the embedded metric format, without dimensions. `now_s` as `time.time()`."""
    metrics = [{"Name": name, "Unit": unit} for name, unit in UNITS.items()]
    directive = {"Namespace": namespace, "Dimensions": [[]], "Metrics": metrics}
    values = {
        AGE: round(figures.oldest_s, 3),
        WAITING: figures.waiting,
        FAILED: figures.failed_lately,
    }
    return json.dumps(
        {"_aws": {"Timestamp": int(now_s * 1000), "CloudWatchMetrics": [directive]}, **values}
    )


class CloudWatchLines(BackgroundLoop):
    """Logs the line once a minute; none while the database does not answer."""

    def __init__(
        self, namespace: str, figures: Callable[[], StoreSnapshot], *, every_s: float = EVERY_S
    ) -> None:
        super().__init__("cloudwatch", every_s=every_s)
        self._namespace = namespace
        self._figures = figures

    def start(self) -> None:
        """Begin with a line at once."""
        # These lines are metrics: they are written whatever level the log has.
        log.setLevel(logging.INFO)
        super().start()

    def turn(self) -> bool:
        """One line."""
        figures = self._figures()
        if figures.up:
            line = metric_line(self._namespace, figures, time.time())
            log.info("queue", extra={VERBATIM: line})
        return False
