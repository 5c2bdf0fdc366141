"""How often Python looks for garbage in the bot's processes, and when memory goes back.

Its own 700 new objects suit programs of few modules. Here it would look through whatever was loaded
again and again, which takes a fifth of a start.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

AFTER_NEW_OBJECTS = 50_000


def look_rarely() -> None:
    """For the rest of this process."""
    gc.set_threshold(AFTER_NEW_OBJECTS)


def give_back() -> None:
    """After work: what C libraries no longer need goes back to the system (malloc_trim(3)).

    Python gives its own memory back by itself, and glibc only from the end of its heap."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def loading() -> Iterator[None]:
    """Look for none while modules are loaded, and never among what they made: it stays for good."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
