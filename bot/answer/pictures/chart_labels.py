"""Where the labels of a chart's events go, so that none of them covers another, a symbol or a line.

Each event has a symbol in a row above the chart, a line that leads down from it, and words to its
left or right. There are few events, so all arrangements are tried and the best is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal

from faultline.bot.answer.pictures.svg import words_width

Side = Literal["left", "right"]

SIZE = 12.0
APART = 16.0
"""Between two symbols: those of events that are closer are pushed apart."""
SYMBOL = 7.0
"""Half a symbol's width."""
GAP = 4.0
"""Between a symbol and its words, and around words."""


@dataclass(frozen=True)
class EventToLabel:
    """An event at `x`. `words` are what may be said of it, the longest first."""

    x: float
    words: tuple[str, ...]
    side: Side = "right"
    """Where its words stand best."""
    row: int = 0
    """And in which row."""


@dataclass(frozen=True)
class PlacedLabel:
    """`symbol` is where its symbol and the upper part of its line stand; the words reach from
    `left` to `right` in the `row`."""

    symbol: float
    row: int
    words: str
    left: float
    right: float


def placed_labels(events: Sequence[EventToLabel], width: float) -> list[PlacedLabel]:
    """A place for each event, in their order; with shorter words where the longer do not fit."""
    # The places of the symbols: as near to their events as they can be without touching.
    xs = [event.x for event in events]
    order = sorted(range(len(xs)), key=lambda n: xs[n])
    symbols = [min(max(x, SYMBOL), width - SYMBOL) for x in xs]
    # Each pair that is too close gives way by half; a few rounds settle three or four symbols.
    for _ in range(50):
        for first, second in pairwise(order):
            lacking = APART - (symbols[second] - symbols[first])
            if lacking > 0:
                symbols[first] = max(SYMBOL, symbols[first] - lacking / 2)
                symbols[second] = min(width - SYMBOL, symbols[second] + lacking / 2)
    most = max((len(event.words) for event in events), default=0)
    for shorter in range(most):
        labels = _cheapest(events, symbols, shorter, width)
        if labels is not None:
            return labels
    # So narrow a picture shows its symbols alone; the text alternative has the words.
    return [PlacedLabel(x, 0, "", x, x) for x in symbols]


def _cheapest(
    events: Sequence[EventToLabel], symbols: Sequence[float], shorter: int, width: float
) -> list[PlacedLabel] | None:
    cheapest: list[PlacedLabel] | None = None
    least = float("inf")
    for labels, cost in _arrangements(events, symbols, shorter):
        if cost < least and _is_free(labels, width):
            cheapest, least = labels, cost
    return cheapest


def _arrangements(
    events: Sequence[EventToLabel], symbols: Sequence[float], shorter: int
) -> Iterator[tuple[list[PlacedLabel], float]]:
    """All of them, with how far each is from what was wished."""
    sides: tuple[Side, ...] = ("left", "right")
    ways = list(product(range(len(events)), sides))
    for chosen in product(ways, repeat=len(events)):
        labels = []
        cost = 0.0
        for event, symbol, (row, side) in zip(events, symbols, chosen, strict=True):
            words = event.words[min(shorter, len(event.words) - 1)]
            labels.append(_label(symbol, row, side, words))
            # A wrong row is worse than a wrong side.
            cost += abs(row - event.row) + (0.6 if side != event.side else 0.0)
        yield labels, cost


def _label(symbol: float, row: int, side: Side, words: str) -> PlacedLabel:
    wide = words_width(words, SIZE)
    off = SYMBOL + GAP
    if side == "left":
        return PlacedLabel(symbol, row, words, symbol - off - wide, symbol - off)
    return PlacedLabel(symbol, row, words, symbol + off, symbol + off + wide)


def _is_free(labels: Sequence[PlacedLabel], width: float) -> bool:
    for label in labels:
        if label.left < 0 or label.right > width:
            return False
        for other in labels:
            if other is not label and _collide(label, other):
                return False
    return True


def _collide(label: PlacedLabel, other: PlacedLabel) -> bool:
    """Whether the words of `label` would be covered by the words, the symbol or the line of the
    other."""
    left, right = label.left - GAP, label.right + GAP
    # Lines lead down, so only what stands above or beside can cross these words.
    if other.row > label.row:
        return False
    if left < other.symbol + SYMBOL and other.symbol - SYMBOL < right:
        return True
    return other.row == label.row and left < other.right and other.left < right
