"""Components start in order and stop in reverse, whatever one of them does."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from faultline.bot.runtime.components import Components, FunctionComponent

PATIENT_S = 60.0


def part(name: str, seen: list[str]) -> FunctionComponent:
    return FunctionComponent(
        name,
        on_start=partial(seen.append, f"{name} starts"),
        on_stop=partial(seen.append, f"{name} stops"),
    )


def test_they_start_in_order_and_stop_in_reverse_and_only_once() -> None:
    seen: list[str] = []
    components = Components([part("pool", seen), part("engine", seen), part("loop", seen)])
    components.start()
    components.stop()
    components.stop()
    assert seen == [
        "pool starts",
        "engine starts",
        "loop starts",
        "loop stops",
        "engine stops",
        "pool stops",
    ]


def test_one_that_cannot_start_stops_those_before_it_and_says_why() -> None:
    seen: list[str] = []

    def taken() -> None:
        raise OSError("the port is taken")

    broken = FunctionComponent("listener", on_start=taken, on_stop=partial(seen.append, "never"))
    components = Components([part("pool", seen), broken, part("loop", seen)])
    with pytest.raises(OSError, match="the port is taken"):
        components.start()
    assert seen == ["pool starts", "pool stops"]


def test_one_that_fails_to_stop_is_logged_and_the_others_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    def broken() -> None:
        raise KeyError("nobody thought of this")

    components = Components([part("pool", seen), FunctionComponent("engine", on_stop=broken)])
    components.start()
    components.stop()
    assert seen[-1] == "pool stops"
    assert [record.getMessage() for record in caplog.records] == ["engine failed to stop"]


def test_one_that_never_ends_is_left_at_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    release = threading.Event()

    def hang() -> None:
        release.wait(PATIENT_S)

    hangs = FunctionComponent("engine", on_stop=hang, stop_deadline_s=0.1)
    components = Components([part("pool", seen), hangs])
    components.start()
    began = time.monotonic()
    components.stop()
    release.set()
    assert time.monotonic() - began < PATIENT_S / 2
    assert seen[-1] == "pool stops"
    assert "engine did not stop within 0.1 s" in caplog.text
