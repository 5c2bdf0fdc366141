"""How much the workers can take soon: what the engine's queues may hold, beyond which
investigations wait in the store.

In the store they are ordered each time a slot is free. In the engine's queue the order is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

URGENT_PART = 4
"""One place for urgent investigations beside each four usual ones of a worker: with the default of
8 they have 2 extra slots, which no long investigation occupies."""
PREFETCH_PART = 8
"""For each eight places of a worker one investigation more is queued, so that a place that becomes
free is filled at the queue's next look: a look each quarter of a second, and some seconds for an
investigation, need about one for eight. More would wait in the queue's fixed order, behind which
another team's alert waits too."""
MORE_THAN_CORES = 2
"""A worker starts this many more investigations at once than it has cores. Each needs about a
second of one core and waits for vendors about as long. More of them would only share the cores, so
that all are answered late, and another team's alert behind them too. Those that wait for something
outside do not count."""


def urgent_concurrency(concurrency: int) -> int:
    """Urgent investigations at once in one worker, beside `concurrency` others."""
    return max(1, concurrency // URGENT_PART)


@dataclass(frozen=True)
class Capacity:
    """Free places: on the urgent queue, and on the usual one."""

    urgent: int
    usual: int

    @classmethod
    def of(
        cls,
        *,
        concurrency: int,
        workers: int,
        urgent_taken: int,
        usual_taken: int,
        usual_busy: int,
        cores: int,
    ) -> Capacity:
        """Of `workers` living workers, each on `cores`, given those queued or running already.

        `usual_busy` are those of `usual_taken` that do not wait for something outside.
        """
        prefetch = max(1, concurrency // PREFETCH_PART)
        free = workers * (concurrency + prefetch) - usual_taken
        unused = workers * (cores + MORE_THAN_CORES + prefetch) - usual_busy
        urgent = workers * urgent_concurrency(concurrency) - urgent_taken
        return cls(urgent=max(0, urgent), usual=max(0, min(free, unused)))

    @property
    def any(self) -> bool:
        """Whether there is a free place at all."""
        return self.urgent > 0 or self.usual > 0
