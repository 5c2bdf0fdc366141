"""That a change came just before proves little where one always did."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.changes.shipping import shipped_changes
from faultline.analysis.changes.weighing import ChangeHistory, change_history
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Diagnosis
from tests.analysis.cases import START, at, series, write_case

ALERT = {"title": "web is slow", "service": "web", "signal": "latency_ms"}


def deploys(minutes: list[float], service: str = "web") -> list[dict[str, Any]]:
    return [
        {"time": at(m), "kind": "deploy", "service": service, "id": f"v{n}", "title": f"v1.{n}"}
        for n, m in enumerate(minutes)
    ]


def diagnosed(folder: Path, minutes: list[float]) -> Diagnosis:
    metrics = series("web", "latency_ms", 90, 400) + series("web", "requests", 50, 50)
    return diagnose(write_case(folder, alert=ALERT, metrics=metrics, changes=deploys(minutes)))


def test_the_only_deploy_in_hours_is_blamed(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, [-600, -7])
    assert found.causes[0].change == "v1"


def test_one_of_many_deploys_is_not_blamed_for_being_near(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, [-600 + 15 * n for n in range(40)] + [-7])
    assert found.causes[0].change is None
    said = [f.sentence for f in found.findings if f.kind == "change_ruled_out"]
    assert any("so often that one this near is no sign" in sentence for sentence in said)


def test_how_likely_a_change_did_it_falls_with_how_often_changes_come(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert=ALERT, changes=deploys([-7]))
    (change,) = shipped_changes(case)

    def guilty(changes_a_day: int, lead_min: float = 7) -> float:
        return ChangeHistory(1440.0, {"web": changes_a_day + 1}).guilty(change, lead_min)

    assert guilty(1) > 0.95
    assert guilty(24) == pytest.approx(0.58, abs=0.05)
    assert guilty(144) < 0.3
    assert guilty(24, lead_min=60) < guilty(24)


def test_a_past_that_is_too_short_says_nothing(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert=ALERT, changes=deploys([-50, -40, -30, -20, -7]))
    near = shipped_changes(case)
    history = change_history(case, near, START)
    assert history.minutes == pytest.approx(50)
    assert history.guilty(near[-1], 7.0) == 1.0


def test_changes_after_the_onset_and_those_of_others_do_not_count(tmp_path: Path) -> None:
    rows = deploys([-300, -7, 5]) + deploys([-200, -100], service="db")
    case = write_case(tmp_path, alert=ALERT, changes=rows)
    near = [change for change in shipped_changes(case) if change.service == "web"]
    history = change_history(case, near, START + timedelta(minutes=1))
    assert history.counts == {"web": 2}


@pytest.mark.parametrize(("first_h", "hours_known"), [(-40, 40.0), (-60, 2.0)])
def test_the_past_that_all_sources_tell_of_is_two_days(
    tmp_path: Path, first_h: float, hours_known: float
) -> None:
    changes = deploys([first_h * 60, -120], "db") + deploys([-7])
    case = write_case(tmp_path, alert=ALERT, changes=changes)
    assert change_history(case, [], START).minutes == pytest.approx(hours_known * 60)


def test_a_long_history_counts_for_its_own_service_alone(tmp_path: Path) -> None:
    day = 1440.0
    weekly = deploys([-day * 7 * n for n in range(1, 9)] + [-7])
    case = write_case(tmp_path, alert=ALERT, changes=weekly + deploys([-600, -30, -6], "db"))
    near = [change for change in shipped_changes(case) if change.time > START - timedelta(hours=1)]
    history = change_history(case, near, START)
    web, db = (next(c for c in near if c.service == name) for name in ("web", "db"))
    # Weeks in which nobody noted the database's changes say nothing about how often they come.
    assert history.minutes == pytest.approx(600)
    assert history.long_rates == {"web": pytest.approx(1 / (7 * day))}
    assert history.guilty(web, 7.0) > 0.99
    assert history.guilty(db, 6.0) < 0.9


def test_daily_deploys_are_known_from_what_kubernetes_keeps(tmp_path: Path) -> None:
    often = deploys([-180.0 * n for n in range(1, 40)] + [-7])
    case = write_case(tmp_path, alert=ALERT, changes=often)
    (web,) = (change for change in shipped_changes(case) if change.id == "v39")
    assert change_history(case, [web], START).guilty(web, 7.0) < 0.8
