"""What the findings of each kind say, in full and in short."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.vocabulary import Finding

TABLE = Path(__file__).with_name("sentences.toml")
ROWS = tomllib.loads(TABLE.read_text(encoding="utf-8"))["finding"]


@pytest.mark.parametrize("row", ROWS, ids=[row["says"] for row in ROWS])
def test_a_finding_says_its_sentence_in_full_and_in_short(row: dict[str, Any]) -> None:
    fields = {key: value for key, value in row.items() if key not in ("says", "in_short")}
    common = {"id": "F1", "subject": "payments", "strength": 0.9, "sentence": "Its sentence."}
    said = statement(Finding(**{**common, **fields}))
    assert str(said.clause()) == row["says"]
    assert str(said.short()) == row.get("in_short", row["says"])
