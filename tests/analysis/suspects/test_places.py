"""When trouble is a place's: how many services, and how much worse than elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.requests.topology import topology_of
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.places import Place, placed_share, places

Instances = dict[str, list[tuple[str, float]]]


def found(
    instances: Instances, kind: str = "node", calls: Sequence[tuple[str, str]] = ()
) -> dict[str, Place]:
    """The places of instances, given as (place, weight) by service."""
    rows = []
    for service, there in instances.items():
        for name, weight in there:
            rows.append((instance(service, {kind: name}), weight))
    return {place.name: place for place in places(rows, topology_of(calls))}


def instance(service: str, labels: dict[str, str]) -> Deviation:
    none = np.zeros(3)
    times = np.arange(3, dtype=np.int64)
    return Deviation(
        service, "latency_ms", SignalClass.LATENCY, labels, times, none, none, 1, 0.0, 2.0, 9
    )


def test_trouble_of_one_service_is_no_places_and_of_two_it_is() -> None:
    instances = {"api": [("a", 0.9), ("b", 0.0)]}
    assert found(instances) == {}
    instances["db"] = [("a", 0.8), ("b", 0.0)]
    assert found(instances)["a"].services == ("api", "db")


@pytest.mark.parametrize(
    ("kind", "calls", "is_suspected"),
    [
        ("cluster", [], True),
        ("cluster", [("api", "db")], False),
        ("region", [("api", "cache"), ("cache", "db")], False),
        ("node", [("api", "db")], True),
    ],
)
def test_calls_that_stay_within_a_cluster_carry_trouble_through_it_alone(
    kind: str, calls: list[tuple[str, str]], *, is_suspected: bool
) -> None:
    there = [("a", 0.9), ("b", 0.0)]
    place = found({"api": there, "db": there}, kind, calls)["a"]
    assert (placed_share("api", [place]) > 0) is is_suspected


@pytest.mark.parametrize(("there", "worse"), [(0.08, ()), (0.13, ("api", "db"))])
def test_a_service_is_worse_there_from_a_clear_difference_on(
    there: float, worse: tuple[str, ...]
) -> None:
    nodes = [("a", there), ("b", 0.0)]
    place = found({"api": nodes, "db": nodes})["a"]
    assert place.services == worse
    assert (placed_share("api", [place]) > 0) is bool(worse)


@pytest.mark.parametrize(("elsewhere", "is_worse"), [(0.9, True), (1.25, False)])
def test_one_instance_elsewhere_that_is_nearly_as_bad_speaks_against_the_place(
    elsewhere: float, *, is_worse: bool
) -> None:
    # The mean elsewhere stays low: it is the single worst instance that decides.
    nodes = [("a", 0.8), ("b", elsewhere), ("c", 0.0), ("d", 0.0), ("e", 0.0)]
    place = found({"api": nodes, "db": nodes})["a"]
    assert (place.services != ()) is is_worse
