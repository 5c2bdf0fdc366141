"""When one version, one cluster or a few pods of a service are distinguished from its others."""

from __future__ import annotations

import numpy as np
import pytest

from faultline.analysis.kinds.finding_details import PartDetails
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.part_contrasts import part_contrasts
from faultline.analysis.vocabulary import Finding

Instance = tuple[dict[str, str], float]
"""The labels of a series, and how far it explains the alert."""


def found(*instances: Instance) -> list[Finding]:
    return part_contrasts([(series(labels), weight) for labels, weight in instances], ("E1",))


def series(labels: dict[str, str]) -> Deviation:
    none, times = np.zeros(3), np.arange(3, dtype=np.int64)
    return Deviation(
        "pay", "latency_ms", SignalClass.LATENCY, labels, times, none, none, 1, 0.0, 2.0, 9
    )


def pods(*weights: float) -> list[Instance]:
    return [({"pod": f"pay-{n}"}, weight) for n, weight in enumerate(weights)]


def test_one_of_several_pods_is_named() -> None:
    [finding] = found(*pods(0.0, 0.9, 0.1, 0.0))
    assert finding.sentence == "Of 4 pods of pay only pay-1 is worse than before, by latency_ms."
    details = PartDetails.of(finding)
    assert details is not None
    assert (details.part_kind, details.parts, details.parts_known) == ("pod", ("pay-1",), 4)


def test_so_are_a_few() -> None:
    [finding] = found(*pods(0.8, 0.9, 0.1, 0.0, 0.2))
    said = "Of 5 pods of pay only 2 are worse (pay-1, pay-0) than before, by latency_ms."
    assert finding.sentence == said


@pytest.mark.parametrize(
    "weights", [(0.9,), (0.9, 0.8, 0.9, 0.9), (0.9, 0.9, 0.1), (0.5, 0.3, 0.25, 0.1)]
)
def test_most_of_them_or_none_clearly_is_no_part(weights: tuple[float, ...]) -> None:
    assert found(*pods(*weights)) == []


def test_a_version_tells_more_than_the_pod_that_alone_runs_it() -> None:
    canary, stable = {"version": "2.3.1"}, {"version": "2.3.0"}
    [finding] = found(*pods(0.9, 0.0, 0.0), (canary, 0.9), (stable, 0.0))
    assert finding.sentence.startswith("Of 2 versions of pay only 2.3.1 is worse")


def test_a_node_tells_more_than_the_pods_that_run_on_it() -> None:
    nodes = [({"node": "n1"}, 0.9), ({"node": "n2"}, 0.0)]
    [finding] = found(*pods(0.9, 0.8, 0.0, 0.0, 0.1), *nodes)
    assert finding.sentence.startswith("Of 2 nodes of pay only n1 is worse")
