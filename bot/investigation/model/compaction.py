"""A tool result in a few lines, for a conversation that no longer fits the server's context.

The finding or observation that a row may be cited by stays with its id and what the row says. So
does the name of a result that is kept whole and can be read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from bot.answer.writer.payload import as_data

SHORTENED = "shortened_result"
MOST_ROWS = 24
LONGEST_ROW = 200
"""Characters. A finding's sentence is rarely longer."""
LONGEST_DIGEST, SHORTEST_ROW = 6_000, 110
"""Characters, about 2,000 tokens: the 40 observations that a conversation may make have room."""
OBSERVATION = '{"cite": "L'
SAYS = ("says", "sentence", "error", "note")
"""Fields of a row that hold its sentence, the best first."""
_CITABLE = re.compile(r"[FL]\d{1,5}")


def in_short(result: str) -> str:
    """The result as one line for each row that may be cited; as it was, where that is no shorter,
    or where it holds no rows."""
    rows = [row for row in map(_row, result.split("\n")) if row]
    if not rows or any(SHORTENED in row for row in rows[:1]):
        return result
    provenance = next((str(row["provenance"]) for row in rows if row.get("provenance")), "")
    kept = [short for short in map(_short, rows) if short]
    head: dict[str, Any] = {SHORTENED: provenance[:LONGEST_ROW]}
    if len(kept) > MOST_ROWS:
        head["rows_left_out"] = len(kept) - MOST_ROWS
    lines = [json.dumps(one, ensure_ascii=False) for one in (head, *kept[:MOST_ROWS])]
    shortened = as_data(lines)
    return shortened if len(shortened) < len(result) else result


def observed(results: Iterable[str]) -> str:
    """What all results showed that may be cited, once each, the latest first; empty where there is
    nothing. For a server whose context does not even hold the results in short."""
    found: dict[str, str] = {}
    for result in reversed(list(results)):
        for short in map(_short, map(_row, result.split("\n"))):
            if "cite" in short:
                row = {**short, "says": short["says"][:SHORTEST_ROW]}
                found.setdefault(short["cite"], json.dumps(row, ensure_ascii=False))
    lines: list[str] = []
    left = LONGEST_DIGEST
    # Findings are in the document too, observations nowhere else.
    for line in sorted(found.values(), key=lambda line: not line.startswith(OBSERVATION)):
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    return as_data(lines) if lines else ""


def _row(line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _short(row: Mapping[str, Any]) -> dict[str, str]:
    """The row's id and sentence; empty for a row that nobody could cite."""
    if row.get("kept_as"):
        return {"kept_as": str(row["kept_as"])[:LONGEST_ROW]}
    cite = row.get("cite") or row.get("id")
    said = next((str(row[name]) for name in SAYS if row.get(name)), "")
    if not isinstance(cite, str) or not _CITABLE.fullmatch(cite):
        return {"error": said[:LONGEST_ROW]} if row.get("error") else {}
    if not said:
        known = ((k, v) for k, v in row.items() if k not in ("cite", "id") and v is not None)
        said = ", ".join(f"{k} {v}" for k, v in known if isinstance(v, str | int | float))
    return {"cite": cite, "says": said[:LONGEST_ROW]}
