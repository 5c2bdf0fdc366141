"""Quiet hours, through changes of clocks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultline.bot.policy.admission import quiet_until
from faultline.bot.settings.alerts import ChannelSettings

BERLIN = ChannelSettings(quiet="22:00-07:00", time_zone="Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-11-20T20:59", None),
        ("2026-11-20T21:00", "2026-11-21T06:00"),
        ("2026-11-21T03:00", "2026-11-21T06:00"),
        ("2026-11-21T05:59", "2026-11-21T06:00"),
        ("2026-11-21T06:00", None),
        ("2026-07-20T20:00", "2026-07-21T05:00"),
        ("2026-03-28T21:00", "2026-03-29T05:00"),  # the night the clocks go forward: eight hours
        ("2026-10-24T20:00", "2026-10-25T06:00"),  # the night they go back: ten
    ],
)
def test_a_night_is_quiet_by_the_clock_on_the_wall(now: str, end: str | None) -> None:
    assert quiet_until(BERLIN, utc(now)) == (utc(end) if end else None)


def test_an_end_that_the_clocks_show_twice_is_the_first_and_one_they_skip_comes_later() -> None:
    early = ChannelSettings(quiet="22:00-02:30", time_zone="Europe/Berlin")
    assert quiet_until(early, utc("2026-10-24T23:00")) == utc("2026-10-25T00:30")
    assert quiet_until(early, utc("2026-10-25T01:15")) is None
    assert quiet_until(early, utc("2026-03-29T00:00")) == utc("2026-03-29T01:30")


def test_quiet_days_and_nights_that_touch_are_one() -> None:
    weekend = ChannelSettings(
        quiet="18:00-08:00", quiet_days=("sat", "sun"), time_zone="America/New_York"
    )
    friday = utc("2026-11-20T23:30")
    assert quiet_until(weekend, friday) == utc("2026-11-23T13:00")
    assert quiet_until(weekend, utc("2026-11-23T13:00")) is None


def test_hours_within_a_day_and_no_quiet_at_all() -> None:
    lunch = ChannelSettings(quiet="12:00-13:00")
    assert quiet_until(lunch, utc("2026-11-20T12:30")) == utc("2026-11-20T13:00")
    assert quiet_until(lunch, utc("2026-11-20T00:30")) is None
    assert quiet_until(ChannelSettings(), utc("2026-11-20T00:30")) is None


def test_six_quiet_days_end_on_the_seventh() -> None:
    rare = ChannelSettings(quiet_days=("mon", "tue", "wed", "thu", "fri", "sat"))
    assert quiet_until(rare, utc("2026-11-16T00:00")) == utc("2026-11-22T00:00")
