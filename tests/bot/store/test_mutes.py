"""Mutes, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from faultline.bot.store.store import Store
from faultline.bot.store.suppressed_alerts import LONGEST, Mutes

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_mute_holds_until_its_end(store: Store) -> None:
    mutes = Mutes(store.engine)
    assert (
        mutes.mute("f1", NOW + HOUR, "U1", "deploying", title="checkout p99", now=NOW) is not None
    )
    held = mutes.muted("f1", NOW + timedelta(minutes=59))
    assert held is not None
    assert (held.by, held.reason, held.title, held.until) == (
        "U1",
        "deploying",
        "checkout p99",
        NOW + HOUR,
    )
    assert mutes.muted("f1", NOW + HOUR) is None
    assert mutes.muted("f2", NOW) is None


def test_muting_again_moves_the_end_of_the_same_mute(store: Store) -> None:
    mutes = Mutes(store.engine)
    mutes.mute("f1", NOW + HOUR, "U1", "", title="checkout p99", now=NOW)
    mutes.mute("f1", NOW + 3 * HOUR, "U2", "longer", now=NOW)
    [held] = mutes.active(NOW + 2 * HOUR)
    assert (held.by, held.until, held.title) == ("U2", NOW + 3 * HOUR, "checkout p99")


def test_unmuting_ends_it_at_once(store: Store) -> None:
    mutes = Mutes(store.engine)
    mutes.mute("f1", NOW + HOUR, "U1", "", now=NOW)
    assert mutes.unmute("f1", now=NOW)
    assert mutes.muted("f1", NOW) is None
    assert mutes.active(NOW) == []
    assert not mutes.unmute("f1", now=NOW)


def test_a_mute_that_is_over_before_it_begins_is_none(store: Store) -> None:
    mutes = Mutes(store.engine)
    assert mutes.mute("f1", NOW, "U1", "", now=NOW) is None
    assert mutes.mute("", NOW + HOUR, "U1", "", now=NOW) is None
    assert mutes.active(NOW) == []


def test_nothing_is_muted_for_ever(store: Store) -> None:
    mutes = Mutes(store.engine)
    held = mutes.mute("f1", NOW + timedelta(days=36_500), "U1", "", now=NOW)
    assert held is not None
    assert held.until == NOW + LONGEST


def test_active_mutes_are_listed_by_their_end(store: Store) -> None:
    mutes = Mutes(store.engine)
    for name, hours in (("late", 3), ("soon", 1), ("middle", 2)):
        mutes.mute(name, NOW + hours * HOUR, "U1", "", now=NOW)
    assert [m.fingerprint for m in mutes.active(NOW)] == ["soon", "middle", "late"]


def test_hostile_words_are_kept_as_both_databases_take_them(store: Store) -> None:
    mutes = Mutes(store.engine)
    held = mutes.mute("f1", NOW + HOUR, "U\x001", "\ud800" * 9_000, now=NOW)
    assert held is not None
    assert len(held.reason) <= 500
    assert "\x00" not in held.by
