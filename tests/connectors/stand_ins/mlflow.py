"""MLflow: an experiment with a run of the job llm-1, and whatever runs a test adds.

Answers have the shapes of its REST API's documentation; numbers of 64 bits are numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT
from tests.connectors.local_http import Asked, LocalServer, Reply

API = "/api/2.0/mlflow"
SEARCH = f"{API}/runs/search"
READING_POSTS = frozenset({SEARCH})
"""Runs can be searched by POST alone."""
EXPERIMENT = "42"
_FILTER = re.compile(r"attributes\.start_time <= (\d+)(?: AND attributes\.run_name = '([^']*)')?")
MISSING = Reply({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "secret words"}, status=404)


def settings(url: str) -> dict[str, Any]:
    """One experiment."""
    return {"mlflow": {"url": url, "experiment": "pretrain", "username": "bot", "token": "t"}}


@dataclass
class StoredRun:
    """One run. Values by metric: seconds since it began, step and value."""

    id: str
    began: datetime
    name: str = "llm-1"
    status: str = "RUNNING"
    ended: datetime | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    commit: str = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
    metrics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def log(self, key: str, seconds: float, step: int, value: Any) -> None:
        """As `log_metric` leaves it."""
        at = _ms(self.began + timedelta(seconds=seconds))
        row = {"key": key, "value": value, "timestamp": at, "step": step}
        self.metrics.setdefault(key, []).append(row)

    @property
    def answered(self) -> dict[str, Any]:
        """As the server has it; absent is what is not set."""
        info = {
            "run_uuid": self.id,
            "experiment_id": EXPERIMENT,
            "run_name": self.name,
            "user_id": "ml",
            "status": self.status,
            "start_time": _ms(self.began),
            **({"end_time": _ms(self.ended)} if self.ended else {}),
            "artifact_uri": f"mlflow-artifacts:/{EXPERIMENT}/{self.id}/artifacts",
            "lifecycle_stage": "active",
            "run_id": self.id,
        }
        tags = {"mlflow.runName": self.name, "mlflow.source.git.commit": self.commit}
        data = {
            "metrics": [values[-1] for values in self.metrics.values()],
            "params": [{"key": key, "value": value} for key, value in self.params.items()],
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }
        return {"info": info, "data": data, "inputs": {}, "outputs": {}}


def training_run(id: str, began: datetime, hours: float = 3.0, **given: Any) -> StoredRun:
    """A run that logs a step every 30 s, all of it sound, with one GPU's metrics."""
    run = StoredRun(id, began, **given)
    steps = int(hours * 120)
    for n in range(steps):
        wobble = 0.01 * ((n * 7919) % 13 - 6)
        for key, value in {
            "loss": 3.0 - n / steps + 0.02 * wobble,
            "learning_rate": 3e-4 * (1 - n / steps),
            "step_time": 30.0 + 0.05 * wobble,
            "system/gpu_0_utilization_percentage": 97.0 + wobble,
            "system/gpu_0_memory_usage_megabytes": 61_000.0,
            "system/node_1/gpu_0_power_usage_watts": 640.0 + wobble,
            "system/cpu_utilization_percentage": 12.0,
            "system/network_receive_megabytes": 5.0,
        }.items():
            run.log(key, n * 30, n, value)
    return run


class MlflowServer:
    """Serves runs of one experiment."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.runs: list[StoredRun] = []
        self.page = 1_000_000
        server.on(f"{API}/experiments/get-by-name", self._experiment)
        server.on(SEARCH, self._search)
        server.on(f"{API}/runs/get", self._run)
        server.on(f"{API}/metrics/get-history", self._history)

    def _experiment(self, asked: Asked) -> Reply:
        if asked.query["experiment_name"] != ["pretrain"]:
            return MISSING
        own = {"experiment_id": EXPERIMENT, "name": "pretrain", "lifecycle_stage": "active"}
        return Reply({"experiment": own})

    def _search(self, asked: Asked) -> Reply:
        body = json.loads(asked.body)
        assert body["experiment_ids"] == [EXPERIMENT]
        assert body["order_by"] == ["attributes.start_time DESC"]
        wanted = _FILTER.fullmatch(body["filter"])
        if wanted is None:
            return Reply({"error_code": "INVALID_PARAMETER_VALUE"}, status=400)
        found = [one for one in self.runs if _ms(one.began) <= int(wanted[1])]
        found = [one for one in found if wanted[2] in (None, one.name)]
        found.sort(key=lambda one: one.began, reverse=True)
        runs = [one.answered for one in found[: body["max_results"]]]
        return Reply({"runs": runs} if runs else {})

    def _run(self, asked: Asked) -> Reply:
        found = next((one for one in self.runs if [one.id] == asked.query["run_id"]), None)
        return Reply({"run": found.answered}) if found else MISSING

    def _history(self, asked: Asked) -> Reply:
        run = next(one for one in self.runs if [one.id] == asked.query["run_id"])
        values = run.metrics[asked.query["metric_key"][0]]
        first = int(asked.query.get("page_token", ["0"])[0])
        end = first + min(self.page, int(asked.query["max_results"][0]))
        more = {"next_page_token": str(end)} if end < len(values) else {}
        return Reply({"metrics": values[first:end], **more})


def serve(server: LocalServer) -> None:
    """The experiment with its run."""
    MlflowServer(server).runs.append(training_run("1" * 32, ALERT_AT - timedelta(hours=3)))


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
