"""A simulated training job with tensor, data and pipeline parallelism that hangs at a random place.

Every rank's host enqueues operations ahead of its device, which runs them in order; a collective
ends when it is at the head of every member's device, a send with its receive. A host that is stuck
enqueues no more; a device that failed runs on for a few operations that its own watchdog no longer
sees end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.analysis.traces.flight_recorder.written_dumps import WrittenRank

MICROBATCHES = 3
STEPS = 4
Operation = tuple[str, str]
"""Group's name and operation; "" and "" at the end of a step, where the host waits for the
device."""


@dataclass
class SimulatedRank:
    """One rank: its program, and how far host and device are in it."""

    program: list[Operation]
    stuck_at: int | None = None
    """The host enqueues nothing from here on."""
    failed_at: int | None = None
    """The watchdog sees nothing end from here on."""
    runs_on: int = 0
    enqueued: int = 0
    done: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Operations that ended, per group."""

    @property
    def head(self) -> Operation | None:
        """What the device is at."""
        if self.done >= self.enqueued or (
            self.failed_at is not None and self.done >= self.failed_at + self.runs_on
        ):
            return None
        return self.program[self.done]


class SimulatedJob:
    """`tensor` x `data` x `pipeline` ranks."""

    def __init__(self, tensor: int, data: int, pipeline: int) -> None:
        self.members: dict[str, tuple[str, list[int]]] = {}
        world = tensor * data * pipeline
        self._group("WORLD", range(world))
        stage = tensor * data
        for first in range(0, world, tensor):
            self._group("TENSOR", range(first, first + tensor))
        for p in range(pipeline):
            for t in range(tensor):
                self._group("DATA", range(p * stage + t, (p + 1) * stage, tensor))
        for place in range(stage):
            self._group("PIPELINE", range(place, world, stage))
        self.ranks = [SimulatedRank(self._program(r, r // stage, pipeline)) for r in range(world)]

    def _group(self, description: str, ranks: Sequence[int]) -> None:
        self.members[str(len(self.members))] = (description, list(ranks))

    def _own(self, rank: int) -> dict[str, str]:
        return {d: name for name, (d, ranks) in self.members.items() if rank in ranks}

    def _program(self, rank: int, stage: int, pipeline: int) -> list[Operation]:
        own = self._own(rank)
        work = [(own["TENSOR"], "_all_gather_base"), (own["TENSOR"], "_reduce_scatter_base")]
        step: list[Operation] = []
        for onward in (True, False):
            source, target = (stage - 1, stage + 1) if onward else (stage + 1, stage - 1)
            for _ in range(MICROBATCHES):
                if 0 <= source < pipeline:
                    step.append((own["PIPELINE"], f"recv {stage}<-{source}"))
                step += work
                if 0 <= target < pipeline:
                    step.append((own["PIPELINE"], f"send {stage}->{target}"))
        step += [(own["DATA"], "all_reduce"), (own["WORLD"], "all_reduce"), ("", "")]
        return step * STEPS

    def run(self, ahead: int) -> None:
        """Until nothing moves."""
        moved = 1
        while moved:
            moved = sum(self._enqueue(rank, ahead) for rank in self.ranks)
            moved += sum(self._end(r) for r in range(len(self.ranks)))

    def _enqueue(self, rank: SimulatedRank, ahead: int) -> bool:
        before = rank.enqueued
        while rank.enqueued < len(rank.program) and rank.enqueued - rank.done < ahead:
            if rank.stuck_at is not None and rank.enqueued >= rank.stuck_at:
                break
            if rank.program[rank.enqueued] == ("", ""):
                if rank.done < rank.enqueued:
                    break
                rank.done += 1
            rank.enqueued += 1
        return rank.enqueued > before

    def _end(self, number: int) -> bool:
        head = self.ranks[number].head
        if head is None or head == ("", ""):
            return False
        members = self._partners(number, head)
        if members is None:
            return False
        for member in members:
            rank = self.ranks[member]
            rank.counts[head[0]] = rank.counts.get(head[0], 0) + 1
            rank.done += 1
        return True

    def _partners(self, number: int, head: Operation) -> list[int] | None:
        """All ranks with which the operation ends, where they are at it too."""
        group = self.members[head[0]][1]
        if " " not in head[1]:
            count = self.ranks[number].counts.get(head[0], 0)
            ready = all(
                self.ranks[m].head == head and self.ranks[m].counts.get(head[0], 0) == count
                for m in group
            )
            return group if ready else None
        own, other = (int(n) for n in head[1].split()[1].replace("->", "<-").split("<-"))
        opposite = f"recv {other}<-{own}" if head[1].startswith("send") else f"send {other}->{own}"
        peer = group[other]
        return [number, peer] if self.ranks[peer].head == (head[0], opposite) else None

    def recorders(self) -> list[WrittenRank]:
        """What the ranks' flight recorders hold."""
        return [self._recorder(r) for r in range(len(self.ranks))]

    def _recorder(self, number: int) -> WrittenRank:
        rank = self.ranks[number]
        groups: Mapping[str, tuple[str, Sequence[int]]] = {
            n: g for n, g in self.members.items() if number in g[1]
        }
        written = WrittenRank(number, groups)
        seen = rank.done if rank.failed_at is None else min(rank.done, rank.failed_at)
        for place, (group, op) in enumerate(rank.program[: rank.enqueued]):
            if group:
                written.call(group, op, pending=place >= seen)
        return written


def hanging_job(seed: int, kind: str, faults: int = 1) -> tuple[SimulatedJob, set[int]]:
    """A job of a random shape that hangs, and the ranks at fault: "host", "device" or "skip"
    (leaves one out)."""
    dice = random.Random(seed)
    job = SimulatedJob(dice.choice((2, 4)), dice.choice((1, 2)), dice.choice((1, 2, 4)))
    culprits = set(dice.sample(range(len(job.ranks)), faults))
    length = len(job.ranks[0].program) // STEPS
    for rank in sorted(culprits):
        place = dice.randrange(length, 2 * length)
        own = job.ranks[rank]
        if kind == "skip":
            del own.program[place]
        elif kind == "host":
            own.stuck_at = place
        else:
            own.failed_at, own.runs_on = place, dice.randrange(1, 6)
    job.run(dice.choice((2, 5, 40)))
    return job, culprits
