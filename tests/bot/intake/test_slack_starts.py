"""When an alert that was posted in Slack began, by its fields."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultline.bot.intake.slack_facts import began_at
from faultline.bot.intake.slack_layout import layout_of
from faultline.bot.intake.slack_payload import Message

POSTED = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)


def began(text: str) -> float:
    """Minutes before it was posted."""
    ago = POSTED - began_at(layout_of(Message.model_validate({"text": text})), POSTED)
    return ago.total_seconds() / 60


@pytest.mark.parametrize(
    ("field", "minutes"),
    [
        ("Started: 2026-11-20T09:30:00Z", 30),
        ("Started: 2026-11-20 09:30 UTC", 30),
        ("Started: 2026-11-20 09:30:30.123 GMT", 29.5),
        ("Started: 2026-11-20T11:30:00+02:00", 30),
        ("Started: 2026-11-20T04:00:00-0530", 30),
        ("Started: 1795165200", 60),
        # Without a zone it may be a local time: believed up to an hour back.
        ("Started: 2026-11-20 09:00", 60),
        ("Started: 2026-11-20 08:59", 0),
        # With one, up to a week.
        ("Started: 2026-11-13T10:00:00Z", 7 * 24 * 60),
        ("Started: 2026-11-13T09:59:59Z", 0),
        # Clocks differ by minutes.
        ("Started: 2026-11-20T10:05:00Z", -5),
        ("Started: 2026-11-20T10:05:01Z", 0),
        ("Started: 2026-13-40T10:05:01Z", 0),
        ("Duration: 1 h 5 min", 65),
        ("Duration: 2 days 1 second", 2 * 24 * 60 + 1 / 60),
        ("Duration: 7 days", 7 * 24 * 60),
        ("Duration: 8 days", 0),
        ("Duration: 0 s", 0),
        ("Duration: long", 0),
        # The first field that says a time, of the start before the duration.
        ("Duration: 5 min\nStarted: soon\nSince: 2026-11-20T09:50:00Z", 10),
        ("High CPU since 2026-11-20T09:55:00Z", 5),
        ("one\ntwo", 0),
    ],
)
def test_the_start_is_read_of_fields(field: str, minutes: float) -> None:
    assert began(f"High CPU\n{field}") == pytest.approx(minutes)


def test_a_message_without_a_time_began_when_it_was_posted() -> None:
    later = POSTED + timedelta(hours=1)
    assert began_at(layout_of(Message.model_validate({"text": "High CPU"})), later) == later
