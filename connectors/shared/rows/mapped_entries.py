"""Rows of a table from the entries of an answer, by the expressions of the settings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from faultline.analysis.case.tables import SCHEMAS
from faultline.connectors.shared.rows.collection_builder import attributes, nanoseconds, time_of
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short

# Values out of anybody's JSON by JMESPath expressions of the settings.
#
# Both the expressions and what they are applied to are bounded: JMESPath walks a value by
# recursion.

LONGEST_EXPRESSION = 500
"""Characters. Longer ones are a program, and its cost grows with its length."""
DEEPEST = 32
"""Objects and lists within each other."""
UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0.0, 1.0))
"""From which number on a time counts in fractions of a second, and how many make one."""


MappedTable = Literal["metrics", "logs", "changes", "states"]
"""Tables that the settings can map entries to."""
NEEDED: Mapping[str, tuple[str, ...]] = {
    "metrics": ("time", "signal", "value"),
    "logs": ("time", "message"),
    "changes": ("time", "kind", "title"),
    "states": ("kind", "name", "fact"),
}
"""The columns that a table cannot do without. `service` is the one asked about unless mapped."""
ALSO: Mapping[str, tuple[str, ...]] = {
    "metrics": ("service", "unit", "labels"),
    "logs": ("service", "level", "trace_id", "attributes"),
    "changes": ("service", "id", "author", "link"),
    "states": ("service", "namespace", "place", "field", "value", "expected", "since", "link"),
}


def _expression(value: str) -> str:
    # Only where one is written: the library is not loaded at every start.
    from jmespath import compile as compiled

    if len(value) > LONGEST_EXPRESSION:
        raise ValueError(f"must have {LONGEST_EXPRESSION} characters at most")
    try:
        compiled(value)
    except (ValueError, RecursionError):
        raise ValueError("is no JMESPath expression (jmespath.org)") from None
    return value


Expression = Annotated[str, AfterValidator(_expression)]
"""JMESPath."""


def check_columns(table: str, columns: Mapping[str, str]) -> None:
    """Raises ValueError for columns that the table does not have, and for those that it lacks."""
    column_names = NEEDED[table] + ALSO[table]
    for name in columns:
        if name not in column_names:
            raise ValueError(f"columns.{name}: {table} has {', '.join(column_names)}")
    for name in NEEDED[table]:
        if name not in columns:
            raise ValueError(f"columns.{name} must be set for {table}")


def shallow_json(body: bytes) -> Any:
    """The value of a JSON text. Raises ValueError saying what is wrong with it, for people."""
    try:
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    # Go level by level: recursion would fail on the very nesting that this refuses.
    level = [value]
    for _ in range(DEEPEST):
        nested: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                nested += node.values()
            elif isinstance(node, list):
                nested += node
        if not nested:
            return value
        level = nested
    raise ValueError(f"is nested deeper than {DEEPEST}")


def searched(expression: str, value: Any) -> Any:
    """What the expression finds. Raises ValueError where it does not fit the value."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.search(expression, value)
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError):
        raise ValueError("does not fit what was sent") from None


def since_1970(timestamp: Any) -> datetime | None:
    """A time in seconds, milliseconds, microseconds or nanoseconds since 1970, by its size."""
    if isinstance(timestamp, bool) or not isinstance(timestamp, (str, int, float)):
        return None
    try:
        number = float(timestamp[:40] if isinstance(timestamp, str) else timestamp)
    except (ValueError, OverflowError):
        return None
    # 4e18 ns since 1970 is the year 2096: nothing larger is a time of ours.
    if not math.isfinite(number) or not 0 <= number < 4e18:
        return None
    unit = next(per_s for least, per_s in UNITS if number >= least)
    return datetime.fromtimestamp(number / unit, UTC)


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
