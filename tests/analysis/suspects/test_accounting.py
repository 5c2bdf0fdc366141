"""What a service loses by itself, and what its callees explain."""

from __future__ import annotations

import pytest

from faultline.analysis.requests.topology import topology_of
from faultline.analysis.suspects.accounting import Accounts, Move, Moves
from faultline.analysis.suspects.victims import LoadChange

GRAPH = topology_of([("web", "api")])


def accounts(moves: Moves, alerting: str | None = "web") -> Accounts:
    return Accounts(moves, GRAPH, {}, alerting)


def slower(web: float, api: float, sure: float = 1.0) -> Moves:
    """Both take 100 ms, and so much more in the incident."""
    moves = Moves()
    moves.latency["web"]["latency_ms"] = Move(100.0, 100.0 + web, 1.0)
    moves.latency["api"]["latency_ms"] = Move(100.0, 100.0 + api, sure)
    return moves


def failing(web: float, api_ms: float) -> Moves:
    """The callee takes 100 ms, and so much in the incident."""
    moves = Moves()
    moves.failures["web"]["error_ratio"] = Move(0.0, web, 1.0)
    moves.latency["api"]["latency_ms"] = Move(100.0, api_ms, 1.0)
    return moves


@pytest.mark.parametrize(("sure", "share"), [(0.08, 1.0), (0.12, 0.5)])
def test_a_move_that_hardly_goes_with_the_alert_explains_nothing(sure: float, share: float) -> None:
    assert accounts(slower(100.0, 50.0, sure)).self_latency("web")[0] == pytest.approx(share)


@pytest.mark.parametrize(
    ("asked", "share"),
    [(100.0, 0.9), (200.0, 0.8), (250.0, 0.75), (900.0, 0.7), (60.0, 0.94), (10.0, 0.95)],
)
def test_calls_per_request_are_believed_between_a_half_and_three(
    asked: float, share: float
) -> None:
    moves = slower(100.0, 10.0)
    moves.requests["web"] = LoadChange(100.0, 100.0, 0.1)
    moves.requests["api"] = LoadChange(asked, asked, 0.1)
    assert accounts(moves).self_latency("web")[0] == pytest.approx(share)


@pytest.mark.parametrize(("api_ms", "share"), [(250.0, 0.65), (400.0, 0.3), (900.0, 0.3)])
def test_a_callee_several_times_slower_explains_most_of_its_callers_failures(
    api_ms: float, share: float
) -> None:
    assert accounts(failing(0.2, api_ms)).self_failures("web")[0] == pytest.approx(share)


def test_what_is_lost_in_a_signal_that_the_alert_lacks_counts_half() -> None:
    moves = slower(0.0, 50.0)
    assert accounts(moves).self_latency("api") == pytest.approx((1.0, 0.5))
    same = slower(50.0, 50.0)
    assert accounts(same).self_latency("api") == pytest.approx((1.0, 1.0))
