"""A slice of the security report: bad input of every kind, and nothing crashes or is taken that
must not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import alert_sources, pages, parsers, places
from tests.fuzz.counting import Target, tried

SEED = 1
TARGETS = [*alert_sources.targets(), *parsers.targets(), *places.targets(), *pages.targets()]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name.replace(" ", "-"))
def test_bad_input_is_refused_in_our_own_words(target: Target, tmp_path: Path) -> None:
    tally = tried(target, max(6, round(25 * target.share)), SEED, tmp_path)
    assert (tally.crashes, tally.wrong_accepts) == (0, 0), "\n".join(tally.failures)
