"""A rollout that a cluster saw and somebody reported is one change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.tables import CHANGES
from faultline.connectors.shared.changes.same_rollouts import with_joined_rollouts
from tests.connectors.conftest import ONSET

SHA = "1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f7a8b9c0d"


def row(name: str, minutes: float, title: str, **more: Any) -> dict[str, Any]:
    at = ONSET + timedelta(minutes=minutes)
    own = {"time": at, "service": "payments", "kind": "deploy", "id": name, "title": title}
    return dict.fromkeys(CHANGES.columns) | own | more


def table(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=CHANGES.columns)


def rollout(new: str, minutes: float = -2, old: str = "2.3.0") -> dict[str, Any]:
    title = f"Rollout of payments: image payments:{old} -> payments:{new} (deployment shop/x)"
    diff = f"-app image: r.example.com/payments:{old}\n+app image: r.example.com/payments:{new}"
    return row(f"payments-{new}", minutes, title, diff=diff)


CONFIG_ONLY = row("payments-5c9", -2, "Rollout of payments: env TIMEOUT_MS changed")


@pytest.mark.parametrize(
    ("seen", "report", "is_one"),
    [
        (rollout("2.3.1"), row("v2.3.1", -1, "Deploy payments v2.3.1"), True),
        (rollout("2.3.1"), row("v2.3.1", -50, "Deploy payments v2.3.1"), True),
        (rollout("2.3.1"), row("v2.3.1", -500, "Deploy payments v2.3.1"), False),
        (rollout("2.3.1"), row("v2.3.0", -1, "Deploy payments v2.3.0"), False),
        (rollout(f"sha-{SHA[:8]}"), row(SHA, -40, "Deployed main"), True),
        (rollout("2.3.1"), row(SHA, 5, "Deployed main to production"), True),
        (rollout("2.3.1"), row(SHA, 15, "Deployed main to production"), False),
        (rollout("2.3.1"), row("deploy-20260302", 1, "payments"), True),
        (CONFIG_ONLY, row("build 812", 1, "Deploy payments"), True),
        (rollout("2.3.1"), row("v2.3.1", -1, "Deploy", service="cart"), False),
        (rollout("2.3.1"), row("v2.3.1", -1, "Deploy", service=None), False),
        (rollout("2.3.1"), row("v2.3.1", -1, "Merge", kind="merge"), False),
    ],
)
def test_it_is_one_by_its_version_or_else_by_its_time(
    seen: dict[str, Any], report: dict[str, Any], is_one: bool
) -> None:
    found = with_joined_rollouts(table(seen), [table(report)])
    assert found.height == (1 if is_one else 2)


def test_the_report_says_who_and_why_and_the_cluster_when_and_what() -> None:
    report = row("v2.3.1", 3, "Deploy payments v2.3.1", author="ann", diff="+timeout: 1")
    found = with_joined_rollouts(table(rollout("2.3.1")), [table(report)]).row(0, named=True)
    assert (found["id"], found["author"]) == ("v2.3.1", "ann")
    assert found["time"] == ONSET - timedelta(minutes=2)
    assert found["title"].startswith("Deploy payments v2.3.1 (Rollout of payments: image")
    assert "+app image: r.example.com/payments:2.3.1" in found["diff"]
    assert found["diff"].endswith("+timeout: 1")


def test_several_reports_of_one_rollout_are_one_change_and_two_rollouts_stay_two() -> None:
    cluster = table(rollout("2.3.1", -20), rollout("2.3.2", -2, "2.3.1"))
    told = [
        table(row(SHA, -3, "Deployed main"), row("v2.3.1", -18, "Deploy v2.3.1")),
        table(row("v2.3.2", -1, "Deploy v2.3.2"), row("flag", -1, "on", kind="flag")),
    ]
    found = with_joined_rollouts(cluster, told).sort("time")
    assert found["id"].to_list() == ["v2.3.1", SHA, "flag"]


def test_without_reports_the_rollouts_stand() -> None:
    assert with_joined_rollouts(table(rollout("2.3.1")), []).height == 1


def test_a_restart_that_somebody_reports_as_a_deploy_is_that_deploy() -> None:
    restart = row("payments start", -2, "All 3 processes of payments were started again")
    report = row("v2.3.1", -1, "Deploy payments v2.3.1")
    joined = with_joined_rollouts(table(restart | {"kind": "restart"}), [table(report)])
    assert joined.select("id", "kind").rows() == [("v2.3.1", "deploy")]
    alone = with_joined_rollouts(table(restart | {"kind": "restart"}), [table()])
    assert alone["kind"].to_list() == ["restart"]


def test_a_scaling_that_two_rounds_tell_of_is_one_change_with_both_numbers() -> None:
    scaling = {"service": "worker", "kind": "scale"}
    by_hand = row("worker scale 09:14:02", -2, "Replicas set by kubectl-scale", **scaling)
    by_event = by_hand | {"title": "Replicas set from 2 to 8", "before": "2", "after": "8"}
    joined = with_joined_rollouts(table(by_hand, by_event), [])
    assert joined.select("before", "after").rows() == [("2", "8")]
