from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.requests.topology import topology_of
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.victims import LoadChange, Loads, load_change

HOUR = 60


def requests(values: Sequence[float], searched: int) -> Deviation:
    times = np.arange(len(values), dtype=np.int64) * 60_000_000_000
    level = np.asarray(values, dtype=np.float64)
    return Deviation(
        "web", "requests", SignalClass.TRAFFIC, {}, times, level, level, searched, 1.0, 1.0, 9
    )


def daily(minute: int) -> float:
    """A day that triples between its calmest and its busiest hour."""
    return 100.0 * (2.0 - math.cos(2 * math.pi * minute / (24 * HOUR)))


def change(values: Sequence[float], searched: int = 30) -> float:
    found = load_change(requests(values, searched), float(np.median(values[-searched:])))
    assert found is not None
    return found.log


def test_a_morning_is_no_surge_although_its_median_is_far_from_the_days() -> None:
    assert change([daily(minute) for minute in range(32 * HOUR)]) == 0.0


def test_three_times_the_requests_are_a_surge_even_below_the_busiest_hour() -> None:
    day = [daily(minute) for minute in range(24 * HOUR)]
    assert change([*day, *[2.5 * level for level in day[:30]]]) == pytest.approx(0.9, abs=0.1)


def test_a_surge_that_began_before_the_window_is_still_seen() -> None:
    assert change([100.0] * 300 + [250.0] * 30 + [250.0] * 30) == pytest.approx(math.log(2.5))


def test_requests_that_jump_all_the_time_say_nothing_by_jumping() -> None:
    jumping = [100.0, 300.0] * 6
    assert change([level for level in jumping for _ in range(30)] + [300.0] * 30) == 0.0


def test_without_requests_before_there_is_no_change() -> None:
    assert load_change(requests([0.0] * 60 + [9.0] * 10, 10), 9.0) is None


def changed(times: float) -> LoadChange:
    return LoadChange(100.0, 100.0 * times, 0.1)


GRAPH = topology_of([("web", "cart"), ("web", "search"), ("cart", "db"), ("search", "db")])


def test_who_calls_more_often_than_it_is_asked_for_is_told_from_who_passes_load_on() -> None:
    measured = {name: changed(1) for name in ("web", "search")}
    alone = Loads({**measured, "cart": changed(1), "db": changed(2)}, GRAPH)
    assert alone.asks_more("cart") == pytest.approx(math.log(2))
    passed_on = Loads({**measured, "cart": changed(2), "db": changed(2)}, GRAPH)
    assert passed_on.asks_more("cart") == 0.0
    assert passed_on.asks_more("search") == 0.0


def test_a_callee_that_gets_less_than_its_callers_are_asked_for_is_starved() -> None:
    loads = Loads({"web": changed(1), "cart": changed(0.5), "search": changed(1)}, GRAPH)
    assert loads.starved("cart") == pytest.approx(math.log(2))
    assert loads.starved("search") == 0.0
    assert loads.starved("web") == 0.0


def test_the_load_of_what_counts_no_requests_is_what_its_callees_have_in_common() -> None:
    loads = Loads({"cart": changed(3), "search": changed(3)}, GRAPH)
    assert loads.of("web") == pytest.approx(math.log(3))
    assert Loads({"db": changed(3)}, GRAPH).of("cart") is None


@pytest.mark.parametrize(("times", "counts"), [(1.25, False), (1.4, True)])
def test_after_a_short_past_a_third_more_is_taken_for_usual(times: float, *, counts: bool) -> None:
    assert (change([100.0] * 60 + [100.0 * times] * 30) != 0) is counts


@pytest.mark.parametrize(("times", "counts"), [(1.08, False), (1.13, True)])
def test_however_steady_requests_were_a_tenth_more_is_usual(times: float, *, counts: bool) -> None:
    assert (change([100.0] * 600 + [100.0 * times] * 30) != 0) is counts


@pytest.mark.parametrize(("stretches", "counts"), [(6, True), (7, False)])
def test_three_changes_tell_what_is_usual_and_two_do_not(stretches: int, *, counts: bool) -> None:
    past = [level for n in range(stretches) for level in [(100.0, 300.0)[n % 2]] * 30]
    assert (change([*past, *[300.0] * 30]) != 0) is counts


@pytest.mark.parametrize(("jumps", "counts"), [((12,), True), ((9, 18, 27, 36), False)])
def test_what_one_stretch_in_twenty_did_is_unusual_and_what_one_in_ten_did_is_not(
    jumps: tuple[int, ...], *, counts: bool
) -> None:
    past = [level for n in range(44) for level in [300.0 if n in jumps else 100.0] * 30]
    assert (change([*past, *[200.0] * 30]) != 0) is counts


def test_the_past_of_an_incident_of_one_point_is_read_by_three() -> None:
    assert change([100.0, 100.0, 300.0] * 30 + [200.0], searched=1) == pytest.approx(math.log(2))


def test_requests_that_stop_fell_to_a_hundredth() -> None:
    assert changed(0).log == pytest.approx(changed(0.01).log)
    assert changed(0).log > changed(0.009).log - 1e-9
    assert changed(0.011).log > changed(0).log
