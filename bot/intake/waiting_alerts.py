"""Alerts that wait for the store: a bounded queue, the most urgent first, equals in the order in
which they came. Who has waited for a while goes beside more urgent ones, so that a constant stream
of those keeps nobody waiting until its sender has to send again."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from faultline.bot.policy.priority import PRIORITIES
from faultline.bot.policy.values import Accepted, Arrival
from faultline.bot.store.admitting import arrival_priority

Waiting = tuple[Arrival, asyncio.Future[Accepted]]

LEVEL_S = 0.25
"""After each of these a waiting alert counts as one level more urgent: the lowest of four levels is
equal to the highest within the second after which an alert is spooled."""


class WaitingAlerts:
    """Holds at most `most`. Where it is full, the least urgent that came last gives way to a more
    urgent one."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._of_priority: dict[int, deque[tuple[float, Waiting]]] = {
            p: deque() for p in PRIORITIES
        }

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._of_priority.values())

    def put(self, arrival: Arrival, settled: asyncio.Future[Accepted]) -> Waiting | None:
        """Add one. Returns the one that finds no place by that: another, or this one."""
        priority = arrival_priority(arrival)
        dropped: Waiting | None = None
        if len(self) >= self._most:
            # Only when it is full, because this looks through everything that waits.
            self._forget_the_answered()
        if len(self) >= self._most:
            least = max(p for p, queue in self._of_priority.items() if queue)
            if least <= priority:
                return arrival, settled
            _, dropped = self._of_priority[least].pop()
        self._of_priority[priority].append((self._clock(), (arrival, settled)))
        return dropped

    def _forget_the_answered(self) -> None:
        """Their senders have been asked to send again."""
        for queue in self._of_priority.values():
            unanswered = [(since, waiter) for since, waiter in queue if not waiter[1].done()]
            queue.clear()
            queue.extend(unanswered)

    def popleft(self) -> Waiting:
        """The most urgent, by now, that has waited longest. Raises IndexError where none waits."""
        now = self._clock()
        firsts: list[tuple[int, float, int]] = []
        for priority, queue in self._of_priority.items():
            if queue:
                since = queue[0][0]
                aged = max(0, priority - int((now - since) / LEVEL_S))
                firsts.append((aged, since, priority))
        if not firsts:
            raise IndexError("no alert waits")
        _, _, next_priority = min(firsts)
        return self._of_priority[next_priority].popleft()[1]
