"""The gate: what the alerting signal's own noise decides, at each of its levels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.ranking.alert_gate import GateState, alert_gate
from faultline.analysis.requests.topology import topology_of
from faultline.analysis.suspects.accounting import Moves
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.observed import Observed

CALLS = (("web", "api"), ("web", "db"))


def series(service: str, excess: float, quiet_windows: int = 40) -> Deviation:
    return Deviation(
        service=service,
        signal="latency_ms",
        signal_class=SignalClass.LATENCY,
        labels={},
        times=np.arange(3),
        badness=np.zeros(3),
        values=np.zeros(3),
        searched=1,
        before=0.0,
        excess=excess,
        quiet_windows=quiet_windows,
    )


def seen(
    alert: Deviation | None,
    *others: Deviation,
    agreement: float = 1.0,
    service: str | None = "web",
) -> Observed:
    return Observed(
        alerting=service,
        alert=alert,
        curve=None,
        graph=topology_of(CALLS),
        service_series=[(one, 1.0) for one in others],
        calls=[],
        lines=[],
        places=[],
        moves=Moves(),
        services=frozenset({"web", "api", "db"}),
        agreements={(one.service, one.signal): agreement for one in others},
    )


@pytest.mark.parametrize(
    ("excess", "state"),
    [
        (1.0, GateState.CALM),
        (1.2, GateState.CALM),
        (1.3, GateState.UNCLEAR),
        (1.6, GateState.UNCLEAR),
        (1.8, GateState.OUT),
        (9.0, GateState.OUT),
    ],
)
def test_levels(excess: float, state: GateState) -> None:
    assert alert_gate(seen(series("web", excess))).state is state


@pytest.mark.parametrize(("windows", "is_known"), [(1, False), (2, False), (3, True), (11, True)])
def test_too_short_a_past_decides_nothing(windows: int, is_known: bool) -> None:
    gate = alert_gate(seen(series("web", 0.5, windows)))
    assert (gate.state is not GateState.UNKNOWN) is is_known
    assert gate.is_calm is is_known


def beside(window: list[float]) -> Deviation:
    """A past of 600 calm points with two blips, and this window; its second worst point is less
    than they were."""
    past = np.tile([-1.0, 0.0, 1.0], 200)
    past[300:302] = 40.0
    badness = np.concatenate([past, window])
    deviation = series("web", 0.7)
    return replace(deviation, badness=badness, times=np.arange(len(badness)), searched=len(window))


def test_two_blips_hours_before_hide_no_incident_that_lasts() -> None:
    assert alert_gate(seen(beside([0.0] * 10 + [20.0] * 110))).state is GateState.OUT
    assert alert_gate(seen(beside([0.0] * 110 + [20.0] * 2 + [0.0] * 8))).state is GateState.CALM


def test_what_the_last_scrape_alone_has_seen_is_not_calm() -> None:
    assert alert_gate(seen(beside([0.0] * 119 + [90.0]))).state is GateState.UNKNOWN
    assert alert_gate(seen(beside([0.0] * 118 + [90.0, 0.0]))).state is GateState.CALM


def test_without_the_alerting_signal_it_says_nothing() -> None:
    assert not alert_gate(seen(None)).is_calm


@pytest.mark.parametrize(
    ("service", "excess", "agreement", "is_calm"),
    [
        ("db", 2.1, 0.9, False),
        ("db", 1.9, 0.9, True),
        ("db", 2.1, 0.4, True),
        ("batch", 9.0, 0.9, True),
        ("web", 9.0, 0.9, True),
    ],
)
def test_between_the_levels_a_service_below_has_to_agree(
    service: str, excess: float, agreement: float, is_calm: bool
) -> None:
    gate = alert_gate(seen(series("web", 1.5), series(service, excess), agreement=agreement))
    assert gate.is_calm is is_calm


@pytest.mark.parametrize(
    ("service", "excess", "quiet_windows", "names_nothing"),
    [
        ("web", 1.8, 40, False),
        ("web", 1.6, 40, True),
        ("web", 1.8, 7, True),
        ("api", 9.0, 40, True),
    ],
)
def test_an_alert_that_names_no_service_speaks_of_the_front_doors(
    service: str, excess: float, quiet_windows: int, *, names_nothing: bool
) -> None:
    gate = alert_gate(seen(None, series(service, excess, quiet_windows), service=None))
    assert gate.names_nothing is names_nothing
    assert gate.state is (GateState.UNKNOWN if names_nothing else GateState.OUT)
