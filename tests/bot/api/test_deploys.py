"""Checks of deploys over the API: taken once, kept for the workers, shown to whoever may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from faultline.analysis.deploys.verdict import DeployVerdict
from faultline.bot.policy.values import DeployToCheck
from faultline.bot.store.changes import DeployChecks
from faultline.bot.store.quotas import TokenLimits
from tests.bot.api.conftest import Program
from tests.bot.web.serving import Site

ALL = "/api/deploy-checks"
DEPLOYED = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
ASKED = {"service": "checkout", "since": DEPLOYED.isoformat()}


def verdict() -> dict[str, Any]:
    """A verdict as a worker keeps it."""
    made = DeployVerdict(
        service="checkout",
        deployed_at=DEPLOYED,
        judged_from=DEPLOYED,
        judged_until=DEPLOYED,
        final=True,
        decision="roll_back",
        headline="Roll back checkout: [look](https://evil.example) <b>now</b>",
        reasons=(),
        missing=(),
        checks=(),
        evidence=(),
        gaps=(),
        false_alarm_rate=0.02,
        look=1,
        looks=5,
    )
    return made.model_dump(mode="json")


def test_a_deploy_is_kept_for_a_worker_until_its_first_look(site: Site, program: Program) -> None:
    client = program()
    answer = client.post(ALL, json={**ASKED, "canary": {"cluster": "eu-1"}})
    assert answer.status_code == 202
    taken = answer.json()
    assert (taken["status"], taken["service"], taken["verdict"]) == ("watching", "checkout", None)
    stored = DeployChecks(site.store.engine).get(taken["id"])
    assert stored is not None
    deploy = DeployToCheck.model_validate(stored.request)
    assert (deploy.deployed_at, deploy.parts) == (DEPLOYED, {"cluster": "eu-1"})
    assert client.get(f"{ALL}/{taken['id']}").json()["next_look_at"] == taken["next_look_at"]


def test_the_same_key_is_the_same_check(program: Program) -> None:
    client = program()
    key = {"idempotency-key": "deploy-77"}
    first = client.post(ALL, json=ASKED, headers=key)
    again = client.post(ALL, json=ASKED, headers=key)
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["id"] == again.json()["id"]
    other = client.post(ALL, json={**ASKED, "wait_minutes": 30}, headers=key)
    assert other.status_code == 422
    assert program().post(ALL, json=ASKED, headers=key).json()["id"] != first.json()["id"]


def test_a_verdict_comes_as_values_and_as_a_comment_whose_text_stays_text(
    site: Site, program: Program
) -> None:
    client = program()
    taken = client.post(ALL, json=ASKED).json()
    DeployChecks(site.store.engine).record_look(taken["id"], 1, verdict(), None)
    shown = client.get(f"{ALL}/{taken['id']}").json()
    assert (shown["status"], shown["verdict"]["decision"]) == ("decided", "roll_back")
    assert "[look](" not in shown["markdown"]
    assert "<b>" not in shown["markdown"]


def test_what_cannot_be_asked_is_refused_with_the_field(program: Program) -> None:
    client = program()
    for wrong, named in (
        ({"since": "2099-01-01T00:00Z"}, "since"),
        ({"wait_minutes": 5, "warm_up_minutes": 5}, "wait"),
        ({"baseline_hours": 0.5, "wait_minutes": 60}, "baseline"),
        ({"canary": {"colour": "blue"}}, "canary"),
        ({"service": ""}, "service"),
    ):
        answer = client.post(ALL, json={**ASKED, **wrong})
        assert answer.status_code == 422
        assert named in answer.json()["error"]
    assert client.get(f"{ALL}/none").status_code == 404


def test_roles_and_limits_are_those_of_investigations(program: Program) -> None:
    assert program("viewer").post(ALL, json=ASKED).status_code == 403
    limited = program(limits=TokenLimits(investigations_per_hour=1, calls_per_minute=100))
    assert limited.post(ALL, json=ASKED).status_code == 202
    assert limited.post(ALL, json=ASKED).status_code == 429
