"""Values of Datadog's answers that never fail, and text made fit for its query languages. All of it
is hostile."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from faultline.connectors.shared.vendor_text import short

LONGEST_TEXT = 4000
"""Characters kept of a message or an attribute."""
MOST_ATTRIBUTES = 40
LONGEST_TAG = 200
"""Datadog's own limit on a tag (docs.datadoghq.com, "Getting Started with Tags")."""
EARLIEST_NS, LATEST_NS = 946_684_800_000_000_000, 4_102_444_800_000_000_000
"""2000 and 2100: a time outside is none."""
_NOT_IN_TAGS = re.compile(r"[^\w:./-]")


def table(value: Any) -> Mapping[str, Any]:
    """The object, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The texts of a list."""
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def text(value: Any, limit: int = 300) -> str:
    """One printable line; "" for what is neither text nor number."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    # Cut before `short` looks at each character.
    return short(str(value)[: 4 * limit], limit)


def message(value: Any) -> str:
    """A log's message as it came, its lines kept, but bounded and without what no terminal should
    be sent."""
    raw_text = value[: 2 * LONGEST_TEXT] if isinstance(value, str) else ""
    return "".join(c for c in raw_text if c.isprintable() or c in "\n\t")[:LONGEST_TEXT]


def number(value: Any) -> float | None:
    """A finite number, also from text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        float_value = float(value)
    except (ValueError, OverflowError):
        return None
    return float_value if math.isfinite(float_value) else None


def moment(value: Any) -> datetime | None:
    """An ISO 8601 time, or one in seconds, ms or ns since 1970, as UTC; None outside 2000-2100."""
    if isinstance(value, str) and len(value) <= 64:
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return None
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        return at.astimezone(UTC) if 2000 <= at.year < 2100 else None
    ns = nanoseconds(value)
    return None if ns is None else datetime.fromtimestamp(ns / 1e9, UTC)


def nanoseconds(value: Any) -> int | None:
    """A time in seconds, ms, us or ns since 1970 as ns; which it is tells its size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < LATEST_NS:
        return None
    for scale in (1, 1_000, 1_000_000, 1_000_000_000):
        ns = round(value * scale)
        if EARLIEST_NS <= ns < LATEST_NS:
            return ns
    return None


def tags(value: Any) -> dict[str, str]:
    """`key:value` tags by key, of equal keys the first; also from one text with commas."""
    listed = value.split(",") if isinstance(value, str) else texts(value)
    values_by_key: dict[str, str] = {}
    for tag in listed[:500]:
        key, mark, rest = text(tag, 2 * LONGEST_TAG).strip().partition(":")
        if mark and key and rest:
            values_by_key.setdefault(key.strip(), rest.strip())
    return values_by_key


def attributes(values: Mapping[str, Any]) -> str | None:
    """What has a value, as JSON; None where nothing has."""
    non_empty = {k: v for k, v in values.items() if v not in (None, "", [], {})}
    return (
        json.dumps(dict(list(non_empty.items())[:MOST_ATTRIBUTES]), sort_keys=True, default=str)
        if non_empty
        else None
    )


def inner(value: Mapping[str, Any], path: str) -> Any:
    """The value at `a.b.c`, whether nested or under the dotted key itself."""
    if path in value:
        return value[path]
    head, mark, rest = path.partition(".")
    return inner(table(value.get(head)), rest) if mark and head in value else None


def metric_tag(key: str, value: str) -> str:
    """`key:value` as a metric query takes it: Datadog stores tags in lower case, other characters
    as `_`."""
    return f"{key}:{_NOT_IN_TAGS.sub('_', value.lower())[:LONGEST_TAG]}"


def quoted(value: str) -> str:
    """A value as a search takes it, in quotes: nothing in it is syntax then."""
    # Backslashes first, or those before the quotes would be doubled.
    clean = short(value, LONGEST_TAG).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{clean}"'


def any_of(key: str, values: Iterable[str]) -> str:
    """`key:("a" OR "b")`."""
    return f"{key}:({' OR '.join(quoted(v) for v in values)})"
