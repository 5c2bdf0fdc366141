"""Error Reporting: groups of errors as log lines, and how many there were.

`projects.groupStats.list` of the Error Reporting API v1beta1. It only tells of times that end now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import attributes, nanoseconds, time_of
from faultline.connectors.shared.rows.log_windows import LONGEST_LINE, Row
from faultline.connectors.shared.vendor_text import short

MOST_GROUPS = 50
SIGNAL = "error_rate"


@dataclass(frozen=True)
class Period:
    """A time that can be asked about, and the steps in which errors are counted in it."""

    name: str
    length: timedelta
    step_s: int


PERIODS = (
    Period("PERIOD_1_HOUR", timedelta(hours=1), 60),
    Period("PERIOD_6_HOURS", timedelta(hours=6), 60),
    Period("PERIOD_1_DAY", timedelta(days=1), 300),
)
"""Longer ones would be counted in steps that show nothing within an incident."""


def period_of(window: Window, now: datetime) -> Period | None:
    """The shortest that holds the window's beginning; None where it lies too far back."""
    return next((period for period in PERIODS if window.start > now - period.length), None)


class _Group(msgspec.Struct):
    groupId: str = ""
    resolutionStatus: str = ""


class _Context(msgspec.Struct):
    service: str = ""
    version: str = ""


class _Event(msgspec.Struct):
    eventTime: str = ""
    message: str = ""
    serviceContext: _Context = msgspec.field(default_factory=_Context)


class _TimedCount(msgspec.Struct):
    startTime: str = ""
    count: str = "0"


class ErrorGroup(msgspec.Struct):
    group: _Group = msgspec.field(default_factory=_Group)
    count: str = "0"
    affectedUsersCount: str = ""
    firstSeenTime: str = ""
    lastSeenTime: str = ""
    timedCounts: list[_TimedCount] = []
    representative: _Event = msgspec.field(default_factory=_Event)


class GroupsAnswer(msgspec.Struct):
    errorGroupStats: list[ErrorGroup] = []
    nextPageToken: str = ""


def group_params(name: str, period: Period) -> list[tuple[str, str]]:
    """Groups of a service, those with most errors first."""
    return [
        ("serviceFilter.service", name),
        ("timeRange.period", period.name),
        ("timedCountDuration", f"{period.step_s}s"),
        ("order", "COUNT_DESC"),
        ("pageSize", str(MOST_GROUPS)),
    ]


def group_rows(groups: Iterable[ErrorGroup], service: str, window: Window, link: str) -> list[Row]:
    """A row of the table `logs` for each group: its representative event, where that lies in the
    window."""
    rows: list[Row] = []
    for group in groups:
        event = group.representative
        at = time_of(event.eventTime)
        if at is None or not event.message or not _in(at, window):
            continue
        group_fields = {
            "error_group": group.group.groupId,
            "first_seen": group.firstSeenTime,
            "last_seen": group.lastSeenTime,
            "count": group.count,
            "affected_users": group.affectedUsersCount,
            "version": event.serviceContext.version,
            "status": group.group.resolutionStatus,
            "url": f"{link}/{short(group.group.groupId, 60)}",
        }
        message = event.message[:LONGEST_LINE]
        rows.append((at, service, message, "error", None, attributes(group_fields)))
    return rows


def rate_rows(groups: Iterable[ErrorGroup], service: str, window: Window, step_s: int) -> list[Row]:
    """Errors per minute in each step, by the moment it begins. None counted is 0."""
    counted: dict[int, float] = {}
    for group in groups:
        for step in group.timedCounts:
            at = time_of(step.startTime)
            # Google's JSON holds 64-bit numbers as text.
            count = step.count if step.count.isascii() and step.count.isdigit() else ""
            if at is not None and count and len(count) < 16 and _in(at, window):
                counted[at] = counted.get(at, 0.0) + float(count)
    # No count at all may mean that the service does not report its errors here.
    if not counted:
        return []
    step_ns = step_s * 1_000_000_000
    # Go back to the window's start on the grid of Google's steps.
    first = min(counted)
    first -= (first - nanoseconds(window.start)) // step_ns * step_ns
    rows: list[Row] = []
    for at in range(first, nanoseconds(window.end), step_ns):
        value = counted.get(at, 0.0) * 60 / step_s
        rows.append((at, service, SIGNAL, value, "1/min", None))
    return rows


def _in(at: int, window: Window) -> bool:
    return nanoseconds(window.start) <= at < nanoseconds(window.end)
