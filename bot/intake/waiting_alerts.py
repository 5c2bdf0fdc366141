"""Alerts that wait for the store: a bounded queue, the most urgent first, equals in the order in
which they came."""

from __future__ import annotations

import asyncio
from collections import deque

from bot.policy.priority import PRIORITIES
from bot.policy.values import Accepted, Arrival
from bot.store.admitting import arrival_priority

Waiting = tuple[Arrival, asyncio.Future[Accepted]]


class WaitingAlerts:
    """Holds at most `most`. Where it is full, the least urgent that came last gives way to a more
    urgent one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_priority: dict[int, deque[Waiting]] = {p: deque() for p in PRIORITIES}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._of_priority.values())

    def put(self, arrival: Arrival, settled: asyncio.Future[Accepted]) -> Waiting | None:
        """Add one. Returns the one that finds no place by that: another, or this one."""
        priority = arrival_priority(arrival)
        dropped: Waiting | None = None
        if len(self) >= self._most:
            self._forget_the_answered()
        if len(self) >= self._most:
            least = max(p for p, queue in self._of_priority.items() if queue)
            if least <= priority:
                return arrival, settled
            dropped = self._of_priority[least].pop()
        self._of_priority[priority].append((arrival, settled))
        return dropped

    def _forget_the_answered(self) -> None:
        """Their senders have been asked to send again."""
        for queue in self._of_priority.values():
            unanswered = [one for one in queue if not one[1].done()]
            queue.clear()
            queue.extend(unanswered)

    def popleft(self) -> Waiting:
        """The most urgent that has waited longest. Raises IndexError where none waits."""
        for queue in self._of_priority.values():
            if queue:
                return queue.popleft()
        raise IndexError("no alert waits")
