"""What the calls of one collection brought, put together as they come: rows by table, items, and
what is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
import polars as pl

from analysis.case.tables import SCHEMAS
from analysis.errors import FaultlineError
from analysis.vocabulary import EvidenceKind, Scope, Window
from connectors.base import Collected, Item, Missing
from connectors.http import short

T = TypeVar("T")

LATEST_NS = 9_000_000_000_000_000_000
"""Later times (the year 2255) do not fit the tables."""
MOST_ATTRIBUTES, LONGEST_NAME, LONGEST_VALUE = 40, 100, 500
TRACE_NAMES = ("trace_id", "traceID", "traceid", "traceId", "otelTraceID", "TraceId")
"""What labels and fields that hold a trace's id are called."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = ("time", "start", "since")


@dataclass
class Brought:
    """Tables in rows, items and gaps."""

    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """Rows of a table in its canonical order of columns, times in ns since 1970. Says how
        many."""
        own = self.rows.setdefault(table, [])
        before = len(own)
        own.extend(rows)
        return len(own) - before

    async def asked(self, kind: EvidenceKind, query: str, call: Awaitable[T]) -> T | None:
        """The call's answer; a call that fails becomes a gap and gives None."""
        try:
            return await call
        except FaultlineError as error:
            self.missing.append(Missing(kind, query, str(error)))
            return None

    def collected(self) -> Collected:
        """All of it, each row once."""
        return Collected(
            {n: _table(n, rows) for n, rows in self.rows.items()},
            tuple(self.items),
            tuple(self.missing),
        )


def _table(name: str, rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    columns = SCHEMAS[name].columns
    raw: dict[str, pl.DataType] = {
        c: pl.Int64() if c in _TIMES else dtype for c, dtype in columns.items()
    }
    table = pl.DataFrame(list(dict.fromkeys(rows)), schema=raw, orient="row")
    return table.with_columns(pl.col(c).cast(columns[c]) for c in _TIMES if c in columns)


def nanoseconds(at: datetime) -> int:
    """A time in ns since 1970, exactly."""
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def ns_of(value: Any, unit: int = 1) -> int | None:
    """A whole number, or its digits as text, of units of so many ns, as ns since 1970; None where
    it is no time."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value * unit if 0 < value <= LATEST_NS // unit else None


def time_of(text: Any) -> int | None:
    """A time as RFC 3339 has it, in ns since 1970; None where it is none. Digits beyond
    microseconds are dropped."""
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        at = datetime.fromisoformat(text)
        return ns if at.tzinfo is not None and 0 < (ns := nanoseconds(at)) <= LATEST_NS else None
    except (ValueError, OverflowError):
        return None


def attributes(values: Mapping[str, Any]) -> str | None:
    """Names and texts as JSON, bounded; None where there are none."""
    kept: dict[str, str] = {}
    for name, value in values.items():
        if len(kept) >= MOST_ATTRIBUTES:
            break
        if value not in (None, ""):
            kept[short(str(name)[:1000], LONGEST_NAME)] = short(str(value)[:10_000], LONGEST_VALUE)
    return msgspec.json.encode(kept, order="sorted").decode() if kept else None


def whole(scope: Scope) -> Window:
    """From where events begin to matter to the end of the incident."""
    return Window(start=scope.events_from, end=scope.incident.end)


def epoch_ms(at: datetime) -> int:
    """A time in ms since 1970."""
    return nanoseconds(at) // 1_000_000


def sampled_windows(scope: Scope) -> tuple[Window, ...]:
    """For traces: the baseline window nearest to the incident, and the incident."""
    baseline = scope.baseline if scope.baseline_spans is None else scope.baseline_spans
    nearest = sorted(baseline, key=lambda w: w.end)[-1:]
    return tuple(dict.fromkeys((*nearest, scope.incident)))


def parts(window: Window, count: int) -> list[Window]:
    """The window in equal parts: what is asked of each shows all of it, though servers give the
    latest first."""
    length = (window.end - window.start) / count
    starts = [window.start + n * length for n in range(count)]
    return [Window(start=a, end=b) for a, b in zip(starts, (*starts[1:], window.end), strict=True)]


def trace_of(named: Mapping[str, Any]) -> str:
    """The id of a trace that labels or fields hold; empty where they hold none."""
    return next((v for name in TRACE_NAMES if isinstance(v := named.get(name), str) and v), "")
