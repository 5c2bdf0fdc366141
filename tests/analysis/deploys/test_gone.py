"""A service that is not there any more after its deploy."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.deploys.question import Look
from tests.analysis.cases import write_case
from tests.analysis.deploys.service_rows import DEPLOYED, LAST, LOOK, Service, judged

ITEM = {
    "id": "E1",
    "kind": "states",
    "source": "kubernetes",
    "query": "deployments of shop",
    "rows": 1,
}
MESSAGE = "back-off 5m0s restarting failed container"


def fact(name: str, minutes: float, value: str = "", expected: str = "") -> dict[str, Any]:
    return {
        "kind": "Deployment",
        "name": "checkout",
        "namespace": "shop",
        "service": "checkout",
        "fact": name,
        "value": value,
        "expected": expected,
        "since": (DEPLOYED + timedelta(minutes=minutes)).isoformat(),
    }


def case_with(folder: Path, rows: list[dict[str, Any]], *facts: dict[str, Any]) -> Case:
    window = [DEPLOYED.isoformat(), (DEPLOYED + LAST).isoformat()]
    return write_case(
        folder, scope={"incident": window}, evidence=[ITEM], metrics=rows, states=facts
    )


def until_the_deploy() -> list[dict[str, Any]]:
    return Service(until=timedelta(minutes=1)).rows()


def without_traffic() -> list[dict[str, Any]]:
    """Still scraped, and nobody's requests arrive."""
    rows = [*Service(until=timedelta(minutes=1)).rows()]
    for row in Service().rows():
        if row["signal"] == "request_rate" and row["time"] > DEPLOYED.isoformat():
            rows.append({**row, "value": 0.0})
    return rows


def test_no_request_any_more_is_a_roll_back(tmp_path: Path) -> None:
    verdict = judged(case_with(tmp_path, without_traffic()))
    assert verdict.decision == "roll_back"
    assert "takes no requests any more" in verdict.headline
    assert not any("Too little traffic" in one for one in verdict.missing)


def test_pods_may_take_their_time_to_start(tmp_path: Path) -> None:
    early = Look(1, 5, LOOK.start, DEPLOYED + timedelta(seconds=280), 0.2)
    assert judged(case_with(tmp_path, without_traffic()), early).decision == "hold"


def test_traffic_that_comes_and_goes_is_no_proof_when_it_is_away(tmp_path: Path) -> None:
    """A job that is called in the first half of each hour."""
    rows = Service().rows()
    for row in rows:
        if row["signal"] == "request_rate" and int(row["time"][14:16]) < 30:
            row["value"] = 0.0
    assert judged(case_with(tmp_path, rows)).decision != "roll_back"


@pytest.mark.parametrize(
    "named",
    [
        fact("replicas_missing", 1, "0", "3"),
        fact("crash_loop", 4, MESSAGE),
        fact("image_unavailable", 0.5, "ErrImagePull"),
    ],
)
def test_a_service_whose_pods_do_not_come_up_is_rolled_back(
    tmp_path: Path, named: dict[str, Any]
) -> None:
    verdict = judged(case_with(tmp_path, until_the_deploy(), named))
    assert verdict.decision == "roll_back", verdict.headline
    assert "Deployment shop/checkout" in verdict.headline
    assert [one.id for one in verdict.evidence] == ["E1"]
    assert any(one.endswith("[E1]") for one in verdict.reasons)


def test_without_a_word_of_its_pods_it_holds_and_says_what_would_tell(tmp_path: Path) -> None:
    verdict = judged(case_with(tmp_path, until_the_deploy()))
    assert verdict.decision == "hold"
    assert any("nothing was recorded after the deploy" in one for one in verdict.missing)
    assert any("not scraped" in one and "kube-state-metrics" in one for one in verdict.missing)


def test_a_rollout_that_hangs_while_the_old_pods_serve_holds(tmp_path: Path) -> None:
    named = fact("image_unavailable", 0.5, "ErrImagePull")
    verdict = judged(case_with(tmp_path, Service().rows(), named))
    assert verdict.decision == "hold"
    assert "Deployment shop/checkout" in verdict.headline


@pytest.mark.parametrize(
    "named",
    [
        fact("crash_loop", -90, MESSAGE),
        fact("replicas_missing", 13, "2", "3"),
        {**fact("crash_loop", 4, MESSAGE), "service": "cart", "name": "cart"},
    ],
)
def test_what_was_so_before_or_only_just_or_elsewhere_is_not_the_deploys(
    tmp_path: Path, named: dict[str, Any]
) -> None:
    assert judged(case_with(tmp_path, Service().rows(), named)).decision == "go"
