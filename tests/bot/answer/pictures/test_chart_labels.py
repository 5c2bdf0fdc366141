"""The labels of a chart's events, wherever the events are."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.bot.answer.pictures.chart_svg import (
    SYMBOL,
    EventToLabel,
    PlacedLabel,
    placed_labels,
)

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=3)


def events(shares: list[float], width: float) -> list[EventToLabel]:
    names = ("v2.3.1 14:19:32", "onset 14:20:13", "alert 14:21:28")
    made = []
    for name, share in zip(names, shares, strict=False):
        made.append(EventToLabel(60 + share * (width - 68), (name, name[:-3], name[:5])))
    return made


def covered(one: PlacedLabel, other: PlacedLabel) -> bool:
    """Whether the words of one are covered by the words, the symbol or the line of the other."""
    if one.row == other.row and one.left < other.right and other.left < one.right:
        return True
    if other.row > one.row:
        return False
    return one.left < other.symbol + SYMBOL and other.symbol - SYMBOL < one.right


@settings(max_examples=80, deadline=None)
@given(SHARES, st.sampled_from([334.0, 366.0, 640.0]))
def test_no_label_is_covered_and_none_leaves_the_picture(shares: list[float], width: float) -> None:
    labels = placed_labels(events(shares, width), width)
    assert all(label.words for label in labels)
    for label in labels:
        assert 0 <= label.left <= label.right <= width
        assert SYMBOL <= label.symbol <= width - SYMBOL
    for one, other in combinations(labels, 2):
        assert abs(one.symbol - other.symbol) >= 2 * SYMBOL
        assert not covered(one, other)
        assert not covered(other, one)


def test_symbols_keep_the_order_of_their_events_and_stay_near() -> None:
    labels = placed_labels(events([0.5, 0.505, 0.51], 640.0), 640.0)
    symbols = [label.symbol for label in labels]
    assert symbols == sorted(symbols)
    assert max(symbols) - min(symbols) < 40


@pytest.mark.parametrize("width", [40.0, 100.0])
def test_a_picture_that_is_too_narrow_for_words_has_the_symbols(width: float) -> None:
    assert len(placed_labels(events([0.1, 0.5, 0.9], width), width)) == 3
