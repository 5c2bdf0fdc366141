"""What the findings of each kind say: in full, in short, in the past and after their cause."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.statement import Tense
from faultline.analysis.vocabulary import Finding

TABLE = Path(__file__).with_name("sentences.toml")
ROWS = tomllib.loads(TABLE.read_text(encoding="utf-8"))["finding"]
EXPECTED = {"says", "in_short", "over", "caused"}


def finding_of(row: dict[str, Any]) -> Finding:
    fields = {key: value for key, value in row.items() if key not in EXPECTED}
    common = {"id": "F1", "subject": "payments", "strength": 0.9, "sentence": "Its sentence."}
    return Finding(**{**common, **fields})


@pytest.mark.parametrize("row", ROWS, ids=[row["says"] for row in ROWS])
def test_a_finding_says_its_sentence(row: dict[str, Any]) -> None:
    said = statement(finding_of(row))
    assert str(said.clause()) == row["says"]
    assert str(said.short()) == row.get("in_short", row["says"])
    if "over" in row:
        assert str(said.clause(Tense.OVER)) == row["over"]
    if "caused" in row:
        assert str(said.caused) == row["caused"]


@pytest.mark.parametrize("row", ROWS, ids=[row["says"] for row in ROWS])
def test_a_finding_that_lacks_something_still_says_a_sentence(row: dict[str, Any]) -> None:
    for lacking in without_each(row):
        finding = finding_of(lacking)
        for clause in (statement(finding).clause(), statement(finding).short()):
            assert str(clause)
            assert "None" not in str(clause)


def without_each(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The row without each of its groups, and without each number, detail and label of a series."""
    for group in ("numbers", "details", "series", "signal"):
        yield {key: value for key, value in row.items() if key != group}
    for group in ("numbers", "details", "series"):
        for name in row.get(group, {}):
            yield {**row, group: {key: row[group][key] for key in row[group] if key != name}}


@pytest.mark.parametrize("row", ROWS, ids=[row["says"] for row in ROWS])
def test_no_sentence_has_a_space_too_many(row: dict[str, Any]) -> None:
    said = statement(finding_of(row))
    for clause in (said.clause(), said.short(), said.clause(Tense.OVER), said.caused):
        assert re.search(r"^ | $|  | [,.)]|\( ", str(clause)) is None
