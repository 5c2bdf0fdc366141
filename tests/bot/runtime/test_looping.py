"""What a worker does every few moments."""

from __future__ import annotations

import threading

import pytest

from bot.runtime.looping import Loop


class Counting(Loop):
    """Raises, has more to do, and then waits."""

    def __init__(self, *, first_after_s: float = 0.0) -> None:
        super().__init__("counting", every_s=0.01, first_after_s=first_after_s)
        self.turns = 0
        self.five = threading.Event()

    def turn(self) -> bool:
        self.turns += 1
        if self.turns == 1:
            raise OSError(28, "No space left on device")
        if self.turns == 2:
            raise KeyError("nobody thought of this")
        if self.turns == 5:
            self.five.set()
        return self.turns == 3


def test_what_a_turn_raises_is_logged_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Counting()
    loop.start()
    assert loop.five.wait(30)
    loop.stop()
    after = loop.turns
    first, second = caplog.records[:2]
    assert (first.name, first.getMessage(), first.exc_info) == (
        "faultline.counting",
        "OSError; tried again in 0.01 s",
        None,
    )
    assert second.exc_info is not None
    assert "nobody thought of this" in str(second.exc_info[1])
    assert loop.turns == after, "none comes after the stop"


def test_one_that_is_stopped_before_its_first_turn_takes_none() -> None:
    loop = Counting(first_after_s=600)
    loop.start()
    loop.stop()
    assert loop.turns == 0
