"""A tool result in a few lines, for a conversation that no longer fits the server's context.

The row that a finding or observation may be cited for stays with its id and the beginning of what
it says. So does the line that names a result that is kept whole and can be read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from faultline.bot.answer.writer.payload import as_data

SHORTENED = "shortened; rows without an id were left out"
MOST_ROWS = 24
LONGEST_ROW = 200
"""Characters. A finding's sentence is rarely longer."""
LONGEST_DIGEST, SHORTEST_ROW = 6_000, 110
"""Characters, about 2,000 tokens: 50 observations have room."""
_CITED = re.compile(r"\[([FL]\d{1,5})\] ")
_OUR_PREFIXES = ("provenance: ", "error: ", "cut: ")
"""Lines of ours that stay."""


def in_short(result: str) -> str:
    """The result with the lines that count, cut; as it was, where that is no shorter, or where it
    holds no rows."""
    lines = _lines(result)
    if SHORTENED in lines[:1] or not any(map(_CITED.match, lines)):
        return result
    rows = [line[:LONGEST_ROW] for line in lines if _CITED.match(line)]
    ours = [line[:LONGEST_ROW] for line in lines if line.startswith(_OUR_PREFIXES)]
    left_out = [f"{len(rows) - MOST_ROWS} more rows"] if len(rows) > MOST_ROWS else []
    shortened = as_data([SHORTENED, *ours, *rows[:MOST_ROWS], *left_out])
    return shortened if len(shortened) < len(result) else result


def observed(results: Iterable[str]) -> str:
    """What all results showed that may be cited, once each: the first rows of every result before
    the later ones of any. Empty where there is nothing. For a server whose context does not even
    hold the results in short."""
    lines_by_id: dict[str, tuple[int, str]] = {}
    # From the end, so that the latest row of an id counts.
    for result in reversed(list(results)):
        cited = [(match[1], line) for line in _lines(result) if (match := _CITED.match(line))]
        for place, (name, line) in enumerate(cited):
            lines_by_id.setdefault(name, (place, line[:SHORTEST_ROW]))
    lines: list[str] = []
    left = LONGEST_DIGEST
    # Findings are in the document too, observations nowhere else.
    for name in sorted(
        lines_by_id, key=lambda name: (not name.startswith("L"), lines_by_id[name][0])
    ):
        left -= len(lines_by_id[name][1])
        if left < 0:
            break
        lines.append(lines_by_id[name][1])
    return as_data(lines) if lines else ""


def _lines(result: str) -> list[str]:
    return [line for line in result.split("\n") if line not in ("<data>", "</data>")]
