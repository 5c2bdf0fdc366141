"""What somebody asked for lately is counted once for each request, by person, act and window."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.bot.store.quotas import PersonActs
from tests.databases import store_engine

NOW, HOUR = datetime(2026, 11, 21, 3, tzinfo=UTC), timedelta(hours=1)


@pytest.fixture
def acts(tmp_path: Path) -> Iterator[PersonActs]:
    engine = store_engine(f"sqlite:///{tmp_path}/acts.sqlite")
    yield PersonActs(engine)
    engine.dispose()


def test_so_many_within_the_window_and_again_after_it(acts: PersonActs) -> None:
    asked = [acts.count("U1", "mute", f"k{n}", 2, HOUR, NOW) for n in range(3)]
    assert asked == [True, True, False]
    assert acts.count("U1", "mute", "k0", 2, HOUR, NOW), "told twice, counted once"
    assert acts.count("U2", "mute", "k9", 2, HOUR, NOW)
    assert acts.count("U1", "investigate", "k0", 2, HOUR, NOW)
    assert acts.count("U1", "mute", "k3", 2, HOUR, NOW + HOUR)


def test_what_is_asked_for_at_once_is_not_more_than_the_limit(acts: PersonActs) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda n: acts.count("U1", "mute", f"k{n}", 5, HOUR, NOW), range(24)))
    assert sum(taken) == 5


def test_old_counts_are_deleted(acts: PersonActs) -> None:
    acts.count("U1", "mute", "k", 1, HOUR, NOW)
    assert not acts.count("U1", "mute", "j", 1, HOUR, NOW)
    assert acts.count("U1", "mute", "k", 1, HOUR, NOW + timedelta(days=3))


def test_names_are_hostile(acts: PersonActs) -> None:
    assert acts.count("U\x001", "mute", "\ud800" * 9_000, 1, HOUR, NOW)
