"""Rows of a table from the entries of an answer, by the expressions of the settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from faultline.analysis.case.tables import SCHEMAS
from faultline.connectors.shared.rows.collection_builder import attributes, nanoseconds, time_of
from faultline.connectors.shared.rows.expressions import NEEDED, searched, shallow_json, since_1970
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short

MOST_ENTRIES = 10_000
LONGEST = {"message": 8000, "title": 500, "value": 500, "expected": 500}
LONGEST_DEFAULT = 300
KINDS = frozenset({"deploy", "config", "flag", "scale", "migration", "merge"})
"""What a change may be: docs/case-folder.md."""
Row = tuple[Any, ...]
Reader = Callable[[Any, str, str], Any]
"""From what an expression found, the column and the table, to the column's value."""


@dataclass(frozen=True)
class EntryMapping:
    """How entries are read. `columns`: JMESPath by column."""

    table: str
    items: str | None
    columns: Mapping[str, str]
    names: ServiceNames


@dataclass
class ReadEntries:
    """Rows in the order of their table's columns, and what was left out."""

    rows: list[Row] = field(default_factory=list)
    unusable: int = 0
    more: int = 0

    @property
    def cut(self) -> str | None:
        """What the item says was left out."""
        reasons = []
        if self.unusable:
            reasons.append(f"{self.unusable} entries without a usable value in a needed column")
        if self.more:
            reasons.append(f"{self.more} entries beyond the first {MOST_ENTRIES}")
        return " and ".join(reasons) + " left out" if reasons else None


def read_entries(body: bytes, how: EntryMapping, service: str | None, query: str) -> ReadEntries:
    """The rows of an answer. Raises ValueError saying what is wrong with it."""
    try:
        value = shallow_json(body)
    except ValueError as error:
        raise ValueError(f"the answer {error}") from None
    entries = _lookup("items", how.items, value) if how.items else value
    # JMESPath finds null where a path does not exist: the answer holds no entries.
    if entries is None:
        entries = []
    if not isinstance(entries, list):
        raise ValueError(f"items ({how.items or 'the answer'}) is not a list")
    result = ReadEntries(more=max(0, len(entries) - MOST_ENTRIES))
    for entry in entries[:MOST_ENTRIES]:
        row = _row(entry, how, service, query)
        if row is None:
            result.unusable += 1
        else:
            result.rows.append(row)
    return result


def _row(entry: Any, how: EntryMapping, service: str | None, query: str) -> Row | None:
    values: dict[str, Any] = {"service": service, "query": query}
    for column, expression in how.columns.items():
        raw_value = _lookup(f"columns.{column}", expression, entry)
        read: Reader = READERS.get(column, _text)
        values[column] = read(raw_value, column, how.table)
    if any(values.get(column) in (None, "") for column in NEEDED[how.table]):
        return None
    if values["service"]:
        values["service"] = how.names.ours(values["service"])
    if how.table == "changes":
        if values["kind"] not in KINDS:
            return None
        # An id made from the change itself stays the same in every collection.
        values["id"] = values.get("id") or f"{values['time']}-{values['title'][:40]}"
    # `evidence` of a log line is added where it is known which item it came with.
    columns = [name for name in SCHEMAS[how.table].columns if name != "evidence"]
    return tuple(values.get(column) for column in columns)


def _lookup(field: str, expression: str, value: Any) -> Any:
    try:
        return searched(expression, value)
    except ValueError as error:
        raise ValueError(f"{field} ({expression}) {error}") from None


def _text(value: Any, column: str, table: str) -> str | None:
    if isinstance(value, bool):
        value = str(value).lower()
    if not isinstance(value, (str, int, float)):
        return None
    longest = LONGEST.get(column, LONGEST_DEFAULT)
    return short(str(value)[: 4 * longest], longest) or None


def _time(value: Any, column: str, table: str) -> int | None:
    # Digits as text are a Unix time; any other text must be RFC 3339.
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
        return time_of(value)
    at = since_1970(value)
    return nanoseconds(at) if at is not None else None


def _value(value: Any, column: str, table: str) -> Any:
    if table != "metrics":
        return _text(value, column, table)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value[:40] if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _object(value: Any, column: str, table: str) -> str | None:
    return attributes(value) if isinstance(value, dict) else None


def _link(value: Any, column: str, table: str) -> str | None:
    text = _text(value, column, table)
    # Foreign text: nothing but https becomes a link.
    return text if text and text.startswith("https://") and " " not in text else None


READERS: Mapping[str, Reader] = {
    "time": _time,
    "since": _time,
    "value": _value,
    "labels": _object,
    "attributes": _object,
    "link": _link,
}
