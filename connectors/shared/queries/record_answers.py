"""Rows of named columns, as KQL and Logs Insights answer them, as rows of `metrics` or `logs`.

A query that counts brings series: each number is one, its labels are the row's other columns. Any
other query brings lines, which need a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.queries.pipe_queries import NEW_NAME, PipeQuery
from faultline.connectors.shared.queries.querying import (
    LONGEST_SIGNAL,
    RECORD,
    first_points,
    query_answer,
)
from faultline.connectors.shared.rows.collection_builder import attributes, nanoseconds
from faultline.connectors.shared.vendor_text import short

Record = Mapping[str, Any]
LONGEST_LINE = 4_000
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_LONG_FRACTION = re.compile(r"(\.\d{6})\d+")
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?")
_UNTOLD = re.compile(rf"_.*|@ptr|TenantId|SourceSystem|Type|Column\d+|{NEW_NAME.pattern}")
"""Columns that say nothing of a row, or that the query made: left out of a line."""


@dataclass(frozen=True)
class RecordColumns:
    """Where a row has its service, its line and the id of its trace. `named` is our name of a
    service."""

    service: str = ""
    message: str = ""
    trace: str = ""
    named: Callable[[str], str] = str


def records_answer(
    query: BoundedQuery,
    taken: PipeQuery,
    records: Sequence[Record],
    columns: RecordColumns,
    *,
    link: str | None,
    cut: str | None = None,
) -> Collected:
    """The rows and their item; what is left out is said in its `cut`."""
    reader = _Reader(query, taken, columns)
    remaining_records = records[: taken.most]
    made = [
        reader.series(remaining_record) if taken.counts else reader.line(remaining_record)
        for remaining_record in remaining_records
    ]
    empty = sum(1 for rows in made if not rows)
    notes = [cut] if cut else []
    # A full answer may be cut: the server stops at the limit without saying so.
    if len(records) >= taken.most:
        notes.append(f"the first {taken.most} rows")
    if empty:
        lack = "number" if taken.counts else "time"
        notes.append(f"{empty} rows without a {lack} left out")
    rows = [row for part in made for row in part]
    kind: EvidenceKind = "logs"
    if taken.counts:
        kind = "metrics"
        rows, left_out = first_points(rows, query)
        notes += [left_out] if left_out else []
    return query_answer(kind, rows, query, link, "; ".join(notes) or None)


@dataclass(frozen=True)
class _Reader:
    query: BoundedQuery
    taken: PipeQuery
    columns: RecordColumns

    def series(self, record: Record) -> list[tuple[Any, ...]]:
        """One point of each number; of a row without a time, at the end of what was asked."""
        times = [name for name, value in record.items() if _time(value) is not None]
        at = _time(record[times[0]]) if times else None
        numbers: dict[str, float] = {}
        labels: dict[str, str] = {}
        for name, value in record.items():
            # A column that the query counts by is a label, also where it is a number like a
            # status.
            number = None if name in self.taken.keys else _number(value)
            if number is not None:
                numbers[name] = number
            # Only the first time is the row's own; another one tells series apart.
            elif name not in times[:1] and name != self.columns.service:
                labels[name] = _text(value)
        label_text = attributes(labels)
        rows: list[tuple[Any, ...]] = []
        for name, number in numbers.items():
            signal = short(f"{name} of {self.query.text}", LONGEST_SIGNAL)
            when = nanoseconds(at or self.query.window.end)
            rows.append((when, self._service(record), signal, number, None, label_text))
        return rows

    def line(self, record: Record) -> list[tuple[Any, ...]]:
        """The row's line of a log, or its columns as one."""
        at = next((time for v in record.values() if (time := _time(v)) is not None), None)
        if at is None:
            return []
        message = _text(record.get(self.columns.message)).strip()
        made_of = None
        if not message:
            shown = {n: _text(v) for n, v in record.items() if _time(v) != at}
            pairs = (f"{n}={v}" for n, v in shown.items() if v and not _UNTOLD.fullmatch(n))
            message, made_of = ", ".join(pairs), RECORD
        trace = _text(record.get(self.columns.trace)) or None
        service = self._service(record)
        return [(nanoseconds(at), service, message[:LONGEST_LINE], None, trace, made_of)]

    def _service(self, record: Record) -> str | None:
        theirs = _text(record.get(self.columns.service))
        return self.columns.named(theirs) if theirs else self.query.service


def _time(value: Any) -> datetime | None:
    if not isinstance(value, str) or len(value) > 40 or not _TIME.match(value):
        return None
    try:
        # KQL writes seven digits of a second; a datetime holds six.
        at = datetime.fromisoformat(_LONG_FRACTION.sub(r"\1", value))
    except ValueError:
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return at if 2000 <= at.year < 2100 else None


def _number(value: Any) -> float | None:
    # Logs Insights answers every value as text.
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
        return None
    return float(value) if math.isfinite(value) else None


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    return str(value)[:LONGEST_LINE] if isinstance(value, (str, int, float)) else ""
