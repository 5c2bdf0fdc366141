"""Calls that CloudTrail records, beside deployments that the services report themselves."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from faultline.connectors.vendors.aws.evidence import AwsEvidence
from faultline.connectors.vendors.aws.trail import SAME_CHANGE, joined
from tests.connectors.conftest import ONSET

Row = tuple[Any, ...]


def row(name: str, at: datetime, *, kind: str = "deploy", author: str | None = None) -> Row:
    return (at, "checkout", kind, name, name, author, "link")


def evidence(*rows: Row) -> AwsEvidence:
    return AwsEvidence(rows={"changes": list(rows)})


def test_the_nearest_deployment_gets_the_author() -> None:
    deployments = evidence(
        row("early", ONSET - timedelta(minutes=2)),
        row("near", ONSET + timedelta(minutes=1)),
        row("late", ONSET + timedelta(minutes=3)),
    )
    trail = evidence(row("call", ONSET, author="dana"))
    joined(deployments, trail)
    changes = deployments.rows["changes"]
    assert [change[5] for change in changes] == [None, "dana", None]
    assert changes[1][6] == "link"
    assert trail.rows["changes"] == []


@pytest.mark.parametrize(
    ("call", "is_the_same"),
    [
        (row("call", ONSET + SAME_CHANGE), True),
        (row("call", ONSET - SAME_CHANGE), True),
        (row("call", ONSET + SAME_CHANGE + timedelta(seconds=1)), False),
        (row("call", ONSET, kind="scale"), False),
        ((ONSET, "cart", *row("call", ONSET)[2:]), False),
    ],
)
def test_a_call_is_the_deployment_of_its_service_at_its_time(
    call: Row, *, is_the_same: bool
) -> None:
    trail = evidence(call)
    joined(evidence(row("v2", ONSET)), trail)
    assert trail.rows["changes"] == ([] if is_the_same else [call])


def test_an_author_that_is_known_stays() -> None:
    deployments = evidence(row("v2", ONSET, author="lee"))
    joined(deployments, evidence(row("call", ONSET, author="dana")))
    assert [change[5] for change in deployments.rows["changes"]] == ["lee"]


def test_without_calls_or_deployments_nothing_is_joined() -> None:
    nothing, call = AwsEvidence(), row("call", ONSET)
    joined(evidence(call), nothing)
    assert nothing.rows == {}
    trail = evidence(call)
    joined(AwsEvidence(), trail)
    assert trail.rows["changes"] == [call]
