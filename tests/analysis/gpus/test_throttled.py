"""DCGM's violation counters tell which limit held a GPU back, and for how much of the time."""

from __future__ import annotations

import numpy as np
import pytest

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.gpus.health import gpu_health
from faultline.analysis.metrics import series as gs
from faultline.analysis.vocabulary import Finding, Verdict
from tests.analysis.cases import START
from tests.analysis.gpu_fleets import SimulatedFleet, calm, case_of
from tests.analysis.traces.doctor.written_ranks import quoted_numbers_are_given

ROW = 5
"""GPU 5 of the one host, of eight."""
LONG_AGO = 7e5
"""Seconds that a counter holds from the months before."""
HELD = (
    gs.THROTTLED_BY_HEAT,
    gs.THROTTLED_BY_POWER,
    gs.THROTTLED_BY_BRAKE,
    gs.THROTTLED_BY_BOARD,
    gs.THROTTLED_BY_RELIABILITY,
)


def counted(step_s: float = 60) -> SimulatedFleet:
    """Eight GPUs of one host, at work and held back by nothing."""
    fleet = calm(1, 8, step_s=step_s)
    for signal in HELD:
        fleet.signals[signal] = np.full_like(fleet.signals[gs.XID], LONG_AGO)
    return fleet


def hold_back(
    fleet: SimulatedFleet,
    signal: str,
    row: int,
    share: float,
    *,
    since: float = 0,
    until: float = 30,
) -> None:
    """Raise a counter for this share of the minutes."""
    held = np.clip(fleet.minutes, since, until) - since
    fleet.signals[signal][row] += 60 * share * held


def findings(fleet: SimulatedFleet) -> list[Finding]:
    """What is found."""
    return gpu_health(case_of(fleet))


@pytest.mark.parametrize("step_s", [15, 60, 120])
def test_the_one_gpu_of_eight_that_heat_holds_back_is_the_straggler(step_s: float) -> None:
    fleet = counted(step_s)
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, 0.6, since=4)
    (finding,) = findings(fleet)
    assert (finding.kind, finding.subject) == ("gpu_throttled", "rank 5")
    assert "was held back by heat for" in finding.sentence
    assert finding.sentence.endswith("and for 0 % before.")
    assert quoted_numbers_are_given(finding.sentence.replace("node-0", ""), dict(finding.numbers))
    assert 48 <= finding.numbers["share_percent"] <= 56
    assert finding.onset is not None
    assert finding.details.written()["events"] == ["thermal"]
    assert "cooling of node-0" in str(finding.details.fix)
    assert finding.strength >= 0.6
    diagnosed = diagnose(case_of(fleet))
    assert diagnosed.verdict is Verdict.CAUSE_FOUND
    assert diagnosed.causes[0].subject == "rank 5"


def test_a_counter_that_is_scraped_less_often_than_it_is_asked_for_says_the_same() -> None:
    fleet = counted(step_s=15)
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, 1.0)
    held = fleet.signals[gs.THROTTLED_BY_HEAT]
    held[:] = np.repeat(held[:, ::4], 4, axis=1)
    (finding,) = findings(fleet)
    assert 95 <= finding.numbers["share_percent"] <= 100


@pytest.mark.parametrize(
    "signal", [gs.THROTTLED_BY_POWER, gs.THROTTLED_BY_BOARD, gs.THROTTLED_BY_RELIABILITY]
)
def test_eight_gpus_at_a_limit_of_their_boards_are_no_fault(signal: str) -> None:
    fleet = counted()
    for row in range(8):
        hold_back(fleet, signal, row, 0.9)
    assert findings(fleet) == []


@pytest.mark.parametrize("power", [300.0, 600.0, 700.0])
def test_of_a_capped_fleet_only_a_gpu_that_draws_less_has_a_lower_limit(power: float) -> None:
    fleet = counted()
    for row in range(8):
        hold_back(fleet, gs.THROTTLED_BY_POWER, row, 0.9 if row == ROW else 0.2)
    fleet.put(gs.POWER, ROW, fleet.after(0), power)
    found = findings(fleet)
    assert [finding.details.written()["events"] for finding in found] == (
        [["power cap"]] if power == 300 else []
    )


@pytest.mark.parametrize(
    ("others", "before", "found"),
    [(0.6, 0, True), (0.7, 0, False), (0, 0.6, True), (0, 0.7, False)],
)
def test_the_power_limit_holds_an_odd_gpu_back_more_than_the_others_and_than_before(
    others: float, before: float, *, found: bool
) -> None:
    fleet = counted()
    for row in range(8):
        hold_back(fleet, gs.THROTTLED_BY_POWER, row, 0.9 if row == ROW else others)
    hold_back(fleet, gs.THROTTLED_BY_POWER, ROW, before, since=-60, until=0)
    fleet.put(gs.POWER, ROW, fleet.after(0), 300.0)
    assert bool(findings(fleet)) is found


def test_without_power_readings_nobody_is_blamed_for_a_power_limit() -> None:
    fleet = counted()
    hold_back(fleet, gs.THROTTLED_BY_POWER, ROW, 0.9)
    del fleet.signals[gs.POWER]
    assert findings(fleet) == []


@pytest.mark.parametrize("left", [0.0, 3.0, LONG_AGO / 2])
def test_a_reset_is_no_throttling(left: float) -> None:
    fleet = counted()
    for signal in HELD:
        fleet.signals[signal][:, fleet.after(10)] = left
    assert findings(fleet) == []
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, 0.5)
    (finding,) = findings(fleet)
    assert 45 <= finding.numbers["share_percent"] <= 51


@pytest.mark.parametrize(
    ("signal", "event"),
    [
        (gs.THROTTLED_BY_HEAT, "thermal"),
        (gs.THROTTLED_BY_BRAKE, "power brake"),
        (gs.THROTTLED_BY_BOARD, "board limit"),
        (gs.THROTTLED_BY_RELIABILITY, "reliability limit"),
    ],
)
def test_other_limits_hold_a_healthy_gpu_back_for_a_small_share_only(
    signal: str, event: str
) -> None:
    fleet = counted()
    hold_back(fleet, signal, ROW, 0.08)
    assert findings(fleet) == []
    hold_back(fleet, signal, ROW, 0.04)
    (finding,) = findings(fleet)
    assert finding.details.written()["events"] == [event]


@pytest.mark.parametrize(("minutes", "found"), [(2, False), (4, True)])
def test_a_jump_or_two_are_no_throttling(minutes: int, *, found: bool) -> None:
    fleet = counted()
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, 2.0, until=minutes)
    assert bool(findings(fleet)) is found


@pytest.mark.parametrize(("before", "is_old"), [(0.2, False), (0.3, True)])
def test_what_was_held_back_before_as_well_counts_little(before: float, *, is_old: bool) -> None:
    fleet = counted()
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, before, since=-60, until=0)
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, 0.5)
    (finding,) = findings(fleet)
    assert (finding.onset is None) is is_old
    assert (finding.strength < 0.4) is is_old


def test_a_low_clock_without_a_reason_gets_it_from_the_counter() -> None:
    fleet = counted()
    fleet.put(gs.SM_CLOCK, ROW, fleet.after(0), 900.0)
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, 0.9)
    (finding,) = findings(fleet)
    assert "was held back by heat" in finding.sentence
    fleet.signals[gs.EVENT_REASONS] = 0 * fleet.signals[gs.XID]
    fleet.put(gs.EVENT_REASONS, ROW, fleet.after(0), 0x40)
    (finding,) = findings(fleet)
    assert "runs at 900 MHz (thermal (hardware))" in finding.sentence


def test_it_begins_where_the_counter_rises_in_earnest() -> None:
    fleet = counted()
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, 0.01, since=-60)
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, 0.9, since=10)
    (finding,) = findings(fleet)
    assert finding.onset is not None
    assert 10 <= (finding.onset - START).total_seconds() / 60 <= 12


def test_software_and_hardware_that_slow_a_gpu_at_once_hold_it_back_once() -> None:
    fleet = counted()
    hold_back(fleet, gs.THROTTLED_BY_HEAT, ROW, 2.0)
    (finding,) = findings(fleet)
    assert finding.numbers["share_percent"] == 100
    assert finding.numbers["increase"] <= 1800
