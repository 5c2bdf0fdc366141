from __future__ import annotations

import pytest

from faultline.analysis.kinds.finding_details import MetricShiftDetails
from faultline.analysis.kinds.signals import classify
from faultline.analysis.requests.topology import Topology, topology_of
from faultline.analysis.suspects.accounting import Move, Moves
from faultline.analysis.suspects.presumed_calls import presumed_calls
from faultline.analysis.suspects.victims import LoadChange
from faultline.analysis.vocabulary import Finding

USUAL_MS = {"gateway": 150.0, "orders": 60.0, "stock": 20.0}


def moves() -> Moves:
    """Three services that count requests; the cache and the provider count none."""
    served = Moves()
    for service, usual_ms in USUAL_MS.items():
        served.requests[service] = LoadChange(10.0, 10.0, 0.1)
        served.latency[service]["latency_p50"] = Move(usual_ms, 4 * usual_ms, 1.0)
    return served


def moved(subject: str, signal: str, strength: float = 0.8) -> Finding:
    return Finding(
        id="",
        kind="metric_shift",
        subject=subject,
        signal=signal,
        strength=strength,
        sentence="",
        details=MetricShiftDetails(bad=True, signal_class=classify(signal).value),
    )


def presumed(graph: Topology, *findings: Finding, alerting: str | None = None) -> set[str]:
    calls = presumed_calls(graph, moves(), findings, alerting)
    return {f"{caller} > {callee}" for caller, callee in calls}


SLOW = tuple(moved(service, "latency_p50") for service in USUAL_MS)
FROM_INGRESS = topology_of([("ingress", "gateway")])


def test_a_front_door_may_call_what_nobody_is_known_to_call() -> None:
    assert presumed(FROM_INGRESS, *SLOW) == {"gateway > orders", "gateway > stock"}
    # What is not in trouble explains nothing.
    assert presumed(FROM_INGRESS, SLOW[0], SLOW[1]) == {"gateway > orders"}


def test_a_caller_waits_for_what_it_calls() -> None:
    assert presumed(topology_of([]), *SLOW, alerting="orders") == {"orders > stock"}
    assert presumed(topology_of([]), *SLOW, alerting="stock") == set()


def test_known_calls_leave_nothing_to_presume() -> None:
    known = topology_of([("gateway", "orders"), ("orders", "stock")])
    assert presumed(known, *SLOW, alerting="gateway") == set()


@pytest.mark.parametrize(
    ("subject", "signal"), [("cache", "cache_hit_ratio"), ("api.rates.example", "availability")]
)
def test_what_counts_no_requests_is_called_by_the_lowest_services_in_trouble(
    subject: str, signal: str
) -> None:
    known = topology_of([("gateway", "orders"), ("orders", "stock")])
    trouble = moved(subject, signal)
    assert presumed(known, *SLOW, trouble) == {f"stock > {subject}"}
    # With a faint move it is in no trouble, and with a known caller it is not anybody's.
    assert presumed(known, *SLOW, moved(subject, signal, 0.2)) == set()
    called = topology_of([*known.edges, ("gateway", subject)])
    assert presumed(called, *SLOW, trouble) == set()


def test_a_training_job_that_slows_down_is_nobodys_callee() -> None:
    served = moves()
    served.latency["pretrain"]["step_time_ms"] = Move(900.0, 2500.0, 1.0)
    slow = moved("pretrain", "step_time_ms")
    assert presumed_calls(topology_of([]), served, [*SLOW, slow], None) == frozenset()
