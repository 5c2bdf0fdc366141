"""What the calls of one collection brought, put together as they come: rows by table, items, and
what is missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec
import polars as pl

from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Scope, Window
from faultline.connectors.shared.contract.base import Collected, Item, Missing
from faultline.connectors.shared.vendor_text import short

T = TypeVar("T")

EARLIEST_NS = 31_536_000_000_000_000
"""Earlier times (before 1971) are seconds or milliseconds that were taken for nanoseconds."""
LATEST_NS = 9_000_000_000_000_000_000
"""Later times (the year 2255) do not fit the tables."""
MOST_ATTRIBUTES, LONGEST_NAME, LONGEST_VALUE = 40, 100, 500
TRACE_NAMES = ("trace_id", "traceID", "traceid", "traceId", "otelTraceID", "TraceId")
"""What labels and fields that hold a trace's id are called."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = ("time", "start", "since", "last_seen")


@dataclass
class CollectionBuilder:
    """Tables in rows, items and gaps."""

    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """Add rows of a table in its canonical order of columns; gives how many they are.

        Times are in ns since 1970.
        """
        row = self.rows.setdefault(table, [])
        before = len(row)
        row.extend(rows)
        return len(row) - before

    def keep(
        self,
        kind: EvidenceKind,
        query: str,
        window: Window,
        rows: Sequence[tuple[Any, ...]],
        link: str | None,
        *,
        cut: str | None = None,
        by: str | None = None,
    ) -> None:
        """Rows as an item of their query. `by` is who wrote the query, where it was not us."""
        details = {"asked_by": by} if by else {}
        count = self.add(kind, rows)
        item = Item(kind, query, window, link, rows=count, cut=cut, details=details)
        self.items.append(item.holding(rows))

    def unasked(self, kind: EvidenceKind, has_services: bool, more: int) -> None:
        """The gaps where no service could be asked about, and for `more` that were not."""
        if more:
            reason = f"{more} more services were not asked about"
            self.missing.append(Missing(kind, "services in scope", reason))
        if not has_services:
            reason = "the alert names no service to ask about"
            self.missing.append(Missing(kind, "services", reason))

    async def fetch(self, kind: EvidenceKind, query: str, call: Awaitable[T]) -> T | None:
        """The call's answer; a call that fails becomes a gap and gives None."""
        try:
            return await call
        except FaultlineError as error:
            self.missing.append(Missing(kind, query, str(error)))
            return None

    def collected(self) -> Collected:
        """All of it, each row once."""
        tables = {name: _table(name, rows) for name, rows in self.rows.items()}
        return Collected(tables, tuple(self.items), tuple(self.missing))


def rows_table(rows: Iterable[tuple[Any, ...]], columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Rows in the order of these columns. A source that knows nothing of the last ones leaves them
    out."""
    full_rows = [(*row, *(None,) * (len(columns) - len(row))) for row in rows]
    return pl.DataFrame(full_rows, schema=dict(columns), orient="row")


def _table(name: str, rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    columns = SCHEMAS[name].columns
    # Times come as whole numbers, which polars takes as such and casts without rounding.
    raw: dict[str, pl.DataType] = {}
    for column, dtype in columns.items():
        raw[column] = pl.Int64() if column in _TIMES else dtype
    # Several queries may bring the same row, which must count once.
    table = rows_table(dict.fromkeys(rows), raw)
    times = [column for column in _TIMES if column in columns]
    return table.with_columns(pl.col(column).cast(columns[column]) for column in times)


def nanoseconds(at: datetime) -> int:
    """A time in ns since 1970, exactly."""
    # Divide whole numbers: a float of seconds rounds away microseconds.
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def ns_of(value: Any, unit: int = 1) -> int | None:
    """A time in units of that many ns, as ns since 1970; None where it is no time.

    `value` is a whole number, or its digits as text.
    """
    # Bound the digits first: converting a huge number takes long.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value * unit if 0 < value <= LATEST_NS // unit else None


def time_of(text: Any) -> int | None:
    """A time as RFC 3339 has it, in ns since 1970; None where it is none.

    Digits beyond microseconds are dropped.
    """
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            return None
        ns = nanoseconds(at)
    except (ValueError, OverflowError):
        return None
    return ns if 0 < ns <= LATEST_NS else None


def attributes(values: Mapping[str, Any]) -> str | None:
    """Names and texts as JSON, bounded; None where there are none."""
    texts: dict[str, str] = {}
    for name, value in values.items():
        if len(texts) >= MOST_ATTRIBUTES:
            break
        if value in (None, ""):
            continue
        # Cut before `short` looks at each character: a value may hold megabytes.
        shown_name = short(str(name)[:1000], LONGEST_NAME)
        texts[shown_name] = short(str(value)[:10_000], LONGEST_VALUE)
    if not texts:
        return None
    return msgspec.json.encode(texts, order="sorted").decode()


def full_window(scope: Scope) -> Window:
    """From where events begin to matter to the end of the incident."""
    return Window(start=scope.events_from, end=scope.incident.end)


def epoch_ms(at: datetime) -> int:
    """A time in ms since 1970."""
    return nanoseconds(at) // 1_000_000


def stamp(at: datetime) -> str:
    """A time in UTC as most vendors take it."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def sampled_windows(scope: Scope) -> tuple[Window, ...]:
    """For traces: the baseline window nearest to the incident, and the incident."""
    baseline = scope.baseline if scope.baseline_spans is None else scope.baseline_spans
    nearest = sorted(baseline, key=lambda w: w.end)[-1:]
    return tuple(dict.fromkeys((*nearest, scope.incident)))


def split(window: Window, count: int) -> list[Window]:
    """The window in equal parts.

    Servers give the latest entries first: asking for each part shows all of the window.
    """
    length = (window.end - window.start) / count
    # Multiply rather than add up, so that rounding does not accumulate.
    starts = [window.start + number * length for number in range(count)]
    # The last part ends with the window, whatever the division rounded.
    ends = [*starts[1:], window.end]
    return [Window(start=start, end=end) for start, end in zip(starts, ends, strict=True)]


def trace_of(named: Mapping[str, Any]) -> str:
    """The id of a trace that labels or fields hold; empty where they hold none."""
    for name in TRACE_NAMES:
        value = named.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


# Rows of the evidence tables with their columns by name, in the order of
# `faultline.analysis.case.tables`.
#
# Times are aware datetimes, but for spans and calls, whose ns count.

R = TypeVar("R")


def readable(rows: Iterable[R | None]) -> list[R]:
    """The rows of those entries of a vendor that could be read."""
    return [row for row in rows if row is not None]


class ChangeRow(NamedTuple):
    """A row of the table `changes`. `before` and `after` are the versions, the numbers of replicas
    or the values; `restored_by` is what writes the new state back where somebody undoes it by
    hand."""

    time: datetime
    service: str | None
    kind: str
    id: str
    title: str
    author: str | None = None
    link: str | None = None
    files: str | None = None
    diff: str | None = None
    before: str | None = None
    after: str | None = None
    restored_by: str | None = None


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
    `last_seen`, in ns since 1970. `certainty` is set where it is another than the source's."""

    caller: str
    callee: str
    source: str
    last_seen: int | None
    learned_in: str | None = None
    certainty: float | None = None


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
    restored_by: str | None = None
