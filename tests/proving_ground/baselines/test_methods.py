"""Each simple method names whom its formula says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from faultline.analysis.case.folder import read_case
from proving_ground.baselines.inputs import BaselineInputs
from proving_ground.baselines.methods import METHODS, named_by_baselines

ALERT = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
BEFORE, INCIDENT = 60, 10


def shop(
    folder: Path,
    moves: dict[str, float],
    *,
    service: str | None = "web",
    lines: tuple[str, ...] = (),
) -> BaselineInputs:
    """web calls cart, cart calls db; `moves` says by how many sigmas each latency rises, and
    `lines` which services log errors."""
    folder.mkdir(exist_ok=True)
    alert = {"source": "test", "title": "web is slow", "started_at": ALERT.isoformat()}
    (folder / "alert.json").write_text(json.dumps(alert | {"service": service}))
    since, until = ALERT - timedelta(minutes=BEFORE), ALERT + timedelta(minutes=INCIDENT)
    window, before = (ALERT, until), (since, ALERT)
    scope = {
        "incident": [one.isoformat() for one in window],
        "baseline": [[one.isoformat() for one in before]],
    }
    (folder / "scope.json").write_text(json.dumps(scope))
    rows = []
    for number, (name, sigmas) in enumerate(moves.items()):
        noise = np.random.default_rng(number).normal(100, 10, BEFORE + INCIDENT)
        noise[BEFORE:] += 10 * sigmas
        for minute, value in enumerate(noise.tolist()):
            rows.append((since + timedelta(minutes=minute), name, "latency_ms", value))
    metrics = pl.DataFrame(rows, schema=["time", "service", "signal", "value"], orient="row")
    metrics.write_parquet(folder / "metrics.parquet")
    calls = pl.DataFrame({"caller": ["web", "cart"], "callee": ["cart", "db"]})
    calls.write_parquet(folder / "topology.parquet")
    if lines:
        logged = [(ALERT + timedelta(minutes=1), name, "error: no answer") for name in lines * 50]
        table = pl.DataFrame(logged, schema=["time", "service", "message"], orient="row")
        table.write_parquet(folder / "logs.parquet")
    return BaselineInputs(read_case(folder))


@pytest.mark.parametrize("method", ["largest shift", "N-sigma", "BARO", "simple rules"])
def test_by_size_the_loudest_is_first(tmp_path: Path, method: str) -> None:
    inputs = shop(tmp_path, {"web": 4.0, "cart": 30.0, "db": 8.0, "mail": 0.0})
    assert METHODS[method](inputs)[0] == "cart"


def test_a_fall_is_a_shift_and_no_peak(tmp_path: Path) -> None:
    inputs = shop(tmp_path, {"web": 6.0, "cart": 0.0, "db": -40.0})
    assert METHODS["largest shift"](inputs)[0] == "db"
    assert METHODS["BARO"](inputs)[0] == "web"


def test_the_alerting_service_and_what_it_calls(tmp_path: Path) -> None:
    inputs = shop(tmp_path, {"web": 4.0, "cart": 3.0, "db": 9.0})
    assert METHODS["the alerting service"](inputs) == ["web"]
    assert METHODS["its busiest callee"](inputs) == ["cart"]
    unnamed = shop(tmp_path / "unnamed", {"web": 4.0, "cart": 3.0}, service=None)
    assert METHODS["the alerting service"](unnamed) == ["web"]


def test_traversal_ends_at_the_last_unusual_service(tmp_path: Path) -> None:
    inputs = shop(tmp_path, {"web": 20.0, "cart": 10.0, "db": 0.0, "mail": 40.0})
    assert METHODS["smooth traversal"](inputs)[0] == "cart"


def test_traversal_scores_the_class_of_signal_that_alerts(tmp_path: Path) -> None:
    inputs = shop(tmp_path, {"web": 20.0, "cart": 10.0, "db": 0.0})
    memory = pl.read_parquet(tmp_path / "metrics.parquet").filter(pl.col("service") == "web")
    leak = memory.with_columns(pl.lit("db").alias("service"), pl.lit("memory").alias("signal"))
    both = pl.concat([pl.read_parquet(tmp_path / "metrics.parquet"), leak])
    both.write_parquet(tmp_path / "metrics.parquet")
    alert = json.loads((tmp_path / "alert.json").read_text()) | {"signal": "latency_ms"}
    (tmp_path / "alert.json").write_text(json.dumps(alert))
    named = METHODS["smooth traversal"](BaselineInputs(read_case(tmp_path)))
    assert (inputs.alerting, named[0]) == (("web",), "cart")


def test_correlation_goes_with_the_alert_in_time(tmp_path: Path) -> None:
    inputs = shop(tmp_path, {"web": 20.0, "cart": 20.0, "db": 0.0})
    assert METHODS["ranked correlation"](inputs)[0] == "cart"


def test_error_lines_come_before_metrics_in_the_rules(tmp_path: Path) -> None:
    inputs = shop(tmp_path, {"web": 20.0, "cart": 9.0}, lines=("mail",))
    assert METHODS["simple rules"](inputs)[:2] == ["mail", "web"]


def test_a_case_without_tables_names_nobody_but_who_alerts(tmp_path: Path) -> None:
    inputs = shop(tmp_path, {"web": 1.0})
    (tmp_path / "metrics.parquet").unlink()
    (tmp_path / "topology.parquet").unlink()
    named = named_by_baselines(BaselineInputs(read_case(tmp_path)))
    assert inputs.alerting == ("web",)
    assert set(named) == set(METHODS)
    assert named["the alerting service"] == ("web",)
    assert named["BARO"] == ()
