"""What the findings of each kind say: in full, in short, in the past and after their cause."""

from __future__ import annotations

import tomllib
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
@pytest.mark.parametrize("group", ["numbers", "details", "series", "signal"])
def test_a_finding_that_lacks_something_still_says_a_sentence(
    row: dict[str, Any], group: str
) -> None:
    lacking = finding_of({key: value for key, value in row.items() if key != group})
    said = str(statement(lacking).clause())
    assert said
    assert "None" not in said
