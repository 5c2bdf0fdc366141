"""Where the boxes of a map stand along their ranks: in their order, without touching, and near to
those that they call or that call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from faultline.bot.answer.pictures.map_order import Place

BESIDE = 12.0
"""Between two places of one rank."""
SWEEPS = 6
"""Passes over all ranks, forth and back: after these hardly anything moves any more."""


@dataclass(frozen=True)
class Span:
    """Where a place stands along its rank, and how much room it takes there."""

    centre: float
    size: float


def aligned(
    ranks: Sequence[Sequence[Place]],
    size: Callable[[Place], float],
    weights: Mapping[tuple[Place, Place], float],
) -> dict[Place, Span]:
    """Places along each rank, in its order and without overlaps, near to their neighbours."""
    spans: dict[Place, Span] = {}
    for rank in ranks:
        whole = sum(size(place) + BESIDE for place in rank) - BESIDE
        at = -whole / 2
        for place in rank:
            spans[place] = Span(at + size(place) / 2, size(place))
            at += size(place) + BESIDE
    for sweep in range(SWEEPS):
        numbers = range(1, len(ranks)) if sweep % 2 == 0 else range(len(ranks) - 2, -1, -1)
        for number in numbers:
            beside = ranks[number - 1] if sweep % 2 == 0 else ranks[number + 1]
            _pulled(ranks[number], beside, spans, weights)
    return spans


def _pulled(
    rank: Sequence[Place],
    beside: Sequence[Place],
    spans: dict[Place, Span],
    weights: Mapping[tuple[Place, Place], float],
) -> None:
    """Move the places of one rank towards their neighbours in the rank beside."""
    means: list[float] = []
    pull: list[float] = []
    for place in rank:
        near = [
            (weights[place, other], spans[other]) for other in beside if (place, other) in weights
        ]
        weight = sum(w for w, _ in near)
        mean = sum(w * span.centre for w, span in near) / weight if near else spans[place].centre
        means.append(mean)
        pull.append(weight or 0.1)
    for place, centre in zip(rank, _in_order(rank, means, pull, spans), strict=True):
        spans[place] = replace(spans[place], centre=centre)


def _in_order(
    rank: Sequence[Place],
    targets: Sequence[float],
    pull: Sequence[float],
    spans: Mapping[Place, Span],
) -> list[float]:
    """The centres nearest to those wanted (least squares) that keep order and distance: isotonic
    regression by pooling adjacent violators, https://doi.org/10.1080/01621459.1972.10481216."""
    # With the distances subtracted, keeping the order is plain isotonic regression.
    offsets = [0.0]
    for place, other in pairwise(rank):
        offsets.append(offsets[-1] + (spans[place].size + spans[other].size) / 2 + BESIDE)
    pools: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(targets, pull, offsets, strict=True):
        mean, total, count = want - offset, weight, 1
        while pools and pools[-1][0] > mean:
            before, before_total, before_count = pools.pop()
            mean = (mean * total + before * before_total) / (total + before_total)
            total, count = total + before_total, count + before_count
        pools.append((mean, total, count))
    levels = [mean for mean, _, count in pools for _ in range(count)]
    return [level + offset for level, offset in zip(levels, offsets, strict=True)]


def moved_within(
    ranks: Sequence[Sequence[Place]], spans: Mapping[Place, Span], low: float, high: float
) -> dict[Place, Span]:
    """The places, moved in so that none leaves the picture."""
    left = min(span.centre - span.size / 2 for span in spans.values())
    right = max(span.centre + span.size / 2 for span in spans.values())
    shift = (low + high - left - right) / 2
    remaining_spans: dict[Place, Span] = {}
    # From the left edge, then back from the right one, which the first pass may have crossed.
    for rank in ranks:
        at = low
        for place in rank:
            span = spans[place]
            centre = max(span.centre + shift, at + span.size / 2)
            remaining_spans[place] = replace(span, centre=centre)
            at = centre + span.size / 2 + BESIDE
        at = high
        for place in reversed(rank):
            span = remaining_spans[place]
            centre = min(span.centre, at - span.size / 2)
            remaining_spans[place] = replace(span, centre=centre)
            at = centre - span.size / 2 - BESIDE
    return remaining_spans
