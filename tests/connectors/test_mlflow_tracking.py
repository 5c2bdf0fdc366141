"""The connector of MLflow, and the server that its other tests ask, against a real tracking
server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.shared.training.training_runs import HIDDEN
from faultline.connectors.vendors.mlflow import CONNECTOR
from faultline.connectors.vendors.mlflow.connector import MlflowConnector
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer
from tests.connectors.mlflow_server import READER, MlflowTracking, mlflow_tracking
from tests.connectors.stand_ins.mlflow import MlflowServer, StoredRun, training_run

pytestmark = pytest.mark.timeout(300)
BEGAN = ALERT_AT - timedelta(hours=3)
FAILED_AT = ALERT_AT - timedelta(minutes=20)
BEFORE, NOW = "2" * 32, "1" * 32


def runs() -> list[StoredRun]:
    """One that failed, and the one that it was started again as, with other parameters."""
    given = {"lr": "0.0003", "api_key": "a" * 40}
    before = training_run(BEFORE, BEGAN, status="FAILED", ended=FAILED_AT, params=given)
    began = ALERT_AT - timedelta(minutes=15)
    now = training_run(NOW, began, 0.2, params={"lr": "0.003", "api_key": "b" * 40})
    now.log("loss", 700, 23, "NaN")
    return [before, now]


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowTracking]:
    """An MLflow that keeps these runs."""
    with mlflow_tracking(tmp_path_factory.mktemp("mlflow")) as server:
        for run in runs():
            server.keep(run)
        yield server


def connector(url: str, **own: Any) -> MlflowConnector:
    """As the settings build it."""
    user, password = READER
    values = {"url": url, "experiment": "pretrain", "username": user, "token": password, **own}
    built = CONNECTOR.configured(Settings.model_validate({"mlflow": values}))
    assert isinstance(built, MlflowConnector)
    return built


def collect(url: str, folder: Path, **own: Any) -> Collected:
    alert = Alert(source="test", title="Training", started_at=ALERT_AT)
    request = request_for(folder, job="llm-1", alert=alert)
    return asyncio.run(collect_from(connector(url, **own), request))


def test_an_investigation_reads_what_the_job_logged(
    tracking: MlflowTracking, tmp_path: Path
) -> None:
    found = collect(tracking.url, tmp_path)
    assert found.missing == ()
    assert set(found.tables["metrics"]["signal"]) == {
        "loss", "learning_rate", "step_time", "gpu_utilization_percent", "gpu_memory_used_bytes",
        "gpu_power_w", "cpu_percent",
    }  # fmt: skip
    [file] = tmp_path.glob("mlflow-*.history.jsonl")
    assert "NaN" in file.read_text()
    monitors = found.tables["monitors"].sort("since")
    assert monitors["state"].to_list() == ["failed", "running"]
    assert monitors["since"][0] == FAILED_AT
    [change] = found.tables["changes"]["diff"]
    assert change.splitlines() == [
        f"-api_key: {HIDDEN}", f"+api_key: {HIDDEN}", '-lr: "0.0003"', '+lr: "0.003"',
    ]  # fmt: skip


def test_the_stand_in_brings_the_same(
    tracking: MlflowTracking, server: LocalServer, tmp_path: Path
) -> None:
    stand_in = MlflowServer(server)
    stand_in.runs += runs()
    brought: list[Collected] = []
    for url in (tracking.url, server.url):
        folder = tmp_path / str(len(brought))
        folder.mkdir()
        brought.append(collect(url, folder))
    real, ours = brought
    for name in ("metrics", "changes", "monitors"):
        columns = [one for one in real.tables[name].columns if one not in ("link", "id")]
        assert told(real, name, columns).equals(told(ours, name, columns)), name


def told(found: Collected, name: str, columns: list[str]) -> pl.DataFrame:
    """The rows in one order."""
    return found.tables[name].select(columns).sort(columns)


def test_each_answer_has_the_fields_that_the_stand_in_gives(
    tracking: MlflowTracking,
) -> None:
    run, _ = runs()
    kept = next(iter(listed(tracking)))
    real = tracking.asked("runs/get", run_id=kept).json()["run"]
    ours = run.answered
    assert set(real) == set(ours)
    assert fields(real["info"]) == fields(ours["info"])
    for name in ("metrics", "params", "tags"):
        assert by_key(real["data"][name]) == by_key(ours["data"][name]), name


def listed(tracking: MlflowTracking) -> list[str]:
    """The ids of the runs, the oldest first."""
    found = tracking.sent(
        "runs/search",
        experiment_ids=[tracking.experiments["pretrain"]],
        order_by=["attributes.start_time ASC"],
    )
    return [str(run["info"]["run_id"]) for run in found["runs"]]


def fields(answer: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in answer.items()}


def by_key(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in rows}


def test_what_the_user_may_not_read_is_a_gap(tracking: MlflowTracking, tmp_path: Path) -> None:
    check = asyncio.run(connector(tracking.url).check())
    assert check.ok
    assert "pretrain can be read" in check.line
    for own in ({"experiment": "private"}, {"experiment": "gone"}, {"token": "wrong"}):
        assert not asyncio.run(connector(tracking.url, **own).check()).ok
        found = collect(tracking.url, tmp_path, **own)
        assert found.missing
        assert not found.tables
