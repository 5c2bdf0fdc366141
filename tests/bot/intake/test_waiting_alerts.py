"""Alerts that wait for the store: who goes first, who gives way, and that nobody starves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.spooling import STORE_WITHIN_S
from faultline.bot.intake.waiting_alerts import LEVEL_S, WaitingAlerts
from faultline.bot.policy.values import Arrival


def arrival(name: str, severity: str) -> Arrival:
    at = datetime(2026, 11, 24, tzinfo=UTC)
    return Arrival(Alert(source="test", title=name, started_at=at, severity=severity))


class Queue:
    """One with a clock that the test sets."""

    def __init__(self, most: int = 100) -> None:
        self.now = 0.0
        self.waiting = WaitingAlerts(most, lambda: self.now)
        self._loop = asyncio.new_event_loop()
        self._loop.close()  # its futures are all that is needed

    def put(self, name: str, severity: str) -> str | None:
        dropped = self.waiting.put(arrival(name, severity), self._loop.create_future())
        return dropped[0].alert.title if dropped else None

    def taken(self) -> list[str]:
        return [self.waiting.popleft()[0].alert.title for _ in range(len(self.waiting))]


def test_the_most_urgent_goes_first_and_equals_in_their_order() -> None:
    queue = Queue()
    for name, severity in (("a", "low"), ("b", "critical"), ("c", "warning"), ("d", "critical")):
        queue.put(name, severity)
    assert queue.taken() == ["b", "d", "c", "a"]


def test_a_full_queue_drops_the_least_urgent_that_came_last() -> None:
    queue = Queue(most=2)
    assert [queue.put(name, "low") for name in "ab"] == [None, None]
    assert queue.put("c", "critical") == "b"
    assert queue.put("d", "low") == "d"
    assert queue.taken() == ["c", "a"]


def test_a_constant_stream_of_urgent_alerts_keeps_no_other_waiting_for_a_second() -> None:
    queue = Queue()
    queue.put("low", "info")
    for number in range(1_000):
        queue.put(f"urgent {number}", "critical")
        queue.put(f"urgent too {number}", "critical")
        if queue.waiting.popleft()[0].alert.title == "low":
            break
        queue.now += LEVEL_S / 10
    assert queue.now < 3.5 * LEVEL_S < STORE_WITHIN_S


def test_one_that_waited_goes_before_what_became_as_urgent_later() -> None:
    queue = Queue()
    queue.put("usual", "warning")
    queue.now = 2 * LEVEL_S
    queue.put("urgent", "critical")
    assert queue.taken() == ["usual", "urgent"]
