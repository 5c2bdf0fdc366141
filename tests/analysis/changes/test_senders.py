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


def test_a_caller_with_more_instances_took_the_last_connections(tmp_path: Path) -> None:
    def cause(before: str, after: str) -> Cause:
        case = write_case(
            tmp_path / after,
            alert={"service": "orders", "signal": "error_ratio", "title": "orders fails"},
            metrics=series("orders", "error_ratio", 0.001, 0.4, onset=1),
            topology=[{"caller": caller, "callee": "orders-db"} for caller in ("orders", "worker")],
            states=[
                {
                    "kind": "Database",
                    "name": "orders-db",
                    "fact": "pool_exhausted",
                    "service": "orders-db",
                    "value": "99 % of max_connections in use",
                    "since": at(1),
                }
            ],
            changes=[
                {
                    "time": at(0),
                    "service": "worker",
                    "kind": "scale",
                    "id": "worker scale",
                    "title": f"Replicas of deployment shop/worker set from {before} to {after}",
                    "before": before,
                    "after": after,
                }
            ],
        )
        return diagnose(case).causes[0]

    assert cause("2", "8").change == "worker scale"
    assert cause("8", "2").change is None
