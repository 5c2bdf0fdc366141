"""What the parts of the AWS connector hand to each other: places, resources of services, and what
was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.vocabulary import EvidenceKind, Scope, Window
from faultline.connectors.shared.contract.base import Collected, Item, Missing
from faultline.connectors.shared.rows.collection_builder import full_window, rows_table
from faultline.connectors.shared.vendor_text import short

LONGEST = 500
LOOKBACK = timedelta(hours=24)
"""Changes are asked from that long before the earliest window: a deploy may take a day to do
harm."""


@dataclass
class AwsEvidence:
    """Rows by table in the order of its columns, items, and what is missing."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """Add rows; how many they were."""
        row = self.rows.setdefault(table, [])
        before = len(row)
        row.extend(rows)
        return len(row) - before

    def lacks(self, kind: EvidenceKind, query: str, reason: object) -> None:
        """Note what could not be collected."""
        self.missing.append(Missing(kind, query, str(reason)))


def collected(parts: Iterable[AwsEvidence]) -> Collected:
    """All of it as tables."""
    rows: dict[str, dict[tuple[Any, ...], None]] = {}
    items: list[Item] = []
    missing: dict[Missing, None] = {}
    for part in parts:
        for name, row in part.rows.items():
            # Parts may bring the same row, which must count once.
            rows.setdefault(name, {}).update(dict.fromkeys(row))
        items += part.items
        missing.update(dict.fromkeys(part.missing))
    tables = {}
    for name in sorted(rows):
        schema = SCHEMAS[name].columns
        tables[name] = rows_table(rows[name], schema)
    return Collected(tables, tuple(items), tuple(missing))


def changes_window(scope: Scope) -> Window:
    """When changes are looked for."""
    span = full_window(scope)
    return Window(start=span.start - LOOKBACK, end=span.end)


def words(value: Any, limit: int = LONGEST) -> str:
    """Anything as one bounded line."""
    if value is None:
        return ""
    return short(value if isinstance(value, str) else repr(value), limit)


def moment(value: Any) -> datetime | None:
    """A time as boto3 or JSON gives it, in UTC; None for what is none."""
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
    return at if 1971 <= at.year < 2200 else None


def seconds(value: Any) -> datetime | None:
    """A time in seconds since 1970, in UTC."""
    # 7e9 s is the year 2191: a larger number is in another unit.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 7e9:
        return None
    return datetime.fromtimestamp(value, UTC)


def within(at: datetime | None, window: Window, slack: timedelta = timedelta(minutes=1)) -> bool:
    """Whether a moment is in the window, a minute's difference of clocks allowed."""
    return at is not None and window.start - slack <= at <= window.end + slack


def cut_note(count: int, *, more: bool, what: str) -> str | None:
    """What `Item.cut` says where a list was longer than is taken."""
    return f"only {count:,} {what} were taken; there are more" if more else None
