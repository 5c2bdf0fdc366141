"""Ranks, collectives and numbers as they stand in a sentence; every number said is also kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from faultline.analysis.traces.flight_recorder.collective import Collective, RecordedGroup
from faultline.analysis.traces.flight_recorder.job_state import WaitedOperation
from faultline.analysis.traces.readable import readable
from faultline.analysis.wording.phrases import listed

NAMED_RANKS = 3
MAX_LISTED = 64
"""Ranks listed in details."""


class Numbers(dict[str, float]):
    """Numbers of one sentence."""

    def say(self, name: str, value: float) -> str:
        """Keep a number and give its text."""
        self[name] = float(value)
        return f"{value:g}" if isinstance(value, float) else str(value)

    def ranks(self, ranks: Sequence[int], name: str = "rank") -> str:
        """ "rank 2", "ranks 9 and 14", "ranks 0, 1, 2 and 13 more"."""
        if len(ranks) == 1:
            return f"rank {self.say(name, ranks[0])}"
        named = [self.say(f"{name}_{i}", r) for i, r in enumerate(ranks[:NAMED_RANKS], start=1)]
        if len(ranks) > NAMED_RANKS:
            return (
                f"ranks {', '.join(named)} and "
                f"{self.say(f'more_{name}s', len(ranks) - NAMED_RANKS)} more"
            )
        return f"ranks {listed(named)}"

    def operation(self, entry: Collective) -> str:
        """ "all_reduce 6 of default_pg", "send 0->3 in PIPELINE_MODEL_PARALLEL_GROUP"."""
        # Names of operations are foreign text: clean and shorten them.
        name = readable(entry.op, 60)
        if entry.is_p2p:
            if entry.channel is not None:
                self["sender"], self["receiver"] = float(entry.channel[0]), float(entry.channel[1])
            return f"{name} in {group_label(entry.group)}"
        return f"{name} {self.say('collective', entry.seq)} of {group_label(entry.group)}"

    def count(self, name: str, value: int, unit: str) -> str:
        """ "1 rank", "3 ranks"."""
        return f"{self.say(name, value)} {unit}{'' if value == 1 else 's'}"


def group_label(group: RecordedGroup) -> str:
    """A group's name, clean."""
    return readable(group.label, 60)


def subject_of(ranks: Sequence[int]) -> str:
    """ "rank 2", "ranks 9, 14", "all ranks" where none is to blame."""
    if not ranks:
        return "all ranks"
    listed = ", ".join(str(r) for r in ranks[:8]) + (", …" if len(ranks) > 8 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {listed}"


def operation_row(operation: WaitedOperation) -> dict[str, Any]:
    """A hanging operation for tables."""
    entry = operation.entry
    return {
        "operation": readable(entry.op),
        "collective": entry.seq if operation.seq >= 0 else None,
        "group": group_label(entry.group),
        "sizes": [list(s) for s in entry.input_sizes[:4]],
        "dtypes": [readable(t, 30) for t in entry.input_dtypes[:4]],
        "created_ns": entry.created_ns,
        "timeout_ms": entry.timeout_ms,
        "waiting": bounded(operation.waiting),
        "missing": bounded(operation.missing),
        "done": bounded(operation.done),
        "no_dump": bounded(operation.absent),
    }


def bounded(ranks: Iterable[int]) -> list[int]:
    """The first ranks of a list."""
    return sorted(ranks)[:MAX_LISTED]
