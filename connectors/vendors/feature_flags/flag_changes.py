"""What the connectors of flag services share: how a flip is worded, and what differs between a
flag's states.

A title that ends with `off -> on` is read by `faultline.analysis.changes.shipping`: a flag that was
set back before the onset is no suspect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from faultline.connectors.shared.vendor_text import short

MOST_LINES, LONGEST_VALUE, DEEPEST = 60, 120, 8
_ABOUT_PEOPLE = re.compile(
    r"constraint|condition|user|identit|target|segment|e?mail|context|\bips?\b|host", re.I
)
"""Parts of a flag's state that list whom it is for, of which only the name is shown."""
RENAMED = {"percentagePass": "percentage", "passPercentage": "percentage"}
"""Statsig's names end, or begin, like that of a password, whose value would be masked."""


def flip(flag: str, environment: str | None, action: str) -> str:
    """A title: the flag, where, and what was done."""
    where = f" in {short(environment, 60)}" if environment else ""
    return f"{short(flag, 100)}{where}: {action}"


def switched(on: bool) -> str:
    """What was done by a flag's switch."""
    return "off -> on" if on else "on -> off"


def state_diff(before: Any, after: Any) -> str | None:
    """What differs between two states as a unified diff of `path: value`; None where nothing
    does. Who is meant by a rule is not shown."""
    # Flatten first: vendors answer whole states, in which one value differs.
    old, new = dict(_leaves(before)), dict(_leaves(after))
    lines: list[str] = []
    for path in dict.fromkeys((*old, *new)):
        if old.get(path) == new.get(path):
            continue
        if path in old:
            lines.append(f"-{path}: {_shown(path, old[path])}")
        if path in new:
            lines.append(f"+{path}: {_shown(path, new[path])}")
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f" (and {len(lines) - MOST_LINES} more lines)"]
    return "\n".join(lines) or None


def _shown(path: str, value: Any) -> str:
    # Targeting rules hold user ids and e-mail addresses of customers.
    if _ABOUT_PEOPLE.search(path):
        return "(not shown)"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return short(str(value)[:1000], LONGEST_VALUE)


def _leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Each single value with its path. Entries of a list are called by their own name or id."""
    if depth > DEEPEST:
        return
    if isinstance(value, dict):
        # Bound width and depth: the state is foreign JSON of any size.
        for name, inner in list(value.items())[:500]:
            key = short(RENAMED.get(name, str(name)), 60)
            yield from _leaves(inner, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value[:100]):
            yield from _leaves(inner, f"{path}[{_called(inner, number)}]", depth + 1)
    else:
        yield path or "value", value


def _called(entry: Any, number: int) -> str:
    if isinstance(entry, dict):
        # An index would shift with each insertion and show the rest of the list as changed.
        for key in ("name", "groupName", "key", "id"):
            if isinstance(entry.get(key), str) and entry[key]:
                return short(entry[key], 40)
    return str(number)
