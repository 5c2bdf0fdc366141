"""A stored case analysed again with the present code, and how that answer differs from the one that
was given.

The stored answer is never changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from faultline.analysis.case.folder import read_diagnosis
from faultline.analysis.errors import BudgetExceeded
from faultline.analysis.vocabulary import Cause, Diagnosis, Finding
from faultline.bot.runtime.process_pool import ProcessPool

MAX_LISTED = 40
MAX_CAUSES = 5


@dataclass(frozen=True)
class Fresh:
    """The present code's answer."""

    diagnosis: Diagnosis
    headline: str
    seconds: float
    at: datetime


@dataclass(frozen=True)
class Difference:
    """One part of the answer, as it was given and as it would be given now."""

    what: str
    then: str
    now: str

    @property
    def same(self) -> bool:
        """Whether nothing changed."""
        return self.then == self.now


@dataclass(frozen=True)
class ReplayComparison:
    """Both answers side by side; `new` and `gone` are findings that only one of them has."""

    parts: tuple[Difference, ...]
    new: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    new_left_out: int
    gone_left_out: int
    fresh: Fresh

    @property
    def same(self) -> bool:
        """Whether the answer is the same, findings aside."""
        return all(part.same for part in self.parts)


def analyse_again(folder: Path) -> Fresh:
    """The answer of the present code. Imports late: it runs in a separate process. Raises
    EvidenceError."""
    from faultline.bot.answer.replay import replay

    began = time.perf_counter()
    outcome = replay(folder)
    took = time.perf_counter() - began
    return Fresh(outcome.diagnosis, outcome.report.headline, round(took, 2), datetime.now(UTC))


def compare(folder: Path, fresh: Fresh) -> ReplayComparison:
    """Hold it against what is stored. Raises EvidenceError."""
    then, now = read_diagnosis(folder), fresh.diagnosis
    parts = [
        Difference(
            "verdict", then.verdict.value.replace("_", " "), now.verdict.value.replace("_", " ")
        ),
        Difference("confidence", _percent(then.confidence), _percent(now.confidence)),
        Difference("impact", then.impact.sentence, now.impact.sentence),
    ]
    # A rank that only one answer has is a difference too.
    for rank in range(min(MAX_CAUSES, max(len(then.causes), len(now.causes)))):
        parts.append(
            Difference(f"cause {rank + 1}", _cause(then.causes, rank), _cause(now.causes, rank))
        )
    new, gone = _only(now.findings, then.findings), _only(then.findings, now.findings)
    return ReplayComparison(
        tuple(parts),
        tuple(new[:MAX_LISTED]),
        tuple(gone[:MAX_LISTED]),
        max(0, len(new) - MAX_LISTED),
        max(0, len(gone) - MAX_LISTED),
        fresh,
    )


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"


def _cause(causes: Sequence[Cause], rank: int) -> str:
    if rank >= len(causes):
        return "none"
    cause = causes[rank]
    return f"{cause.summary} ({_percent(cause.confidence)})"


def _only(some: Sequence[Finding], reference: Sequence[Finding]) -> list[Finding]:
    """Findings without a counterpart: the same kind about the same thing."""
    reference_keys = {(f.kind, f.subject, f.signal) for f in reference}
    return [f for f in some if (f.kind, f.subject, f.signal) not in reference_keys]


# Work that a page asks for and that takes seconds: in one process beside the server, one at a time,
# within bounds.

R = TypeVar("R")

DEADLINE_S = 120.0
MAX_WAITING = 8
"""People who may wait for their page. The next one is asked to come back."""


class HeavyWork:
    """Runs functions of a case folder; the process starts with the first."""

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._pool: ProcessPool | None = None
        self._waiting = 0

    async def run(self, function: Callable[[Path], R], folder: Path) -> R:
        """`function(folder)`. Raises BudgetExceeded when it takes too long, or too many wait
        already."""
        if self._waiting >= MAX_WAITING:
            raise BudgetExceeded("waiting", f"{MAX_WAITING} others; try again in a minute")
        self._pool = self._pool or ProcessPool(deadline_s=self._deadline_s, workers=1)
        self._waiting += 1
        try:
            return await self._pool.run(function, folder)
        except asyncio.CancelledError:  # the server ends: its exit would wait for the process
            if self._waiting == 1:
                self.close()
            raise
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
