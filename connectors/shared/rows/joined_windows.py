"""Windows that touch are asked as one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from faultline.analysis.vocabulary import Window


def merged(windows: Iterable[Window]) -> tuple[Window, ...]:
    """The windows in order, those joined into one that touch or overlap (a gap of a second counts
    as touching)."""
    out: list[Window] = []
    for window in sorted(windows, key=lambda w: w.start):
        if out and window.start - out[-1].end <= timedelta(seconds=1):
            out[-1] = Window(start=out[-1].start, end=max(out[-1].end, window.end))
        else:
            out.append(window)
    return tuple(out)
