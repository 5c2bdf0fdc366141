from __future__ import annotations

import pytest

from faultline.analysis.changes.text import value_changes


@pytest.mark.parametrize(
    ("removed", "added", "before", "after"),
    [
        ("timeout: 30s", "timeout: 500ms", 30.0, 0.5),
        (
            "ctx = WithTimeout(ctx, 5*time.Second)",
            "ctx = WithTimeout(ctx, 300*time.Millisecond)",
            5.0,
            0.3,
        ),
        ("  memory: 2Gi", "  memory: 512Mi", 2 * 1024.0**3, 512 * 1024.0**2),
        ("pool_size = 50", "pool_size = 5", 50.0, 5.0),
    ],
)
def test_a_value_is_read_on_both_sides_with_its_unit(
    removed: str, added: str, before: float, after: float
) -> None:
    [found] = value_changes("", [removed], [added])
    assert (found.before, found.after) == (before, after)


@pytest.mark.parametrize(
    ("title", "before", "after"),
    [
        ("replicas 6 -> 2", 6, 2),
        ("scale from 10 to 3", 10, 3),
        ("Scaled down replica set web-5d to 1 from 6", 6, 1),
    ],
)
def test_a_title_tells_a_step(title: str, before: float, after: float) -> None:
    found = value_changes(title, [], [])
    assert (found[0].before, found[0].after) == (before, after)


def test_values_of_different_settings_are_not_compared() -> None:
    assert value_changes("", ["retries: 3"], ["colour: 7"]) == ()


@pytest.mark.parametrize(
    ("added", "is_same"), [("pool idle limit: 7", True), ("queue idle wait: 7", False)]
)
def test_a_setting_that_keeps_most_of_its_words_is_the_same(added: str, *, is_same: bool) -> None:
    assert bool(value_changes("", ["pool idle timeout: 3"], [added])) is is_same


def test_no_more_lines_are_compared_than_a_person_would_read() -> None:
    lines = [f"setting_{'x' * (n % 7)}: {n}" for n in range(5_000)]
    assert len(value_changes("", lines, lines[1:])) <= 100
