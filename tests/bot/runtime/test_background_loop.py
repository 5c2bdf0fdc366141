"""What a worker does every few moments."""

from __future__ import annotations

import threading
import time

import pytest

from faultline.bot.runtime.components import BackgroundLoop


class Counting(BackgroundLoop):
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


class Failing(BackgroundLoop):
    """Fails in the same way again and again, then works."""

    def __init__(self, failures: int) -> None:
        super().__init__("failing", every_s=0.001)
        self.left = failures
        self.works = threading.Event()

    def turn(self) -> bool:
        if self.left > 0:
            self.left -= 1
            raise OSError(28, "No space left on device")
        self.works.set()
        return False


def test_a_failure_that_goes_on_is_logged_once_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = Failing(20)
    loop.start()
    assert loop.works.wait(30)
    loop.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "OSError; tried again in 0.001 s",
        "works again after 20 failures",
    ]


class Once(BackgroundLoop):
    """One turn, and further ones only when woken."""

    def __init__(self) -> None:
        super().__init__("once", every_s=None)
        self.turns: list[int] = []
        self.taken = threading.Semaphore(0)

    def turn(self) -> bool:
        self.turns.append(len(self.turns))
        self.taken.release()
        return False


def test_a_loop_without_a_period_takes_further_turns_when_woken() -> None:
    loop = Once()
    loop.start()
    assert loop.taken.acquire(timeout=30)
    assert not loop.taken.acquire(timeout=0.1)
    loop.wake()
    assert loop.taken.acquire(timeout=30)
    loop.stop()
    assert loop.turns == [0, 1]


class Woken(BackgroundLoop):
    """Rests between its turns, however often it is woken."""

    def __init__(self) -> None:
        super().__init__("woken", every_s=600, rest_s=0.2)
        self.turns = 0

    def turn(self) -> bool:
        self.turns += 1
        return False


def test_one_that_is_woken_all_the_time_rests_between_its_turns() -> None:
    loop = Woken()
    loop.start()
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        loop.wake()
        time.sleep(0.002)
    loop.stop()
    assert 2 <= loop.turns <= 7
