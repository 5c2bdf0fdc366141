"""Which counters of errors rise fast or far enough, on both sides of each limit."""

from __future__ import annotations

import numpy as np
import pytest

from faultline.analysis.gpus.health import gpu_health
from faultline.analysis.metrics import series as gs
from tests.analysis.gpu_fleets import SimulatedFleet, calm, case_of

ROW = 5
"""GPU 1 of node-1 in a fleet of 2 x 4."""


def counted(signal: str) -> SimulatedFleet:
    """A calm fleet that counts these errors, so far none."""
    fleet = calm()
    if signal in gs.OF_A_GPU:
        fleet.signals[signal] = np.zeros_like(fleet.signals[gs.XID])
    else:
        fleet.ports[signal] = np.zeros((len(fleet.hosts), len(fleet.minutes)))
    return fleet


def kinds(fleet: SimulatedFleet) -> list[str]:
    """The kinds of what is found."""
    return [finding.kind for finding in gpu_health(case_of(fleet))]


def rising(signal: str, per_minute: float, *, lasting: float = 30, before: float = 0) -> list[str]:
    """What is found of a counter that rises for this many minutes, and at a rate of `before` until
    then."""
    fleet = counted(signal)
    since = np.clip(fleet.minutes, 0, lasting)
    baseline = np.minimum(fleet.minutes, 0) + 60
    fleet.put(signal, ROW, fleet.after(-60), np.floor(baseline * before + since * per_minute))
    return kinds(fleet)


@pytest.mark.parametrize(
    ("signal", "slowly", "fast", "kind"),
    [
        (gs.ECC_SBE, 8, 12, "gpu_single_bit_errors"),
        (gs.PCIE_REPLAYS, 6, 10, "gpu_pcie_replays"),
        (gs.NVLINK_CRC, 4500, 7500, "gpu_nvlink_errors"),
    ],
)
def test_errors_that_a_healthy_link_has_too_are_found_where_they_come_fast(
    signal: str, slowly: float, fast: float, kind: str
) -> None:
    assert rising(signal, slowly) == []
    assert rising(signal, fast) == [kind]


@pytest.mark.parametrize(
    ("signal", "few", "enough", "kind"),
    [
        (gs.NVLINK_ERRORS, 4, 6, "gpu_nvlink_errors"),
        (gs.IB_LINK_DOWNED, 0, 1, "ib_error"),
        (gs.CARRIER_DOWN, 0, 1, "ib_error"),
        (gs.IB_SYMBOL_ERRORS, 8, 12, "ib_error"),
        (gs.IB_LINK_RECOVERIES, 8, 12, "ib_error"),
        (gs.IB_RECEIVE_ERRORS, 80, 120, "ib_error"),
    ],
)
def test_a_link_may_have_a_few_errors_but_loses_no_connection(
    signal: str, few: int, enough: int, kind: str
) -> None:
    for count, found in ((few, []), (enough, [kind])):
        fleet = counted(signal)
        counters = fleet.ports if signal in fleet.ports else fleet.signals
        counters[signal][1, fleet.after(5)] = count
        assert kinds(fleet) == found


def test_a_burst_of_replays_lasts_for_minutes() -> None:
    assert rising(gs.PCIE_REPLAYS, 20, lasting=2) == []
    assert rising(gs.PCIE_REPLAYS, 20, lasting=3) == ["gpu_pcie_replays"]


def test_replays_that_came_before_as_well_must_come_many_times_as_often() -> None:
    assert rising(gs.PCIE_REPLAYS, 16, before=2) == []
    assert rising(gs.PCIE_REPLAYS, 24, before=2) == ["gpu_pcie_replays"]
