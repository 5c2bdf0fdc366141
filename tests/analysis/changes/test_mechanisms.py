from __future__ import annotations

import pytest

from faultline.analysis.changes.mechanisms import read_altered, shown_by, strongest_match
from faultline.analysis.changes.text import read_change_text


def matched(
    diff: str, *effects: str, kind: str = "deploy", title: str = "", name: str = "c1"
) -> tuple[str | None, float]:
    found = strongest_match(
        shown_by(read_altered(read_change_text(title, None, diff), kind, name)), frozenset(effects)
    )
    return (found.mechanism.name if found.mechanism else None), found.strength


@pytest.mark.parametrize(
    ("diff", "effect", "name"),
    [
        ("-readTimeout(5000)\n+readTimeout(50)", "timeouts", "timeout"),
        (
            "-for chunk in batched(rows, 25):\n-    bulk_write(chunk)\n+for row in rows:\n+    "
            "write(row)",
            "throttling",
            "batching",
        ),
        ("+ALL = []\n+ALL.append(request)", "memory", "growth"),
        ("-defer rows.Close()", "connections", "release"),
        ("-  replicas: 8\n+  replicas: 2", "backlog", "less_capacity"),
        ("-    hit = cache.get(key)\n", "database", "cache"),
        ("-  level: info\n+  level: debug", "disk", "verbosity"),
        ("+ALTER TABLE orders ADD COLUMN note text;", "locks", "migration"),
        ("-  if user is None:\n-    return\n", "null", "guard"),
        ("+  with account.lock():", "locks", "locking"),
        ("-  - s3:PutObject # role orders", "access", "access"),
    ],
)
def test_what_a_change_does_is_held_against_what_is_seen(diff: str, effect: str, name: str) -> None:
    assert matched(diff, effect) == (name, 0.55)
    assert matched(diff)[0] is None


def test_a_mechanism_whose_effect_is_not_seen_says_nothing() -> None:
    assert matched("-  level: info\n+  level: debug", "access") == (None, 0.0)


def test_a_bounded_collection_is_no_leak() -> None:
    assert matched("+SEEN = lru(maxsize=256)\n+SEEN.add(item)", "memory")[0] is None


def test_a_small_step_of_a_value_counts_half() -> None:
    name, strength = matched("-  pool_size: 50\n+  pool_size: 48", "connections")
    assert name == "less_capacity"
    assert strength == pytest.approx(0.55 / 2)


def test_what_is_only_logged_does_nothing() -> None:
    assert matched('+    log.info("token expired for user",\n+        retry)', "access")[0] is None
    over_lines = '+    log.info("of %s (%s)",\n+        "token expired",\n+        "token denied")'
    assert matched(over_lines, "access")[0] is None
    after_it = '+    log.info("of %s",\n+        user)\n+  - s3:PutObject # role orders'
    assert matched(after_it, "access")[0] == "access"


def test_a_word_that_both_sides_have_is_not_changed() -> None:
    assert matched("-return parse(token)\n+return tidy(parse(token))", "access")[0] is None


def test_a_flag_says_by_its_name_what_it_is_about() -> None:
    assert matched("", "access", kind="flag", name="strict_token_check") == ("access", 0.55)
