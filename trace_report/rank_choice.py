"""Which traces of a job count: one per rank, the newest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.traces.columns.events import RankSource

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Capture:
    """What one trace says of itself."""

    file: str
    rank: int
    source: RankSource
    start_ns: int


def newest_per_rank(captures: Sequence[Capture]) -> tuple[Mapping[int, int], list[str]]:
    """The place of each rank's newest trace among the captures, by rank, and the files of the
    others.

    Traces that do not know their rank get the lowest free ones, in the order of their files.
    """
    ranks = [capture.rank for capture in captures]
    unnamed = [place for place, capture in enumerate(captures) if capture.source == "order"]
    taken = {capture.rank for capture in captures if capture.source != "order"}
    free = (rank for rank in range(len(captures) + len(taken)) if rank not in taken)
    for place in sorted(unnamed, key=lambda p: (by_number(captures[p].file), captures[p].rank)):
        ranks[place] = next(free)
    newest: dict[int, int] = {}
    for place in sorted(range(len(captures)), key=lambda p: _age(captures[p])):
        newest[ranks[place]] = place
    remaining_newest = set(newest.values())
    older = sorted(c.file for place, c in enumerate(captures) if place not in remaining_newest)
    return dict(sorted(newest.items())), older


def _age(capture: Capture) -> tuple[int, str]:
    return capture.start_ns, capture.file


def by_number(name: str) -> tuple[tuple[str, int], ...]:
    """A key that sorts rank2 before rank10."""
    parts = _DIGITS.split(name)
    return tuple(
        (text, int(digits[:18] or 0))
        for text, digits in zip(parts[::2], [*parts[1::2], "0"], strict=True)
    )
