"""Rows of the evidence tables with their columns by name, in the order of
`faultline.analysis.case.tables`.

Times are aware datetimes, but for spans and calls, whose ns count.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple, TypeVar

R = TypeVar("R")


def readable(rows: Iterable[R | None]) -> list[R]:
    """The rows of those entries of a vendor that could be read."""
    return [row for row in rows if row is not None]


class ChangeRow(NamedTuple):
    """A row of the table `changes`."""

    time: datetime
    service: str | None
    kind: str
    id: str
    title: str
    author: str | None = None
    link: str | None = None
    files: str | None = None
    diff: str | None = None


class SpanTableRow(NamedTuple):
    """A row of the table `spans`."""

    trace_id: str
    span_id: str
    parent_id: str | None
    service: str
    operation: str
    start: int
    duration_us: float
    status: str
    attributes: str | None


class LogRow(NamedTuple):
    """A row of the table `logs`."""

    time: datetime
    service: str | None
    message: str | None
    level: str | None
    trace_id: str | None
    attributes: str | None


class CallRow(NamedTuple):
    """A row of the table `topology`: `source` tells that caller calls callee, and saw it last at
    `last_seen`, in ns since 1970."""

    caller: str
    callee: str
    source: str
    last_seen: int | None
    learned_in: str | None = None


class StateRow(NamedTuple):
    """A row of the table `states`: one thing that is wrong with one object."""

    kind: str
    name: str
    fact: str
    namespace: str | None = None
    service: str | None = None
    place: str | None = None
    field: str | None = None
    value: str | None = None
    expected: str | None = None
    since: datetime | None = None
    query: str | None = None
    link: str | None = None
