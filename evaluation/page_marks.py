"""Tables of docs/accuracy.md between their marks, each with the hash of the code it was measured
with.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`: what lies between is replaced, all
else is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from faultline.analysis.errors import EvidenceError

_PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
NOT_MEASURED = "Not measured yet."
_MEASURED = re.compile(r"^Measured with code `([0-9a-f]+)`\.$", re.MULTILINE)


def fill(page: str, tables: Mapping[str, str], code: str) -> str:
    """The page with those tables in their places, measured with that code. Raises EvidenceError for
    one that has no place."""
    places = {name for _, name, _, _ in _PLACE.findall(page)}
    for name in tables:
        if name not in places:
            raise EvidenceError("the page", f"has no place for the table {name!r}")

    def filled(place: re.Match[str]) -> str:
        name = place[2]
        if name not in tables:
            return place[0]
        return f"{place[1]}{tables[name]}\nMeasured with code `{code}`.\n{place[4]}"

    return _PLACE.sub(filled, page)


def with_empty_places_marked(page: str) -> str:
    """The page, which says of each table without a result that it was not measured."""
    return _PLACE.sub(lambda place: place[1] + (place[3] or f"{NOT_MEASURED}\n") + place[4], page)


def measured_with(page: str) -> dict[str, str]:
    """By table the hash of the code it was measured with; empty where it does not say."""
    matches_by_name = {}
    for _, name, text, _ in _PLACE.findall(page):
        matches = _MEASURED.findall(text)
        matches_by_name[name] = matches[-1] if matches else ""
    return matches_by_name


def older_than(page: str, code: str) -> list[str]:
    """The tables that were measured with other code, or do not say with which."""
    return [name for name, measured in measured_with(page).items() if measured != code]
