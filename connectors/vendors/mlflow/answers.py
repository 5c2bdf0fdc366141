"""What MLflow answers about runs, in the shape that runs of Weights & Biases have here.

Shapes: mlflow.org/docs/latest/rest-api.html; names of system metrics: mlflow/system_metrics/metrics
of MLflow 3.17. Values may be NaN or Infinity as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from faultline.connectors.shared.training.training_runs import (
    STEP_KEY,
    TIME_KEY,
    TrainingRun,
    number,
)

COMMIT = "mlflow.source.git.commit"
# In the year 2191: anything later is no time.
LATEST_MS = 7_000_000_000_000
_SYSTEM = re.compile(
    r"system/(?:(?P<node>[^/]{1,60})/)?(?:gpu_(?P<gpu>\d{1,3})_)?(?P<name>\w{1,60})$"
)
OF_GPU: dict[str, tuple[str, float]] = {
    "utilization_percentage": ("gpu", 1.0),
    "memory_usage_percentage": ("memoryAllocated", 1.0),
    "memory_usage_megabytes": ("memoryAllocatedBytes", 1e6),
    "memory_usage_gigabytes": ("memoryAllocatedBytes", 1e9),
    "power_usage_watts": ("powerWatts", 1.0),
}
OF_HOST: dict[str, tuple[str, float]] = {
    "cpu_utilization_percentage": ("cpu", 1.0),
    "system_memory_usage_percentage": ("memory_percent", 1.0),
    "disk_usage_percentage": ("disk./.usagePercent", 1.0),
}
"""MLflow's name -> that of Weights & Biases, and the factor to its unit."""


class KeyValue(msgspec.Struct):
    """A parameter or a tag."""

    key: str
    value: str = ""


class MlflowMetric(msgspec.Struct):
    """One value of a metric; the time in ms."""

    key: str = ""
    value: Any = None
    timestamp: Any = None
    step: Any = 0


class RunInfo(msgspec.Struct):
    """Times in ms."""

    run_id: str
    experiment_id: str = ""
    run_name: str = ""
    status: str = ""
    start_time: Any = None
    end_time: Any = None


class RunData(msgspec.Struct):
    """`metrics` are the last values."""

    metrics: list[MlflowMetric] = []
    params: list[KeyValue] = []
    tags: list[KeyValue] = []


class MlflowRun(TrainingRun):
    """A run as the shared tables are made of it. `name` is its id."""

    experiment_id: str = ""
    metrics: tuple[str, ...] = ()
    """The keys that it logged."""


class TrackedRun(msgspec.Struct):
    """A run as it is answered."""

    info: RunInfo
    data: RunData = msgspec.field(default_factory=RunData)

    @property
    def shown(self) -> MlflowRun:
        """In the shape that runs of Weights & Biases have here."""
        info, data = self.info, self.data
        return MlflowRun(
            name=info.run_id,
            state=info.status.lower(),
            displayName=info.run_name or None,
            commit=next((tag.value for tag in data.tags if tag.key == COMMIT), None),
            createdAt=_moment(info.start_time),
            heartbeatAt=_moment(info.end_time),
            config=json.dumps({param.key: param.value for param in data.params}),
            experiment_id=info.experiment_id,
            metrics=tuple(metric.key for metric in data.metrics),
        )


class RunAnswer(msgspec.Struct):
    run: TrackedRun


class RunsAnswer(msgspec.Struct):
    """Of none the field is absent."""

    runs: list[TrackedRun] = []


class ExperimentData(msgspec.Struct):
    experiment_id: str


class ExperimentAnswer(msgspec.Struct):
    experiment: ExperimentData


class HistoryAnswer(msgspec.Struct):
    """A page of a metric's values."""

    metrics: list[MlflowMetric] = []
    next_page_token: str | None = None


def _moment(ms: Any) -> str | None:
    # A bool is an int in Python.
    if isinstance(ms, bool) or not isinstance(ms, int) or not 0 < ms < LATEST_MS:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def rows_of(key: str, values: Iterable[MlflowMetric], factor: float = 1.0) -> list[dict[str, Any]]:
    """Values of one metric as rows of a history; what has no readable time is left out."""
    rows = []
    for mlflow_metric in values:
        value, ms = number(mlflow_metric.value), number(mlflow_metric.timestamp)
        if value is not None and ms is not None:
            rows.append({STEP_KEY: mlflow_metric.step, TIME_KEY: ms / 1000, key: value * factor})
    return rows


def system_key(key: str) -> tuple[str, float] | None:
    """The name that the shared tables know a system metric by, and the factor to its unit; None for
    one that is not kept."""
    match = _SYSTEM.match(key)
    if match is None:
        return None
    shared_metric = (OF_GPU if match["gpu"] else OF_HOST).get(match["name"])
    if shared_metric is None:
        return None
    name = f"gpu.{match['gpu']}.{shared_metric[0]}" if match["gpu"] else shared_metric[0]
    # `/l:` marks the node, as in the names of Weights & Biases.
    return (f"{name}/l:{match['node']}" if match["node"] else name), shared_metric[1]
