"""Whether an alert is about GPUs, and how much is asked about them; the same for every vendor."""

from __future__ import annotations

import re

from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.training.gpu_metrics import LABELS

MOST_GPUS = 128
"""Up to that many GPUs all are asked: 16 machines of 8."""
ROWS_PER_WINDOW = 5000
"""Rows of one signal in one window; the step grows with the number of GPUs."""
LEAST_POINTS = 20
ABOUT_GPUS = re.compile(r"(?i)(?:\b|_)(?:gpus?|dcgm|xid|nvlink|ecc|cuda|nccl|infiniband)(?:\b|_)")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")


def about_gpus(alert: Alert) -> bool:
    """Whether the alert is about a GPU, by its labels or its words."""
    if any(alert.labels.get(label) for label in (*LABELS["gpu"], *LABELS["uuid"])):
        return True
    for text in (alert.title, alert.signal or "", alert.labels.get("alertname", "")):
        # Alerts are often called like GpuTemperatureHigh.
        words = _CAMEL_CASE.sub(" ", text[:500])
        if ABOUT_GPUS.search(words):
            return True
    return False
