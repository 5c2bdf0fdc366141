"""Trouble after a deploy that is over by the end of the window: someone looks at it, nobody rolls
back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from faultline.analysis.deploys.question import Look
from tests.analysis.deploys.service_rows import (
    DEPLOYED,
    LOOK,
    Service,
    case_of,
    check_of,
    judged,
)

WORSE = Service(failing=(0.004, 0.3), latency_ms=(80.0, 400.0))


def burst(first: int, last: int, usual: Service, worse: Service) -> list[dict[str, Any]]:
    """The rows of `usual`, and in those minutes after the deploy the rows of `worse`."""
    begin, end = (DEPLOYED + timedelta(minutes=n) for n in (first, last))

    def is_inside(row: dict[str, Any]) -> bool:
        return begin.isoformat() <= row["time"] < end.isoformat()

    calm = [row for row in usual.rows() if not is_inside(row)]
    return [*calm, *(row for row in worse.rows() if is_inside(row))]


def test_a_burst_that_is_over_holds_and_says_so(tmp_path: Path) -> None:
    verdict = judged(case_of(tmp_path, [], burst(3, 8, Service(), WORSE)))
    assert verdict.decision == "hold"
    errors = check_of(verdict, "error_ratio")
    assert (errors.worse, errors.over) == (True, True)
    assert any("was over before the end" in one for one in verdict.reasons)


def test_a_burst_that_lasts_to_the_end_is_rolled_back(tmp_path: Path) -> None:
    verdict = judged(case_of(tmp_path, [], burst(9, 15, Service(), WORSE)))
    assert verdict.decision == "roll_back"
    assert not check_of(verdict, "error_ratio").over


def test_what_is_half_over_is_rolled_back(tmp_path: Path) -> None:
    """Fewer errors than in the first minutes, and still five times as many as before."""
    less = Service(failing=(0.004, 0.02))
    verdict = judged(case_of(tmp_path, [], burst(3, 8, less, WORSE)))
    assert verdict.decision == "roll_back"
    assert not check_of(verdict, "error_ratio").over


def test_a_burst_is_worse_as_long_as_nobody_knows_that_it_ends(tmp_path: Path) -> None:
    early = Look(2, 5, LOOK.start, DEPLOYED + timedelta(minutes=7), 0.4)
    verdict = judged(case_of(tmp_path, [], burst(3, 8, Service(), WORSE)), early)
    assert (verdict.decision, verdict.final) == ("roll_back", True)


def test_a_place_whose_trouble_is_over_holds(tmp_path: Path) -> None:
    others = Service(labels={"cluster": "us"}, seed=3)
    usual = Service(labels={"cluster": "eu"}, seed=4, latency_ms=(120.0, 120.0))
    bad = replace(usual, latency_ms=(120.0, 400.0))
    verdict = judged(case_of(tmp_path, [others], burst(2, 8, usual, bad)), cluster="eu")
    beside = check_of(verdict, "latency_p99", "rest")
    assert (beside.worse, beside.over, verdict.decision) == (True, True, "hold")
    lasting = judged(case_of(tmp_path / "lasting", [others, bad]), cluster="eu")
    assert lasting.decision == "roll_back"


def restarts(times: Callable[[int], int]) -> list[dict[str, Any]]:
    rows = []
    for minute in range(-360, 15):
        time = (DEPLOYED + timedelta(minutes=minute)).isoformat()
        signal = "kube_pod_container_status_restarts_total"
        row = {"time": time, "service": "checkout", "signal": signal, "value": times(minute)}
        rows.append(row)
    return rows


def test_restarts_further_and_further_apart_are_not_over(tmp_path: Path) -> None:
    """A crash loop waits up to five minutes between two tries."""
    looping = restarts(lambda minute: sum(minute >= at for at in (3, 4, 6, 9)))
    verdict = judged(case_of(tmp_path, [Service()], looping))
    assert verdict.decision == "roll_back"
    assert "restart" in verdict.headline.casefold()
