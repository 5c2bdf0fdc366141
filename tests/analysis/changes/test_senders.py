"""Who may have sent more to a queue that nobody is known to write to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Cause
from tests.analysis.cases import at, series, write_case

FLOODED = (("orders-topic", "message_throughput", 30.0, 270.0),)
BUSY = (("mailer", "request_rate", 30.0, 270.0),)


def first_cause(
    folder: Path,
    changed: Sequence[tuple[str, float]],
    *,
    loads: Sequence[tuple[str, str, float, float]] = FLOODED,
    calls: Sequence[tuple[str, str]] = (),
) -> Cause:
    """The cause, where mailer's lag rises and these services were deployed N minutes
    before."""
    metrics = series("mailer", "consumer_lag", 20, 60_000, onset=1)
    for service, signal, low, high in (*loads, ("audit", "request_rate", 30.0, 30.0)):
        metrics += series(service, signal, low, high, onset=0)
    case = write_case(
        folder,
        alert={"service": "mailer", "signal": "consumer_lag", "title": "mailer is behind"},
        metrics=metrics,
        topology=[
            {"caller": caller, "callee": callee}
            for caller, callee in (("orders-topic", "mailer"), ("audit", "audit-db"), *calls)
        ],
        changes=[
            {
                "time": at(-minutes),
                "service": service,
                "kind": "deploy",
                "id": f"{service}-2",
                "title": f"release of {service}",
            }
            for service, minutes in changed
        ],
    )
    return diagnose(case).causes[0]


def test_the_only_deploy_before_a_flood_is_probably_its_reason(tmp_path: Path) -> None:
    cause = first_cause(tmp_path, [("audit", 2)])
    assert (cause.subject, cause.change) == ("orders-topic", "audit-2")
    assert cause.confidence <= 0.85


@pytest.mark.parametrize("minutes", [30.0, -10.0])
def test_a_deploy_long_before_a_flood_or_after_it_is_not(tmp_path: Path, minutes: float) -> None:
    assert first_cause(tmp_path, [("audit", minutes)]).change is None


def test_of_two_deploys_neither_is_blamed(tmp_path: Path) -> None:
    assert first_cause(tmp_path, [("audit", 2), ("billing", 3)]).change is None


def test_where_the_producer_is_known_nobody_else_is_blamed(tmp_path: Path) -> None:
    cause = first_cause(tmp_path, [("audit", 2)], calls=[("orders", "orders-topic")])
    assert cause.change is None


def test_more_requests_at_a_front_door_come_from_outside(tmp_path: Path) -> None:
    assert first_cause(tmp_path, [("audit", 2)], loads=BUSY).change is None


def test_the_only_producer_of_a_queue_is_said_to_send_more(tmp_path: Path) -> None:
    metrics = series("mailer", "consumer_lag", 20, 60_000, onset=1)
    for service, signal, low, high in (*FLOODED, ("orders", "request_rate", 60.0, 60.0)):
        metrics += series(service, signal, low, high, onset=0)
    calls = (("orders", "orders-topic"), ("orders-topic", "mailer"))
    case = write_case(
        tmp_path,
        alert={"service": "mailer", "signal": "consumer_lag", "title": "mailer is behind"},
        metrics=metrics,
        topology=[{"caller": caller, "callee": callee} for caller, callee in calls],
    )
    [more] = [finding for finding in diagnose(case).findings if finding.kind == "fan_out"]
    assert more.subject == "orders"
    assert more.numbers == {"calls": 4.5, "baseline_calls": 0.5}
    assert "orders makes 4.5 calls to orders-topic" in more.sentence
