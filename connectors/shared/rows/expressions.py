"""Values out of anybody's JSON by JMESPath expressions of the settings.

Both the expressions and what they are applied to are bounded: JMESPath walks a value by recursion.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

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
