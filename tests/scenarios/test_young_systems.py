"""`faultline ask` on a lab that was started a quarter of an hour ago: no settings, a real
Prometheus."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.conftest import open_metrics, running_prometheus
from tests.scenarios.test_ask import run


def answer(folder: Path, history: float, sick: float, *more: str) -> dict[str, Any]:
    """The answer of a system `history` minutes old that has been sick for the last `sick`."""
    lab, home = folder / "lab", folder / "home"
    lab.mkdir()
    home.mkdir()
    now = datetime.now(UTC)
    samples = open_metrics(now, history=timedelta(minutes=history), sick=timedelta(minutes=sick))
    with running_prometheus(lab, samples) as server:
        asked = ["checkout is slow", "--no-kubernetes", "--prometheus", server.url, "--json"]
        told = run(home, *asked, *more, "--case", str(folder / "case"))
    assert told.returncode == 0, told.stderr
    answer: dict[str, Any] = json.loads(told.stdout)
    return answer


@pytest.mark.parametrize(("history", "sick"), [(15, 5), (40, 10)])
def test_a_young_system_is_compared_with_what_there_is(
    tmp_path: Path, history: float, sick: float
) -> None:
    told = answer(tmp_path, history, sick)
    assert told["verdict"] == "cause_found"
    assert told["causes"][0]["subject"] == "checkout"
    onset = datetime.fromisoformat(told["causes"][0]["onset"])
    assert abs(datetime.now(UTC) - timedelta(minutes=sick) - onset) < timedelta(minutes=2)
    assert "so what is normal is known from" in told["missing"][0]
    kept = json.loads((tmp_path / "case" / "scope.json").read_text())
    assert kept["baseline"][0][1] == kept["incident"][0]


def test_a_system_that_has_just_been_started_is_told_so(tmp_path: Path) -> None:
    told = answer(tmp_path, 2, 1)
    assert told["verdict"] == "insufficient_evidence"
    assert "too little to know what is normal. Ask again about a later time." in told["missing"][0]


def test_an_incident_from_before_the_first_sample_has_no_normal(tmp_path: Path) -> None:
    told = answer(tmp_path, 15, 5, "--since", "30m")
    assert told["verdict"] == "insufficient_evidence"
    assert "after the incident: nothing shows what was normal" in told["missing"][0]
