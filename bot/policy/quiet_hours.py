"""Quiet hours: until when a channel is left alone. Reckoned in instants, so that a change of clocks
is no matter."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from faultline.bot.settings.alerts import DAYS, ChannelSettings, quiet_times

DAY = timedelta(days=1)
MIDNIGHT = time(0)
MOST_SPANS = 16
"""Quiet hours that follow each other without a break, at most: six days, and the nights between."""


def quiet_until(channel: ChannelSettings, now: datetime) -> datetime | None:
    """When the quiet that holds now ends, in UTC; None when it is not quiet."""
    end = None
    for _ in range(MOST_SPANS):
        span_end = _end_of_quiet(channel, end or now)
        if span_end is None:
            break
        end = span_end
    return end


def _end_of_quiet(channel: ChannelSettings, at: datetime) -> datetime | None:
    zone = ZoneInfo(channel.time_zone)
    today = at.astimezone(zone).date()
    ends = []
    for day in (today - DAY, today, today + DAY):
        spans = (
            [(_instant(day, MIDNIGHT, zone), _instant(day + DAY, MIDNIGHT, zone))]
            if DAYS[day.weekday()] in channel.quiet_days
            else []
        )
        spans += [_hours(day, channel.quiet, zone)] if channel.quiet else []
        ends += [end for start, end in spans if start <= at < end]
    return max(ends, default=None)


def _hours(day: date, quiet: str, zone: ZoneInfo) -> tuple[datetime, datetime]:
    start, end = quiet_times(quiet)
    return _instant(day, start, zone), _instant(day if start < end else day + DAY, end, zone)


def _instant(day: date, at: time, zone: ZoneInfo) -> datetime:
    """A local time as an instant; one that the clocks skip is an hour later, one that they show
    twice the first."""
    return datetime.combine(day, at, zone).astimezone(UTC)
