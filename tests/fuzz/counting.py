"""Runs a target on many inputs and counts: how many, how they were answered, and what must not be.

A crash is an exception that is none of ours, an answer of 5xx, an input that takes longer than
`HANG_S` of processor time, or one for which the process grows by more than `MEMORY_BYTES`.
"""

from __future__ import annotations

import contextlib
import random
import resource
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from faultline.analysis.errors import FaultlineError

Answer = Literal["accepted", "refused", "wrong accept"]
Try = Callable[[random.Random], Answer]
"""One input, made of the random numbers: how it was answered. Raises what its target raises."""

HANG_S = 10.0
MEMORY_BYTES = 1 << 30
KEPT = 5
"""Failures of one target that are shown in full."""


class ServerFault(Exception):
    """An answer of 5xx."""


@dataclass(frozen=True)
class Target:
    """What is tried. `open` prepares it in a scratch folder; `share` is its weight among the
    inputs."""

    name: str
    share: float
    open: Callable[[Path], AbstractContextManager[Try]]


@dataclass
class Tally:
    """What came of one target."""

    target: str
    inputs: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    slowest_s: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def wrong_accepts(self) -> int:
        """Inputs that were taken and must not be."""
        return self.answers["wrong accept"]

    def failed(self, seed: str, what: str) -> None:
        """Count a crash, and keep the first ones."""
        self.crashes += 1
        if len(self.failures) < KEPT:
            self.failures.append(f"{self.target} seed {seed}: {what}")


def tried(target: Target, inputs: int, seed: int, scratch: Path) -> Tally:
    """The tally of this many inputs; each has its own seed, so that it can be made again
    alone."""
    tally = Tally(target.name)
    with target.open(scratch) as one:
        for number in range(inputs):
            name = f"{seed}:{target.name}:{number}"
            _try_one(one, name, tally)
    return tally


def _try_one(one: Try, name: str, tally: Tally) -> None:
    grown, began = _peak(), time.process_time()
    tally.inputs += 1
    try:
        answer = one(random.Random(name))
        if answer == "wrong accept" and len(tally.failures) < KEPT:
            tally.failures.append(f"{tally.target} seed {name}: wrong accept")
        tally.answers[answer] += 1
    except FaultlineError:
        tally.answers["refused"] += 1
    # That is what is counted.
    except (Exception, RecursionError, MemoryError) as error:  # noqa: BLE001
        places = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{p.filename.rsplit('/', 1)[-1]}:{p.lineno}" for p in reversed(places))
        tally.failed(name, f"{type(error).__name__}: {str(error)[:160]} at {where}")
    took = time.process_time() - began
    tally.slowest_s = max(tally.slowest_s, took)
    if took > HANG_S:
        tally.failed(name, f"took {took:.1f} s")
    if _peak() - grown > MEMORY_BYTES:
        tally.failed(name, f"grew by {(_peak() - grown) >> 20} MiB")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def plain(one: Try) -> Iterator[Try]:
    """A target that needs no preparation."""
    yield one
