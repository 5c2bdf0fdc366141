"""Answers are graded by what an engineer who acts on them would achieve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proving_ground.plain.generator.kinds import KINDS
from proving_ground.plain.generator.rules import make_incident
from proving_ground.plain.grading import Answer, Truth, grade, is_same, truth_of

DEPLOY = Truth(
    story="incident",
    names=("fare-api",),
    distinctive=(),
    must=r"deploy|releas|1\.4\.0",
    half=("fare-db",),
    halfway="",
    change="Deploy fare-api 1.4.0",
)
NOTHING = Truth("nothing", (), (), "", (), "")


def answer(subject: str, headline: str = "", verdict: str = "cause_found") -> Answer:
    return Answer(verdict, headline, subject, "", 0.8)


@pytest.mark.parametrize(
    ("given", "mark"),
    [
        (answer("fare-api", "fare-api 1.4.0 makes 30 % of requests fail"), "right"),
        (answer("fare-api", "fare-api is slow"), "half"),
        (answer("fare-db", "fare-db is slow"), "half"),
        (answer("gate-api", "gate-api 1.4.0 is slow"), "wrong"),
        (answer("fare-api", "fare-api is slow", "insufficient_evidence"), "half"),
        (answer("fare-api", "I can't tell", "insufficient_evidence"), "wrong"),
        (answer("fare-api", "fare-api 1.4.0", "no_active_incident"), "wrong"),
    ],
)
def test_an_incident(given: Answer, mark: str) -> None:
    assert grade(DEPLOY, given) == mark


def test_taking_back_the_guilty_change_is_right_whatever_it_made_worse() -> None:
    blaming = replace(answer("fare-events", "Deploy of fare-api 1.4.0 slowed it"), change="a1")
    assert grade(DEPLOY, blaming) == "right"
    assert grade(DEPLOY, replace(blaming, change="")) == "wrong"
    beside = replace(blaming, headline="fare-events got more after deploy of fare-api 1.4.0")
    assert grade(DEPLOY, beside) == "wrong"


def test_where_nothing_happened_naming_no_cause_is_right() -> None:
    assert grade(NOTHING, answer("", verdict="no_active_incident")) == "right"
    assert grade(NOTHING, answer("", verdict="insufficient_evidence")) == "right"
    assert grade(NOTHING, answer("fare-api", "fare-api fails")) == "wrong"
    recovered = replace(NOTHING, names=("fare-api",))
    assert grade(recovered, answer("fare-api", "It is over", "recovered")) == "right"
    assert grade(recovered, answer("gate-api", "It is over", "recovered")) == "wrong"
    exporter = replace(NOTHING, names=("fare-db",), must="exporter|scrap")
    assert grade(exporter, answer("fare-db", "The exporter of fare-db is down")) == "right"
    assert grade(exporter, answer("fare-db", "fare-db is down")) == "wrong"


def test_a_place_may_stand_anywhere_in_the_headline() -> None:
    zone = Truth("incident", ("eu-1b",), ("eu-1b",), "", (), "zone")
    assert grade(zone, answer("fare-api", "fare-api fails in eu-1b")) == "right"
    assert grade(zone, answer("fare-api", "fare-api fails in one zone")) == "half"
    assert grade(zone, answer("fare-api", "fare-api fails")) == "wrong"


@pytest.mark.parametrize(
    ("subject", "same"),
    [
        ("fare", True),
        ("fare.transit-prod.svc.cluster.local", True),
        ("https://fare/healthz", True),
        ("transit-prod/fare", True),
        ("fare:5432", True),
        ("fare-6d5f7c9b8-x2x9l", True),
        ("fare-db", False),
        ("warfare", False),
    ],
)
def test_names_of_the_same_thing(subject: str, same: bool) -> None:
    assert is_same(subject, ["fare"]) is same


def test_the_truth_names_who_is_to_blame_and_the_version() -> None:
    incident, _ = make_incident(KINDS["own deploy breaks it"], 1)
    truth = truth_of(incident)
    guilty = incident.guilty
    assert guilty is not None
    assert truth.names == (guilty.service,)
    version = incident.system.services[guilty.service].next_version
    headline = f"{guilty.service} {version} fails"
    assert grade(truth, answer(guilty.service, headline)) == "right"
    assert grade(truth, answer(guilty.service, f"{guilty.service} fails")) == "half"
