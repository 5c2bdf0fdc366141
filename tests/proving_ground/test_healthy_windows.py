"""Healthy windows lie in a baseline, do not overlap, and carry an alert that should not have
fired."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.vocabulary import Verdict
from faultline.evaluation.labels import read_label
from faultline.evaluation.running import case_folders, evaluate
from proving_ground.healthy_windows import main, quiet_stretches, write_healthy_windows
from tests.evaluation.test_running import labelled_case
from tests.scenarios.small_case import STARTED

LENGTH = timedelta(minutes=11)


def metrics(case: Path) -> pl.DataFrame:
    return pl.read_csv(case / "metrics.csv", try_parse_dates=True)


def noisy_case(folder: Path, **label: object) -> Path:
    """The small case, whose series would otherwise repeat every five minutes."""
    labelled_case(folder, subject="checkout", **label)
    rows = metrics(folder)
    noise = np.random.default_rng(1).normal(0, 5, rows.height)
    rows.with_columns(pl.col("value") + noise).write_csv(folder / "metrics.csv")
    return folder


def moved(case: Path, minutes: int) -> None:
    """The same recording, stamped later."""
    for name in ("alert.json", "scope.json", "metrics.csv", "changes.csv"):
        file = case / name
        text = file.read_text()
        for minute in range(70, -70, -1):
            before = STARTED + timedelta(minutes=minute)
            after = before + timedelta(minutes=minutes)
            for old in (before.isoformat(), before.isoformat().replace("+00:00", "Z")):
                text = text.replace(old, f"@{after.isoformat()}")
        file.write_text(text.replace("@", ""))


def test_windows_lie_in_the_baseline_and_have_enough_before_them(tmp_path: Path) -> None:
    case = read_case(labelled_case(tmp_path / "shop-1"))
    (baseline,) = metric_windows(case).baseline
    found = list(quiet_stretches(case))
    assert len(found) == 3
    ends = [window.end for window in found]
    assert ends == [baseline.end - n * LENGTH for n in range(3)]
    assert all(window.start - baseline.start >= 2 * LENGTH for window in found)


def test_nothing_of_the_window_follows_the_guilty_change(tmp_path: Path) -> None:
    folder = labelled_case(tmp_path / "shop-1", subject="checkout", change="4f2a9c1")
    early = (STARTED - timedelta(minutes=20)).isoformat()
    (folder / "changes.csv").write_text(
        f"time,service,kind,id,title\n{early},checkout,deploy,4f2a9c1,checkout v2\n"
    )
    ends = [window.end for window in quiet_stretches(read_case(folder))]
    assert ends == [STARTED - timedelta(minutes=20)]


def test_a_window_is_a_case_in_which_nothing_is_wrong(tmp_path: Path) -> None:
    noisy_case(tmp_path / "cases" / "shop-1")
    out = tmp_path / "out"
    written = write_healthy_windows(case_folders(tmp_path / "cases"), out, most=2)
    assert written == {"shop": 2}
    first = out / "shop-healthy-001"
    case, label = read_case(first), read_label(first)
    assert label is not None
    assert (label.verdict, label.change, label.subject) == (
        Verdict.NO_ACTIVE_INCIDENT,
        "none",
        None,
    )
    last = case.metrics["time"].max()
    assert isinstance(last, datetime)
    assert last < case.scope.incident.end
    assert label.decoys == ("4f2a9c1",)
    assert (case.alert.service, case.alert.signal) == ("checkout", "p99_latency_ms")
    inside = case.metrics.filter(
        pl.col("service") == "checkout", pl.col("time") >= case.scope.incident.start
    )
    worst = inside.filter(pl.col("value") == pl.col("value").max())["time"]
    assert case.alert.started_at == worst.min()
    graded = evaluate(out, workers=1)
    assert [one.system for one in graded] == ["shop-healthy"] * 2
    assert all(one.verdict is Verdict.NO_ACTIVE_INCIDENT for one in graded)


def test_a_window_that_is_not_healthy_is_left_out(tmp_path: Path) -> None:
    folder = noisy_case(tmp_path / "cases" / "shop-1")
    since = STARTED - timedelta(minutes=16)
    rows = metrics(folder).with_columns(
        pl.when(pl.col("time") >= since).then(900.0).otherwise(pl.col("value")).alias("value")
    )
    rows.write_csv(folder / "metrics.csv")
    out = tmp_path / "out"
    assert write_healthy_windows([folder], out, most=9) == {"shop": 2}
    ends = [read_case(one).scope.incident.end for one in case_folders(out)]
    assert max(ends) <= since


def test_one_recording_under_two_times_counts_once(tmp_path: Path) -> None:
    cases = tmp_path / "cases"
    noisy_case(cases / "shop-1")
    moved(noisy_case(cases / "shop-2"), 600)
    alerts = [read_case(one).alert.started_at for one in case_folders(cases)]
    assert alerts[1] - alerts[0] == timedelta(minutes=600)
    out = tmp_path / "out"
    assert write_healthy_windows(case_folders(cases), out, most=9) == {"shop": 3}


def test_systems_and_their_counts_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy_case(tmp_path / "cases" / "shop-1")
    assert main([str(tmp_path / "cases"), "--out", str(tmp_path / "out"), "--most", "1"]) == 0
    assert capsys.readouterr().out.split() == ["1", "shop"]
    assert main([str(tmp_path / "cases"), "--out", str(tmp_path / "out")]) == 2


def test_petshops_baseline_has_windows_for_several_alerts(shared: Path, tmp_path: Path) -> None:
    folders = sorted((shared / "cases").glob("petshop-0[1-4]"))
    write_healthy_windows(folders, tmp_path / "out", most=6)
    signals = set()
    for one in case_folders(tmp_path / "out"):
        alert = json.loads((one / "alert.json").read_text())
        started = datetime.fromisoformat(alert["started_at"])
        incident = read_case(one).scope.incident
        assert incident.start <= started < incident.end
        signals.add(alert["signal"])
    assert len(signals) >= 1
