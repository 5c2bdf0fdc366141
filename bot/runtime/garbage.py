"""How often Python looks for garbage in the bot's processes.

Its own 700 new objects suit programs of few modules. Here it would look through whatever was loaded
again and again, which takes a fifth of a start.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

AFTER_NEW_OBJECTS = 50_000


def look_rarely() -> None:
    """For the rest of this process."""
    gc.set_threshold(AFTER_NEW_OBJECTS)


@contextmanager
def loading() -> Iterator[None]:
    """Look for none while modules are loaded, and never among what they made: it stays for good."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
