"""How far a long run is: one line on standard error, on a terminal only. Why it is slow: one line
anywhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from faultline.analysis.traces.native.lane import why_slow

AFTER_S = 0.7
"""What is done sooner shows no progress."""

Say = Callable[[str, int, int], None]
"""What is being done, files done, files in all."""


def say_what_is_slow() -> None:
    """Name a missing compiled library; nothing where it is there."""
    if slow := why_slow():
        sys.stderr.write(f"faultline: {slow}\n")


@contextmanager
def progress(enabled: bool) -> Iterator[Say]:
    """A bar for the time of the block, from AFTER_S on."""
    if not enabled:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    task = bar.add_task("", total=None)
    began = time.monotonic()
    shown = False

    def say(doing: str, done: int, total: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - began > AFTER_S:
            bar.start()
            shown = True
        line = escape("".join(c if c.isprintable() else " " for c in doing[:60]))
        bar.update(task, description=line, completed=done, total=max(total, 1), refresh=shown)

    try:
        yield say
    finally:
        if shown:
            bar.stop()
