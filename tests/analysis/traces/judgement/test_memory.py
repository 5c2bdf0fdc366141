"""Memory that fills up or grows is judged the same whatever measured it."""

from __future__ import annotations

import numpy as np
import pytest

from faultline.analysis.traces.judgement.thresholds import MemoryRise, pressure, rise_of

MB = 10**6


@pytest.mark.parametrize(
    ("share", "severity"),
    [(0.0, None), (0.919, None), (0.92, "warning"), (0.969, "warning"), (0.97, "critical")],
)
def test_a_reserved_share_warns_before_it_is_critical(share: float, severity: str | None) -> None:
    assert pressure(share) == severity


def rise(*lows: int) -> MemoryRise:
    found = rise_of(np.asarray(lows, dtype=np.int64))
    assert found is not None
    return found


def test_memory_that_every_step_leaves_behind_grows() -> None:
    found = rise(*range(0, 12 * MB, MB))
    assert (found.steps, found.rising, found.slope_bytes, found.grown_bytes) == (
        12,
        11,
        MB,
        11 * MB,
    )
    assert found.grows()
    assert found.severity == "warning"
    assert not found.grows(least_steps=13)


def test_a_gigabyte_in_fifty_steps_is_critical() -> None:
    assert rise(*range(0, 7 * 22 * MB, 22 * MB)).severity == "critical"


@pytest.mark.parametrize(
    "lows",
    [
        [0, MB, 2 * MB, 3 * MB],
        [0, 100 * MB, 0, 100 * MB, 0, 100 * MB],
        [0, 1_000, 2_000, 3_000, 4_000, 5_000],
    ],
    ids=["too few steps", "up and down", "too little"],
)
def test_what_goes_up_and_down_does_not_grow(lows: list[int]) -> None:
    assert not rise(*lows).grows()


def test_one_step_says_nothing() -> None:
    assert rise_of(np.asarray([MB], dtype=np.int64)) is None
