"""How often Python looks for garbage in the bot's processes, and when memory goes back.

Its own 700 new objects suit programs of few modules. Here it would look through whatever was loaded
again and again, which takes a fifth of a start.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

AFTER_NEW_OBJECTS = 50_000
M_ARENA_MAX = -8
"""mallopt(3): without it each thread may get a heap that keeps what its busiest moment needed."""
ARENAS = 2
POLARS_MEMORY = "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0"
"""For the allocator in Polars (jemalloc, opt.narenas and opt.dirty_decay_ms): the same, and what is
freed goes back at once."""


def look_rarely() -> None:
    """For the rest of this process."""
    gc.set_threshold(AFTER_NEW_OBJECTS)


def keep_little() -> None:
    """Let C libraries of this process and of its children keep little memory that they do not use.
    For a process that waits most of the time; call it before Polars is loaded."""
    # What the operator has set is left.
    os.environ.setdefault("_RJEM_MALLOC_CONF", POLARS_MEMORY)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """After work: what C libraries no longer need goes back to the system (malloc_trim(3)).

    Python gives its own memory back by itself, and glibc only from the end of its heap."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def loading() -> Iterator[None]:
    """Look for none while modules are loaded, and never among what they made, because it stays."""
    gc.disable()
    try:
        yield
    finally:
        # `freeze` takes what was loaded out of every later look.
        gc.freeze()
        gc.enable()
