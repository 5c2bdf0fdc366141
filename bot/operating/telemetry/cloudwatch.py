"""The length of the queue as a log line that CloudWatch reads as metrics: no call of its API, and
no right to it.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable

from bot.operating.telemetry.store_figures import Figures
from bot.runtime.logs import VERBATIM

log = logging.getLogger("faultline.cloudwatch")

EVERY_S = 60.0
"""The shortest period of a metric of standard resolution."""
AGE, WAITING, FAILED = "QueueAgeSeconds", "Waiting", "Failed"
UNITS = {AGE: "Seconds", WAITING: "Count", FAILED: "Count"}


def metric_line(namespace: str, figures: Figures, now_s: float) -> str:
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


class CloudWatchLines:
    """Logs the line once a minute, from a thread of its own; none while the database does not
    answer."""

    def __init__(
        self, namespace: str, figures: Callable[[], Figures], *, every_s: float = EVERY_S
    ) -> None:
        self._namespace = namespace
        self._figures = figures
        self._every_s = every_s
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin with a line at once."""
        log.setLevel(logging.INFO)  # whatever else is logged
        threading.Thread(target=self._run, name="cloudwatch", daemon=True).start()

    def stop(self) -> None:
        """No further line."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            figures = self._figures()
            if figures.up:
                log.info(
                    "queue", extra={VERBATIM: metric_line(self._namespace, figures, time.time())}
                )
            self._stopping.wait(self._every_s)
