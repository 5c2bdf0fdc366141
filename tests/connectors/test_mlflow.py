"""Runs of MLflow over real HTTP: which run, what is brought, what becomes a gap, and what is
diagnosed."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.shared.training.training_runs import HIDDEN
from faultline.connectors.vendors.mlflow import CONNECTOR
from faultline.connectors.vendors.mlflow.connector import (
    LIMITS,
    MOST_PAGES,
    MlflowConnector,
    MlflowHttp,
)
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import mlflow as stand_in
from tests.connectors.stand_ins.mlflow import MlflowServer, training_run

BEGAN = ALERT_AT - timedelta(hours=3)
NOW, BEFORE, OTHER = "1" * 32, "2" * 32, "3" * 32


@pytest.fixture
def mlflow(server: LocalServer) -> MlflowServer:
    """One sound run of llm-1 that began three hours before the alert."""
    served = MlflowServer(server)
    served.runs.append(training_run(NOW, BEGAN))
    return served


def connector(mlflow: MlflowServer, **own: Any) -> MlflowConnector:
    """As the settings build it."""
    values = stand_in.settings(mlflow.server.url)
    values["mlflow"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, MlflowConnector)
    return built


def collect(
    mlflow: MlflowServer,
    folder: Path,
    *,
    labels: dict[str, str] | None = None,
    job: str | None = "llm-1",
    **own: Any,
) -> Collected:
    alert = Alert(source="test", title="Training", started_at=ALERT_AT, labels=labels or {})
    request = request_for(folder, job=job, alert=alert)
    return asyncio.run(collect_from(connector(mlflow, **own), request))


def rows(collected: Collected, signal: str) -> pl.DataFrame:
    return collected.tables["metrics"].filter(pl.col("signal") == signal)


def test_series_of_the_run_come_within_the_windows_and_by_step(
    mlflow: MlflowServer, tmp_path: Path
) -> None:
    mlflow.runs[0].log("loss", 9000, 300, "NaN")
    mlflow.page = 100
    found = collect(mlflow, tmp_path)
    assert found.missing == ()
    assert set(found.tables["metrics"]["signal"]) == {
        "loss", "learning_rate", "step_time", "gpu_utilization_percent", "gpu_memory_used_bytes",
        "gpu_power_w", "cpu_percent",
    }  # fmt: skip
    assert rows(found, "loss")["time"].min() >= ALERT_AT - timedelta(minutes=150)  # type: ignore[operator]
    assert set(rows(found, "loss")["service"]) == {"llm-1"}
    power = rows(found, "gpu_power_w")
    assert json.loads(power["labels"][0]) == {"gpu": "0", "host": "node_1"}
    assert set(power["service"]) == {"llm-1/gpu0"}
    assert rows(found, "gpu_memory_used_bytes")["value"].max() == 6.1e10
    (file,) = tmp_path.glob("mlflow-*.history.jsonl")
    assert "NaN" in file.read_text()
    assert {item.link for item in found.items} == {
        f"{mlflow.server.url}/#/experiments/42/runs/{NOW}"
    }
    assert {a.headers["Authorization"] for a in mlflow.server.asked} == {"Basic Ym90OnQ="}


def test_an_alert_about_no_training_job_asks_nothing(mlflow: MlflowServer, tmp_path: Path) -> None:
    assert collect(mlflow, tmp_path, job=None) == Collected()
    assert mlflow.server.asked == []


def test_the_run_is_the_one_that_the_alert_names_else_the_jobs_newest(
    mlflow: MlflowServer, tmp_path: Path
) -> None:
    mlflow.runs.append(training_run(OTHER, BEGAN - timedelta(hours=1), name="llm-2 warm"))
    mlflow.runs.append(training_run(BEFORE, ALERT_AT + timedelta(hours=1)))
    for labels in ({"mlflow_run": OTHER}, {"run_name": "llm-2 warm"}, {"run_id": OTHER}):
        found = collect(mlflow, tmp_path, labels=labels)
        assert all(item.link and item.link.endswith(OTHER) for item in found.items)
    found = collect(mlflow, tmp_path, labels={"run_id": "f" * 32})
    assert all(item.link and item.link.endswith(NOW) for item in found.items)
    assert "the newest of llm-1 is shown instead" in found.missing[0].reason
    hostile = collect(mlflow, tmp_path, job="x' OR attributes.run_name != 'x")
    assert hostile.missing[0].reason.startswith("no run there is called")


def test_a_job_can_have_an_experiment_of_its_own(mlflow: MlflowServer, tmp_path: Path) -> None:
    mlflow.runs[0].name = "fluffy-fox-7"
    own: dict[str, Any] = {"experiment": None, "experiments": {"llm-1": "pretrain"}}
    assert collect(mlflow, tmp_path, **own).items
    other = collect(mlflow, tmp_path, job="llm-2", **own)
    assert other.missing[0].reason == "no MLflow experiment is set for this job"


def test_what_changed_since_the_run_before_is_a_change_and_secrets_are_hidden(
    mlflow: MlflowServer, tmp_path: Path
) -> None:
    mlflow.runs[0].params = {"lr": "0.003", "batch": "8", "api_key": "b" * 40}
    mlflow.runs[0].commit = "f" * 40
    given = {"lr": "0.0003", "batch": "8", "api_key": "a" * 40}
    mlflow.runs.append(training_run(BEFORE, BEGAN - timedelta(hours=5), params=given))
    mlflow.runs.append(training_run(OTHER, BEGAN - timedelta(hours=9)))
    config, deploy = collect(mlflow, tmp_path).tables["changes"].sort("kind").rows(named=True)
    assert (config["time"], config["service"], config["kind"]) == (BEGAN, "llm-1", "config")
    assert config["diff"].splitlines() == [
        f"-api_key: {HIDDEN}",
        f"+api_key: {HIDDEN}",
        '-lr: "0.0003"',
        '+lr: "0.003"',
    ]
    assert (deploy["kind"], deploy["diff"].splitlines()[1]) == ("deploy", "+commit: " + "f" * 40)


def test_a_run_that_failed_before_the_restart_is_shown_too(
    mlflow: MlflowServer, tmp_path: Path
) -> None:
    failed_at = ALERT_AT - timedelta(minutes=20)
    mlflow.runs.append(training_run(BEFORE, BEGAN, status="FAILED", ended=failed_at))
    mlflow.runs[0] = training_run(NOW, ALERT_AT - timedelta(minutes=15), 0.2)
    monitors = collect(mlflow, tmp_path).tables["monitors"].sort("since")
    assert monitors["state"].to_list() == ["failed", "running"]
    assert monitors["since"][0] == failed_at


def test_one_metric_that_fails_is_a_gap_and_long_ones_are_cut(
    mlflow: MlflowServer, tmp_path: Path
) -> None:
    mlflow.page = 400 // (2 * MOST_PAGES)
    found = collect(mlflow, tmp_path)
    assert {i.cut for i in found.items if i.kind == "metrics"} == {
        "the first 100,000 values of a metric"
    }
    mlflow.server.on(f"{stand_in.API}/metrics/get-history", Reply(b"secret words", status=403))
    found = collect(mlflow, tmp_path)
    assert any("not permitted" in one.reason for one in found.missing)
    assert not any("secret words" in one.reason for one in found.missing)
    assert found.tables["monitors"].height == 1


def test_check_says_what_can_be_read(mlflow: MlflowServer) -> None:
    said = asyncio.run(connector(mlflow).check())
    assert said.ok
    assert "pretrain can be read; only searches are sent" in said.line
    said = asyncio.run(connector(mlflow, experiment="gone").check())
    assert not said.ok
    assert "no such experiment" in said.line
    assert not asyncio.run(connector(mlflow, experiment=None).check()).ok


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/2.0/mlflow/runs/delete"),
        ("POST", "/api/2.0/mlflow/runs/search?x=1"),
        ("PUT", "/api/2.0/mlflow/runs/search"),
    ],
)
def test_nothing_but_the_search_can_be_posted(server: LocalServer, method: str, path: str) -> None:
    async def send() -> None:
        async with MlflowHttp("mlflow", server.url, limits=LIMITS).open() as session:
            await session._client.request(method, server.url + path, json={})

    with pytest.raises(ConnectorError, match="only searches runs"):
        asyncio.run(send())
    assert server.asked == []
