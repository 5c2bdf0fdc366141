"""Which clocks are too low and which GPUs too hot, on both sides of each limit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from faultline.analysis.gpus.health import gpu_health
from faultline.analysis.metrics import series as gs
from faultline.analysis.vocabulary import Finding
from tests.analysis.gpu_fleets import SimulatedFleet, calm, case_of

ROW = 5
"""GPU 1 of node-1 in a fleet of 2 x 4."""
NAN = float("nan")
THERMAL, POWER_CAP = 0x40, 0x4


def changed(
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    lasting: float = 30,
    step_s: float = 60,
) -> SimulatedFleet:
    """A calm fleet of which one GPU reports these values; its clock-event reasons are known."""
    fleet = calm(step_s=step_s)
    fleet.signals[gs.EVENT_REASONS] = fleet.signals[gs.XID].copy()
    for signal, value in before.items():
        fleet.put(signal, ROW, ~fleet.after(0), value)
    for signal, value in after.items():
        fleet.put(signal, ROW, fleet.after(0) & ~fleet.after(lasting), value)
    return fleet


def kinds(fleet: SimulatedFleet) -> list[str]:
    """The kinds of what is found."""
    return [finding.kind for finding in gpu_health(case_of(fleet))]


LOW = {gs.SM_CLOCK: 1500.0, gs.EVENT_REASONS: THERMAL}


@pytest.mark.parametrize(
    ("before", "after", "throttled"),
    [
        ({}, {**LOW, gs.UTILIZATION: 40}, False),
        ({}, {**LOW, gs.UTILIZATION: 60}, True),
        ({}, {**LOW, gs.SM_CLOCK: 1900 * 0.92}, False),
        ({}, {**LOW, gs.SM_CLOCK: 1900 * 0.88}, True),
        ({}, {gs.SM_CLOCK: 1900 * 0.75}, False),
        ({}, {gs.SM_CLOCK: 1900 * 0.6}, True),
        ({gs.SM_CLOCK: 1300}, {gs.SM_CLOCK: 1300 * 0.85}, False),
        ({gs.SM_CLOCK: 1300}, {gs.SM_CLOCK: 1300 * 0.75}, True),
    ],
    ids=[
        "hardly at work", "at work",
        "told of and hardly lower", "told of and lower",
        "as GPUs differ", "more than GPUs differ",
        "always low", "low and falling",
    ],
)  # fmt: skip
def test_a_clock_is_too_low_beside_the_others_and_before(
    before: Mapping[str, float], after: Mapping[str, float], *, throttled: bool
) -> None:
    assert kinds(changed(before, after)) == (["gpu_throttled"] if throttled else [])


@pytest.mark.parametrize(
    ("clock", "power", "capped"),
    [(0.88, 0.6, False), (0.82, 0.6, True), (0.82, 0.85, False)],
    ids=["hardly slower", "slower and drawing less", "drawing nearly as much"],
)
def test_a_lower_power_limit_makes_a_gpu_slower_and_draw_less(
    clock: float, power: float, *, capped: bool
) -> None:
    after = {gs.SM_CLOCK: 1900 * clock, gs.POWER: 600 * power, gs.EVENT_REASONS: POWER_CAP}
    assert kinds(changed({}, after)) == (["gpu_throttled"] if capped else [])


@pytest.mark.parametrize(("minutes", "throttled"), [(2, False), (3, True)])
def test_a_clock_is_low_for_minutes(minutes: float, *, throttled: bool) -> None:
    fleet = changed({}, LOW, lasting=minutes, step_s=30)
    assert kinds(fleet) == (["gpu_throttled"] if throttled else [])


@pytest.mark.parametrize(("gpus", "throttled"), [(2, False), (3, True)])
def test_one_other_gpu_does_not_show_which_clock_is_usual(gpus: int, *, throttled: bool) -> None:
    fleet = calm(1, gpus)
    fleet.put(gs.SM_CLOCK, 0, fleet.after(0), 600.0)
    assert kinds(fleet) == (["gpu_throttled"] if throttled else [])


@pytest.mark.parametrize(("slowed", "found"), [(3, ["gpu_throttled"]), (5, [])])
def test_without_clocks_what_most_gpus_report_is_no_throttling(
    slowed: int, found: list[str]
) -> None:
    fleet = changed({}, {})
    del fleet.signals[gs.SM_CLOCK]
    for row in range(4 - slowed // 2, 4 + (slowed + 1) // 2):
        fleet.put(gs.EVENT_REASONS, row, fleet.after(0), THERMAL)
    assert sorted(set(kinds(fleet))) == found


def throttled_before(minutes: float) -> Finding:
    """What is found of a GPU that was throttled for so long in the hour before as well."""
    fleet = changed({}, LOW)
    for signal, value in LOW.items():
        fleet.put(signal, ROW, fleet.after(-60) & ~fleet.after(minutes - 60), value)
    (finding,) = gpu_health(case_of(fleet))
    return finding


def test_a_clock_that_was_low_in_a_quarter_of_the_time_before_is_no_news() -> None:
    new, old = throttled_before(12), throttled_before(18)
    assert "as before the incident" not in new.sentence
    assert "as before the incident" in old.sentence
    assert new.strength / 4 < old.strength < new.strength / 2


@pytest.mark.parametrize(
    ("signal", "before", "after", "hot"),
    [
        (gs.TEMPERATURE, 60, 82, False),
        (gs.TEMPERATURE, 60, 88, True),
        (gs.MEMORY_TEMPERATURE, 60, 92, False),
        (gs.MEMORY_TEMPERATURE, 60, 98, True),
        (gs.TEMPERATURE, 84, 88, False),
        (gs.TEMPERATURE, 84, 90, True),
        (gs.TEMPERATURE, NAN, 88, False),
        (gs.TEMPERATURE, NAN, 92, True),
    ],
)
def test_a_hot_gpu_is_near_its_limit_and_hotter_than_before_or_than_the_others(
    signal: str, before: float, after: float, *, hot: bool
) -> None:
    fleet = calm()
    fleet.signals[signal] = 0 * fleet.signals[gs.XID] + 80.0
    fleet.put(signal, ROW, ~fleet.after(0), before)
    fleet.put(signal, ROW, fleet.after(0), after)
    assert kinds(fleet) == (["gpu_hot"] if hot else [])


@pytest.mark.parametrize(("heat", "hot"), [(87.5, False), (88.5, True)])
def test_a_gpu_is_hot_close_to_where_it_slows_down(heat: float, *, hot: bool) -> None:
    fleet = changed({}, {gs.TEMPERATURE: heat})
    fleet.signals[gs.SLOWDOWN_TEMPERATURE] = 0 * fleet.signals[gs.XID] + 90.0
    assert kinds(fleet) == (["gpu_hot"] if hot else [])
